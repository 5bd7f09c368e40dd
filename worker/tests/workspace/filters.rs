//! Filters in a repository's attributes: an unknown or failing filter never stores a file unconverted.

use std::fs;
use std::path::Path;

use ralph_shared::wire::WorkspaceOrder;
use ralph_worker::workspace::{CommitMessage, FilterRule, Settings, Workspaces};

use crate::remote::{Remote, finish, git};
use crate::user::User;

/// A remote with these attributes and files at its base.
fn with_attributes(attributes: &str, files: &[(&str, &str)]) -> Remote {
    let remote = Remote::new();
    let seed = remote.data("seed");
    fs::write(seed.join(".gitattributes"), attributes).unwrap();
    for (name, text) in files {
        fs::write(seed.join(name), text).unwrap();
    }
    git(&seed, &["add", "-A"]);
    remote.with_base("Attributes")
}

async fn error_of_checkout(remote: &Remote, workspaces: &Workspaces) -> String {
    let order = WorkspaceOrder::Git(remote.order("t-1", "t-1"));
    let error = workspaces
        .prepare(&remote.dispatch("t-1"), &order)
        .await
        .unwrap_err();
    assert!(
        error.is_elsewhere(),
        "{error}: another worker may have the filter"
    );
    error.to_string()
}

async fn with_filter(remote: &Remote, rule: FilterRule) -> Workspaces {
    let settings = Settings {
        filters: vec![rule],
        ..Settings::default()
    };
    Workspaces::open_with(&remote.data("data"), settings)
        .await
        .unwrap()
}

/// Rotates letters, like a filter that encrypts.
fn rot13() -> FilterRule {
    let command = Some("tr a-z n-za-m".to_owned());
    FilterRule {
        name: "crypt".to_owned(),
        clean: command.clone(),
        smudge: command,
        process: None,
    }
}

#[tokio::test]
async fn a_checkout_with_an_unknown_filter_names_filter_and_path() {
    let remote = with_attributes("secret.* filter=crypt\n", &[("secret.key", "grfg\n")]);
    let error = error_of_checkout(&remote, &remote.workspaces().await).await;
    for words in [
        "`secret.key`",
        "`crypt`",
        "[git.filters.NAME]",
        "filter.NAME.clean",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[tokio::test]
async fn a_new_file_for_an_unknown_filter_is_not_stored() {
    // No file in the checkout uses the filter yet.
    let remote = with_attributes("[attr]hidden filter=crypt\nsecret.* hidden\n", &[]);
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    fs::write(workspace.path().join("secret.new"), "plain\n").unwrap();
    let snapshot = workspace.finish(&CommitMessage::default()).await;
    let error = snapshot.push_error.unwrap();
    assert!(
        error.contains("`secret.new`") && error.contains("`crypt`"),
        "{error}"
    );
    assert_eq!((snapshot.pushed_ref, snapshot.commit), (None, None));
    assert!(
        workspace.path().join("secret.new").exists(),
        "the file is still there"
    );
    assert_eq!(remote.git(&["for-each-ref", "refs/ralph"]), "");
}

#[tokio::test]
async fn a_filter_of_the_workers_configuration_converts_both_ways() {
    let remote = with_attributes("secret.* filter=crypt\n", &[("secret.key", "grfg\n")]);
    let workspaces = with_filter(&remote, rot13()).await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    let path = workspace.path().join("secret.key");
    assert_eq!(fs::read_to_string(&path).unwrap(), "test\n");
    fs::write(&path, "hello\n").unwrap();
    let commit = finish(&workspace).await.commit.unwrap();
    assert_eq!(remote.git(&["show", &format!("{commit}:secret.key")]), "uryyb");
}

#[tokio::test]
async fn a_failing_filter_stores_nothing_even_if_it_is_not_required() {
    let broken = |clean: &str, smudge: &str| FilterRule {
        clean: Some(clean.to_owned()),
        smudge: Some(smudge.to_owned()),
        ..rot13()
    };
    let files = [("secret.key", "grfg\n")];
    let remote = with_attributes("secret.* filter=crypt\n", &files);
    let workspaces = with_filter(&remote, broken("cat", "no-such-program")).await;
    let error = error_of_checkout(&remote, &workspaces).await;
    assert!(error.contains("secret.key") && error.contains("crypt"), "{error}");

    let remote = with_attributes("secret.* filter=crypt\n", &files);
    let workspaces = with_filter(&remote, broken("no-such-program", "cat")).await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    fs::write(workspace.path().join("secret.key"), "plain\n").unwrap();
    let snapshot = workspace.finish(&CommitMessage::default()).await;
    let error = snapshot.push_error.unwrap();
    assert!(error.contains("crypt") && snapshot.commit.is_none(), "{error}");
}

#[tokio::test]
async fn a_users_filter_is_used_and_other_user_settings_are_not() {
    let test = "filters::a_users_filter_is_used_and_other_user_settings_are_not";
    let Some(user) = User::or_run_as_one(test) else {
        return;
    };
    user.write(
        ".gitconfig",
        "[filter \"strip\"]\n\tclean = tr -d x\n[core]\n\texcludesFile = ~/ignored\n\tautocrlf = false\n\
         [i18n]\n\tcommitEncoding = ISO-8859-1\n",
    );
    user.write("ignored", "*.mine\n");
    let attributes = "*.nb filter=strip\n*.txt text eol=lf\na.txt ident\n*.none -filter\n*.set filter\n";
    let remote = with_attributes(
        attributes,
        &[("a.nb", "a\n"), ("b.none", "b\n"), ("c.set", "c\n")],
    );
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    let write = |name: &str, text: &str| fs::write(workspace.path().join(name), text).unwrap();
    write("a.nb", "axb\n");
    // A person's global ignore file is no rule of the repository.
    write("kept.mine", "k\n");
    let message = CommitMessage {
        subject: "Größe".to_owned(),
        body: String::new(),
    };
    let snapshot = workspace.finish(&message).await;
    assert_eq!(snapshot.push_error, None);
    let commit = snapshot.commit.unwrap();
    assert_eq!(remote.git(&["show", &format!("{commit}:a.nb")]), "ab");
    assert_eq!(remote.git(&["show", &format!("{commit}:kept.mine")]), "k");
    let raw = remote.git(&["cat-file", "commit", &commit]);
    assert!(raw.contains("Größe") && !raw.contains("encoding"), "{raw}");
}

#[tokio::test]
async fn an_encoding_that_git_does_not_know_is_named() {
    let remote = with_attributes("odd.txt working-tree-encoding=NO-SUCH\n", &[]);
    let seed = remote.data("seed");
    let id = {
        fs::write(seed.join("plain"), "text\n").unwrap();
        git(&seed, &["hash-object", "-w", "plain"])
    };
    git(
        &seed,
        &[
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("100644,{id},odd.txt"),
        ],
    );
    let remote = remote.with_base("Odd");
    let error = error_of_checkout(&remote, &remote.workspaces().await).await;
    assert!(error.contains("odd.txt") && error.contains("NO-SUCH"), "{error}");
}

#[tokio::test]
async fn a_filter_that_only_the_attempt_names_is_refused() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    let tree: &Path = workspace.path();
    fs::write(tree.join(".gitattributes"), "*.x filter=own\n").unwrap();
    fs::write(tree.join("a.x"), "a\n").unwrap();
    let snapshot = workspace.finish(&CommitMessage::default()).await;
    let error = snapshot.push_error.unwrap();
    for words in [
        "`a.x`",
        "`own`",
        "which the attempt names itself",
        "leave the filter out of .gitattributes",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert_eq!((snapshot.pushed_ref, snapshot.commit), (None, None));
    // The attempt is at fault: no other worker can push it later, so it is not kept for ever.
    assert!(workspace.is_given_up(0) && tree.join("a.x").exists());

    // A filter that the worker knows converts.
    let remote = Remote::new();
    let workspaces = with_filter(&remote, rot13()).await;
    let workspace = remote.prepare(&workspaces, "t-2").await;
    fs::write(workspace.path().join(".gitattributes"), "*.x filter=crypt\n").unwrap();
    fs::write(workspace.path().join("a.x"), "hello\n").unwrap();
    let commit = finish(&workspace).await.commit.unwrap();
    assert_eq!(remote.git(&["show", &format!("{commit}:a.x")]), "uryyb");
}
