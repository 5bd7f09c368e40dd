//! A verdict applies to a patch: if the rebase changes the patch, it doesn't land.

use std::fs;

use ralph_shared::wire::{GitOrder, IntegrateOrder, IntegrationEnd};

use crate::remote::{BRANCH, FEATURE, Remote, finish, integrate_order};

/// A commit that lands during the verification, and whether the attempt's patch is the same after it. The
/// attempt changes line 4 of ten and a binary file.
#[tokio::test]
async fn a_verified_attempt_lands_only_as_the_same_patch() {
    let lines = |changed: &[usize]| -> String {
        let line = |n| match changed.contains(&n) {
            true => format!("changed {n}\n"),
            false => format!("line {n}\n"),
        };
        (0..10).map(line).collect()
    };
    let rows = [
        ("a.txt", "elsewhere\n".to_owned(), true),
        ("shared.txt", lines(&[9]), true),
        ("shared.txt", lines(&[2]), false),
        // The same change: nothing remains to be done.
        ("shared.txt", lines(&[4]), false),
    ];
    for (file, text, same) in rows {
        let remote = Remote::new();
        let workspaces = remote.workspaces().await;
        let workspace = remote.prepare(&workspaces, "t-1").await;
        fs::write(workspace.path().join("shared.txt"), lines(&[4])).unwrap();
        fs::write(workspace.path().join("bytes"), b"\0\xff\0").unwrap();
        let commit = finish(&workspace).await.commit.unwrap();
        workspace.remove().await.unwrap();
        let landed = remote.commit(BRANCH, &remote.base, file, &text);
        let order = IntegrateOrder {
            judged: true,
            ..integrate_order("t-1", &commit)
        };
        let ended = remote.integrate(&workspaces, "t-1", "i-1", &order).await;
        if same {
            assert!(
                matches!(ended, IntegrationEnd::Merged { .. }),
                "{file} {text}: {ended:?}"
            );
            continue;
        }
        let IntegrationEnd::Rewritten { commit, commit_ref } = ended else {
            panic!("{file} {text}: {ended:?}")
        };
        assert_eq!(remote.head(FEATURE).as_deref(), Some(landed.as_str()));
        assert_eq!(remote.head(&commit_ref).as_deref(), Some(commit.as_str()));
        // After a verdict on the rewritten commit, it lands.
        let order = IntegrateOrder {
            judged: true,
            ..integrate_order("t-1", &commit)
        };
        let git = GitOrder {
            start_ref: Some(commit_ref),
            ..remote.order("t-1", "i-2")
        };
        let ended = remote.integrate_as(&workspaces, "i-2", &git, &order).await;
        assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
        assert_eq!(remote.landings("t-1"), 1);
    }
}
