//! Symbolic links that an attempt leaves for the next one: no reader and no writer follows them out of the
//! workspace.

use std::path::Path;

use ralph_coordinator::store;
use ralph_coordinator::store::feature::Text;
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World};

use crate::scene::Scene;

/// All paths below a folder, with the files' texts.
fn listed(folder: &Path) -> Vec<(String, String)> {
    let mut found = walk(folder);
    found.sort();
    found
}

fn walk(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        found.push((path.display().to_string(), text));
        if path.is_dir() && !path.is_symlink() {
            found.extend(walk(&path));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn links_that_an_attempt_leaves_lead_nobody_out_of_the_workspace() {
    let mut world = World::calm().await.unwrap();
    let config = "[workspace]\ncaches.deps = { path = \"deps\", key = [\"lock\"], setup = [\"rm -rf deps; mkdir deps; echo filled > deps/made\"] }\n";
    std::fs::write(world.dir().join(".ralph.toml"), config).unwrap();
    world.coordinator().await.unwrap();
    let outside = world.dir().join("outside");
    std::fs::create_dir_all(outside.join("context")).unwrap();
    std::fs::write(outside.join("secret"), "outside-word\n").unwrap();
    let before = listed(&outside);
    let out = outside.display();
    // The first attempt reports no result, so the second one begins with its files.
    let graph = format!(
        r#"
- key: links
  title: Leave links
  description: |
    @on-attempt 1 @run rm -rf deps .ralph; ln -s {out} deps; ln -s {out} .ralph; ln -s {out} folder; ln -s {out}/secret file; ln -s {out}/new new
    @on-attempt 1 @run ln -s {out} $HOME/.cache; ln -s {out} $HOME/.config; ln -s {out} $TMPDIR/kept; echo $HOME $TMPDIR > places
    @on-attempt 2 @run ls -A $HOME > homes; ls -A $TMPDIR > temporary
    @on-attempt 2 @fs-read file
    @on-attempt 2 @fs-read folder/secret
    @on-attempt 2 @fs-write new text
    @on-attempt 2 @fs-write folder/made text
    @on-attempt 2 @fs-write file text
    @on-attempt 2 @run cat file folder/secret > stolen; echo x > new; echo x > folder/by-hand; echo x > deps/by-hand
    @on-attempt 2 @done
- key: after
  title: Go on from what landed
  after: [links]
  description: |
    @fs-write folder/later text
    @fs-read file
    @write after.txt after
    @done
"#
    );
    let repository = {
        let dir = crate::scene::folder(&world, "links");
        let make = move || {
            ralph_tests::harness::Repository::create(&dir, &[("README", "hello\n"), ("lock", "zero\n")])
        };
        tokio::task::spawn_blocking(make).await.unwrap().unwrap()
    };
    let options = FeatureOptions::default().pool("links");
    let (feature, run, tasks) = world
        .submit("links", Some(&repository), &graph, &options)
        .await
        .unwrap();
    // Too long for the prompt: the worker writes it into the session's folder.
    let spec = format!("# Long\n{}", "word ".repeat(10_000));
    let mut conn = world.db.acquire().await.unwrap();
    store::feature::write(&mut conn, feature, Text::Spec, Some(&spec))
        .await
        .unwrap();
    drop(conn);
    let scene = Scene {
        world: &world,
        name: "links".to_owned(),
        repository: Some(repository),
        feature,
        run,
        tasks,
    };
    // One slot, so that both attempts use it.
    let _worker = world.worker(&WorkerOptions::named("w").pool("links")).unwrap();
    scene.completes().await;
    assert_eq!(listed(&outside), before, "something was written through a link");
    let attempts = scene.attempts().await;
    assert_eq!(
        (attempts[0].1.as_str(), attempts[1].1.as_str()),
        ("no_sigil", "done"),
        "{attempts:?}"
    );
    let repository = scene.repository.as_ref().unwrap();
    let file = |path: &str| repository.file("ralph/links", path).unwrap();
    // The links landed as links, and led nowhere.
    let mode = repository
        .git(&["ls-tree", "ralph/links", "folder", "file", "new"])
        .unwrap();
    assert_eq!(
        mode.lines().filter(|line| line.starts_with("120000")).count(),
        3,
        "{mode}"
    );
    assert!(
        !file("stolen").contains("outside-word"),
        "a secret was read through a link"
    );
    for place in ["homes", "temporary"] {
        assert!(
            !file(place).contains("kept") && !file(place).lines().any(|name| name == ".config"),
            "{place}: {}",
            file(place)
        );
    }
    let texts: Vec<String> =
        sqlx::query_scalar("select coalesce(reason, '') || coalesce(journal, '') from dispatches")
            .fetch_all(&world.db)
            .await
            .unwrap();
    assert!(!texts.concat().contains("outside-word"), "{texts:?}");
}
