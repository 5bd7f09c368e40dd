//! A memory full of entries that have nothing to do with the task at hand.

use ralph_coordinator::domain::recall::Kind;
use ralph_coordinator::flow::memory::library::{self, ImportLine};
use ralph_tests::harness::World;
use rand::prelude::*;
use time::{Duration, OffsetDateTime};

const TOPICS: [&str; 40] = [
    "button",
    "sidebar",
    "tooltip",
    "gradient",
    "animation",
    "invoice",
    "currency",
    "tax",
    "discount",
    "shipping",
    "warehouse",
    "barcode",
    "calendar",
    "timezone",
    "reminder",
    "newsletter",
    "avatar",
    "thumbnail",
    "gallery",
    "playlist",
    "podcast",
    "subtitle",
    "keyboard",
    "shortcut",
    "clipboard",
    "printer",
    "scanner",
    "bluetooth",
    "battery",
    "sensor",
    "thermostat",
    "recipe",
    "ingredient",
    "calorie",
    "workout",
    "stretching",
    "passport",
    "visa",
    "luggage",
    "itinerary",
];
const DOINGS: [&str; 12] = [
    "rename",
    "redesign",
    "localise",
    "round",
    "align",
    "sort",
    "export",
    "archive",
    "highlight",
    "validate",
    "resize",
    "translate",
];

/// Imports unrelated entries into the memory of features without a repository.
pub async fn fill(world: &World, entries: usize) {
    let mut random = StdRng::seed_from_u64(7);
    let start = OffsetDateTime::now_utc() - Duration::days(500);
    let lines: Vec<ImportLine> = (0..entries)
        .map(|n| {
            let mut topic = || *TOPICS.choose(&mut random).unwrap();
            let (one, other, third) = (topic(), topic(), topic());
            let doing = DOINGS.choose(&mut random).unwrap();
            ImportLine {
                id: format!("unrelated-{n}"),
                date: start + Duration::hours(5) * i32::try_from(n).unwrap(),
                title: format!("{doing} the {one} of the {other}"),
                body: format!("The {one} and the {third} have to {doing} together, number {n}."),
                paths: vec![format!("app/{one}/{other}.ts")],
                tags: vec![one.to_owned(), third.to_owned()],
                kind: Kind::Learning,
                category: None,
                feature: None,
            }
        })
        .collect();
    assert_eq!(library::import(&world.db, "", &lines).await.unwrap(), entries);
}
