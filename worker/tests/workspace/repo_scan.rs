//! Repository scans at a session's start, with files under all of their earlier names.

use std::fs;

use ralph_shared::wire::{KnowledgeFolder, NEVER_SCANNED, Rename, RepoScanOrder};

use crate::remote::{FEATURE, Remote, git};

#[tokio::test]
async fn a_file_is_followed_through_renames_and_complete_changes() {
    let remote = Remote::new();
    let seed = remote.dir.path().join("seed");
    let mut lines: Vec<String> = (0..20).map(|n| format!("line {n} of the first text")).collect();
    fs::write(seed.join("first.rs"), lines.join("\n")).unwrap();
    fs::write(seed.join("gone.rs"), "gone\n").unwrap();
    git(&seed, &["add", "-A"]);
    let remote = remote.with_base("Begin");
    for (step, (from, to)) in [
        ("first.rs", "second.rs"),
        ("second.rs", "third.rs"),
        ("third.rs", "dir/last.rs"),
    ]
    .into_iter()
    .enumerate()
    {
        fs::create_dir_all(seed.join("dir")).unwrap();
        git(&seed, &["mv", from, to]);
        for (n, line) in lines.iter_mut().enumerate().skip(step * 6).take(6) {
            *line = format!("{n} {step}: something else altogether");
        }
        fs::write(seed.join(to), lines.join("\n")).unwrap();
        git(&seed, &["commit", "-q", "-a", "-m", to]);
    }
    git(&seed, &["rm", "-q", "gone.rs"]);
    fs::write(seed.join("new.rs"), "new\n").unwrap();
    git(&seed, &["add", "-A"]);
    git(&seed, &["commit", "-q", "-m", "One goes, one comes"]);
    git(&seed, &["push", "-q", "origin", &format!("HEAD:{FEATURE}")]);
    // Compared by the two ends alone, it is a different file.
    let ends = git(&seed, &["diff", "--name-status", "-M", &remote.base, "HEAD"]);
    assert!(!ends.contains('R'), "{ends}");

    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    let order = RepoScanOrder {
        since: Some(remote.base.clone()),
        ..RepoScanOrder::default()
    };
    let survey = workspace.scan_repository(&order).await.unwrap().unwrap();
    let renamed = Rename {
        from: "first.rs".to_owned(),
        to: "dir/last.rs".to_owned(),
    };
    assert_eq!(survey.renamed, [renamed]);
    assert_eq!(survey.deleted, ["gone.rs"]);
    assert_eq!(survey.present, ["new.rs"]);
}

#[tokio::test]
async fn a_file_of_another_branch_does_not_count_as_deleted() {
    let remote = Remote::new();
    let base = remote.base.clone();
    let seed = remote.dir.path().join("seed");
    let text: String = (0..20).map(|n| format!("line {n} of the text\n")).collect();
    let first = remote.commit("ralph/demo", &base, "first.rs", &text);
    let other = remote.commit("ralph/demo", &first, "only.rs", "of another branch\n");
    let workspaces = remote.workspaces().await;
    remote.prepare(&workspaces, "t-0").await;
    git(&seed, &["checkout", "-q", "--detach", &first]);
    git(&seed, &["mv", "first.rs", "second.rs"]);
    git(&seed, &["commit", "-q", "-m", "Rename"]);
    git(
        &seed,
        &["push", "-q", "--force", "origin", &format!("HEAD:{FEATURE}")],
    );

    let workspace = remote.prepare(&workspaces, "t-1").await;
    let since = |commit: &str| RepoScanOrder {
        since: Some(commit.to_owned()),
        knowledge: Some(NEVER_SCANNED.to_owned()),
        ..RepoScanOrder::default()
    };
    let survey = workspace.scan_repository(&since(&other)).await.unwrap().unwrap();
    let renamed = Rename {
        from: "first.rs".to_owned(),
        to: "second.rs".to_owned(),
    };
    assert_eq!(survey.renamed, [renamed]);
    assert!(survey.deleted.is_empty(), "{survey:?}");
    assert_eq!(
        survey.knowledge,
        Some(KnowledgeFolder::default()),
        "a missing folder is reported to a feature that was never scanned"
    );
    // A missing commit gives no renames.
    let survey = workspace
        .scan_repository(&since(&"7".repeat(40)))
        .await
        .unwrap()
        .unwrap();
    assert!(survey.renamed.is_empty(), "{survey:?}");
}

#[tokio::test]
async fn knowledge_files_that_the_base_has_too_are_marked() {
    let mut remote = Remote::new();
    let seed = remote.dir.path().join("seed");
    fs::create_dir_all(seed.join(".ralph/knowledge")).unwrap();
    let file = |name: &str| format!(".ralph/knowledge/{name}.md");
    let first = remote.base.clone();
    let kept = remote.commit("main", &first, &file("kept"), "Said by people.\n");
    remote.base = remote.commit("main", &kept, &file("changed"), "Said by people.\n");
    let changed = remote.commit(
        "ralph/demo",
        &remote.base,
        &file("changed"),
        "Said by an agent.\n",
    );
    remote.commit("ralph/demo", &changed, &file("new"), "Said by people.\n");

    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    let survey = workspace
        .scan_repository(&RepoScanOrder::default())
        .await
        .unwrap()
        .unwrap();
    let files = survey.knowledge.unwrap().files;
    let found: Vec<(&str, bool)> = files
        .iter()
        .map(|file| (file.name.as_str(), file.at_base))
        .collect();
    assert_eq!(
        found,
        [("changed.md", false), ("kept.md", true), ("new.md", false)]
    );
}
