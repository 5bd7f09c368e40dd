//! Scans of the heads of one repository's features, which the test reports itself.

use ralph_coordinator::domain::recall::Kind;
use ralph_coordinator::flow::memory::library::{self, ImportLine};
use ralph_coordinator::flow::memory::repo_scan::{self, Surveyed};
use ralph_coordinator::store;
use ralph_shared::ids::FeatureId;
use ralph_shared::sigil::TAG_CHARS;
use ralph_shared::wire::{
    KnowledgeFolder, KnowledgeText, NEVER_SCANNED, Rename, RepoScan, RepoScanOrder, sha256_hex,
};
use ralph_tests::harness::World;
use time::OffsetDateTime;

use super::scene;

fn folder(files: &[(&str, &str, &str)]) -> KnowledgeFolder {
    let text = |title: &str, body: &str| format!("---\ntitle: \"{title}\"\ntags: [kettle]\n---\n\n{body}\n");
    KnowledgeFolder {
        tree: (!files.is_empty()).then(|| format!("{files:?}")),
        files: files
            .iter()
            .map(|(name, title, body)| KnowledgeText {
                name: (*name).to_owned(),
                text: text(title, body),
                at_base: true,
            })
            .collect(),
        left_out: 0,
    }
}

async fn finds(world: &World, feature: FeatureId, knowledge: KnowledgeFolder) -> Surveyed {
    let found = RepoScan {
        head: "1".repeat(40),
        knowledge: Some(knowledge),
        ..RepoScan::default()
    };
    repo_scan::take(&world.db, feature, &found).await.unwrap()
}

async fn submit(world: &World, name: &str) -> FeatureId {
    scene::submit(world, name, "- {key: a, title: Boil}").await
}

async fn is_over(world: &World, feature: FeatureId) {
    sqlx::query("update features set state = 'done' where id = $1")
        .bind(feature.0)
        .execute(&world.db)
        .await
        .unwrap();
}

async fn order(world: &World, feature: FeatureId) -> RepoScanOrder {
    let mut conn = world.db.acquire().await.unwrap();
    let mut orders = store::memory::repo_scan::orders(&mut conn, &[feature.0])
        .await
        .unwrap();
    orders.remove(&feature.0).unwrap()
}

/// Bodies of the live entries that come from the repository's files.
async fn live(world: &World) -> Vec<String> {
    sqlx::query_scalar(
        "select body from knowledge
         where pruned_at is null and superseded_by is null and origin = 'repository'
         order by body",
    )
    .fetch_all(&world.db)
    .await
    .unwrap()
}

const KETTLE: (&str, &str, &str) = ("kettle.md", "The kettle boils", "At 100 degrees.");
const STOVE: (&str, &str, &str) = ("stove.md", "The stove burns", "Gas.");

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_no_open_feature_has_any_more_is_forgotten() {
    let world = scene::world().await;
    let first = submit(&world, "first").await;
    finds(&world, first, folder(&[KETTLE, STOVE])).await;
    assert_eq!(live(&world).await, ["At 100 degrees.", "Gas."]);
    let second = submit(&world, "second").await;
    let order_of_second = order(&world, second).await;
    assert_eq!(
        order_of_second.knowledge.as_deref(),
        Some(NEVER_SCANNED),
        "an empty folder is reported as well"
    );
    finds(&world, second, folder(&[STOVE])).await;
    assert_eq!(
        live(&world).await,
        ["At 100 degrees.", "Gas."],
        "the first feature's head still has it"
    );
    is_over(&world, first).await;
    let third = submit(&world, "third").await;
    let surveyed = finds(&world, third, folder(&[STOVE])).await;
    assert_eq!((surveyed.files, live(&world).await), (1, vec!["Gas.".to_owned()]));
    is_over(&world, second).await;
    is_over(&world, third).await;
    let fourth = submit(&world, "fourth").await;
    finds(&world, fourth, folder(&[])).await;
    assert!(live(&world).await.is_empty());
    assert_eq!(
        order(&world, fourth).await.knowledge,
        None,
        "the repository is known to have no folder"
    );
}

/// Bodies of the live entries, each with its origin.
async fn live_with_origin(world: &World) -> Vec<(String, String)> {
    sqlx::query_as(
        "select body, origin::text from knowledge where pruned_at is null and superseded_by is null order by body",
    )
    .fetch_all(&world.db)
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn knowledge_of_a_branch_does_not_replace_a_persons_entry() {
    let world = scene::world().await;
    let (first, second) = (submit(&world, "first").await, submit(&world, "second").await);
    let by_hand = ImportLine {
        title: "The stove burns".to_owned(),
        body: "Gas, says Ann.".to_owned(),
        ..about("k1", &[])
    };
    library::import(&world.db, "", &[by_hand]).await.unwrap();
    finds(&world, first, folder(&[KETTLE])).await;
    let landed = |files: &[(&str, &str, &str)]| {
        let mut folder = folder(files);
        folder.files.iter_mut().for_each(|file| file.at_base = false);
        folder
    };
    let of = |entries: &[(&str, &str)]| -> Vec<(String, String)> {
        let entries = entries.iter();
        entries
            .map(|(body, origin)| ((*body).to_owned(), (*origin).to_owned()))
            .collect()
    };
    let people = [("At 100 degrees.", "repository"), ("Gas, says Ann.", "import")];

    // A task landed these: one under the name of a file of the base branch, both under the titles of live
    // entries.
    let mine = [
        ("kettle.md", "The kettle boils", "Never."),
        ("mine.md", "The stove burns", "Petrol."),
    ];
    finds(&world, first, landed(&mine)).await;
    let beside = [("Never.", "attempt"), ("Petrol.", "attempt")];
    assert_eq!(
        live_with_origin(&world).await,
        of(&[&people[..], &beside[..]].concat())
    );
    // Another feature starts with the base branch's files.
    finds(&world, second, folder(&[KETTLE])).await;
    assert_eq!(
        live_with_origin(&world).await,
        of(&[&people[..], &beside[..]].concat())
    );

    // The branch replaces the file.
    let again = [("mine.md", "The stove burns", "Peat.")];
    let mut both = landed(&again);
    both.files.extend(folder(&[KETTLE]).files);
    finds(&world, first, both).await;
    let peat = [("Peat.", "attempt")];
    assert_eq!(
        live_with_origin(&world).await,
        of(&[&people[..], &peat[..]].concat())
    );

    // Once the base branch has the file, it counts as a person's word, whoever wrote it, and replaces their
    // earlier entry.
    let third = submit(&world, "third").await;
    finds(&world, third, folder(&[KETTLE, again[0]])).await;
    let merged = [("At 100 degrees.", "repository"), ("Peat.", "repository")];
    assert_eq!(live_with_origin(&world).await, of(&merged));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_feature_is_compared_with_the_latest_scanned_head() {
    let world = scene::world().await;
    let (first, second) = (submit(&world, "first").await, submit(&world, "second").await);
    assert_eq!(order(&world, first).await.since, None);
    let at = |head: &str| RepoScan {
        head: head.to_owned(),
        ..RepoScan::default()
    };
    for (feature, head) in [(first, "a"), (second, "b"), (first, "c")] {
        repo_scan::take(&world.db, feature, &at(head)).await.unwrap();
    }
    assert_eq!(order(&world, second).await.since.as_deref(), Some("b"));
    let third = submit(&world, "third").await;
    assert_eq!(order(&world, third).await.since.as_deref(), Some("c"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_file_that_cannot_be_stored_does_not_stop_the_others() {
    let world = scene::world().await;
    let feature = submit(&world, "kettle").await;
    // A tag too long for an index is cut.
    let tag: String = (0..100)
        .map(|n: i32| sha256_hex(n.to_string().as_bytes()))
        .collect();
    let mut long = folder(&[("pot.md", "The pot boils", "At 100 degrees too.")]);
    long.files[0].text = long.files[0].text.replace("[kettle]", &format!("[{tag}]"));
    let surveyed = finds(&world, feature, long).await;
    assert_eq!(surveyed.files, 1);
    let longest: i32 = sqlx::query_scalar("select max(length(tag)) from knowledge, unnest(tags) as tag")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(usize::try_from(longest).unwrap(), TAG_CHARS);

    finds(&world, feature, folder(&[KETTLE, STOVE])).await;
    sqlx::raw_sql("alter table knowledge add constraint no_wood check (body <> 'Wood.')")
        .execute(&world.db)
        .await
        .unwrap();
    let wood = ("stove.md", "The stove burns", "Wood.");
    let tea = ("tea.md", "Tea steeps", "For three minutes.");
    let surveyed = finds(&world, feature, folder(&[wood, KETTLE, tea])).await;
    assert_eq!(surveyed.files, 1);
    assert_eq!(
        live(&world).await,
        ["At 100 degrees.", "For three minutes.", "Gas."],
        "the earlier entry of the refused file stays"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repo_scan_is_stored_after_two_deadlocks() {
    let world = scene::world().await;
    let feature = submit(&world, "kettle").await;
    // A sequence doesn't repeat its numbers even if the transaction is rolled back.
    sqlx::raw_sql(
        "create sequence tries;
         create function fail_twice() returns trigger language plpgsql as $$
         begin
           if nextval('tries') <= 2 then
             raise exception 'deadlock detected' using errcode = '40P01';
           end if;
           return new;
         end $$;
         create trigger fail_twice before insert on knowledge for each row execute function fail_twice()",
    )
    .execute(&world.db)
    .await
    .unwrap();
    let surveyed = finds(&world, feature, folder(&[KETTLE])).await;
    assert_eq!(surveyed.files, 1);
    assert_eq!(live(&world).await, ["At 100 degrees."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_an_impossible_date_gets_the_current_date() {
    let world = scene::world().await;
    let feature = submit(&world, "kettle").await;
    let mut old = folder(&[KETTLE]);
    old.files[0].text = old.files[0]
        .text
        .replace("tags:", "created_at: \"0000-01-01T00:00:00+01:00\"\ntags:");
    finds(&world, feature, old).await;
    assert_eq!(live(&world).await, ["At 100 degrees."]);
    let is_new: bool = sqlx::query_scalar("select created_at > now() - interval '1 hour' from knowledge")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert!(is_new, "lists can show the date");
}

fn about(id: &str, paths: &[&str]) -> ImportLine {
    ImportLine {
        id: id.to_owned(),
        date: OffsetDateTime::now_utc() - time::Duration::days(3),
        title: format!("The kettle, {id}"),
        body: String::new(),
        paths: paths.iter().map(|&path| path.to_owned()).collect(),
        tags: vec!["kettle".to_owned()],
        kind: if id.starts_with('k') {
            Kind::Knowledge
        } else {
            Kind::Learning
        },
        category: None,
        feature: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn renames_of_one_scan_are_applied_once_and_together() {
    let world = scene::world().await;
    let feature = submit(&world, "kettle").await;
    let lines = [
        about("k1", &["b.rs", "a.rs"]),
        about("l1", &["a.rs", "c.rs"]),
        about("l2", &["b.rs"]),
        about("l3", &["c.rs"]),
        about("l4", &[]),
    ];
    // Nobody scans files for entries without a repository.
    sqlx::query("update features set repo_id = 'house'")
        .execute(&world.db)
        .await
        .unwrap();
    library::import(&world.db, "house", &lines).await.unwrap();
    let rename = |from: &str, to: &str| Rename {
        from: from.to_owned(),
        to: to.to_owned(),
    };
    // `b.rs` makes room for `a.rs`: learnings about `a.rs` have nothing to do with `new/b.rs`.
    let found = RepoScan {
        head: "1".repeat(40),
        renamed: vec![
            rename("a.rs", "b.rs"),
            rename("b.rs", "new/b.rs"),
            rename("nobody-knows.rs", "it.rs"),
        ],
        ..RepoScan::default()
    };
    let surveyed = repo_scan::take(&world.db, feature, &found).await.unwrap();
    assert_eq!(surveyed.renamed, 3);
    let paths: Vec<(String, String)> = sqlx::query_as(
        "select external_id, array_to_string(paths, ' ')
         from (select external_id, paths from learnings union all select external_id, paths from knowledge) e
         order by external_id",
    )
    .fetch_all(&world.db)
    .await
    .unwrap();
    let expected = [
        ("k1", "b.rs a.rs new/b.rs"),
        ("l1", "a.rs c.rs b.rs"),
        ("l2", "b.rs new/b.rs"),
        ("l3", "c.rs"),
        ("l4", ""),
    ];
    assert_eq!(
        paths,
        expected.map(|(id, paths)| (id.to_owned(), paths.to_owned()))
    );
    let unknown: i64 = sqlx::query_scalar("select count(*) from memory_paths where path = 'it.rs'")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(unknown, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_omitted_from_a_scan_still_count_as_part_of_its_head() {
    let world = scene::world().await;
    let (first, second) = (submit(&world, "first").await, submit(&world, "second").await);
    finds(&world, first, folder(&[KETTLE, STOVE])).await;
    let too_many = KnowledgeFolder {
        left_out: 1,
        ..folder(&[STOVE])
    };
    finds(&world, first, too_many).await;
    finds(&world, second, folder(&[STOVE])).await;
    assert_eq!(
        live(&world).await,
        ["At 100 degrees.", "Gas."],
        "the first feature's head may have it"
    );
    finds(&world, first, folder(&[STOVE])).await;
    assert_eq!(live(&world).await, ["Gas."]);
}
