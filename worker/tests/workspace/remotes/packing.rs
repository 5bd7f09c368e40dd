//! Mirrors are packed together, and nothing that a clone borrows is lost by it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use ralph_worker::workspace::{Untidy, Workspace, Workspaces};

use crate::remote::{BRANCH, FEATURE, Remote, finish, git};
use crate::user::User;

/// Any is too many.
const NONE: Untidy = Untidy { packs: 0, loose: 0 };

/// The only mirror.
fn mirror(remote: &Remote) -> PathBuf {
    let entries = fs::read_dir(remote.data("data/mirrors")).unwrap().flatten();
    let mut mirrors = entries
        .map(|entry| entry.path())
        .filter(|path| path.join("HEAD").exists());
    mirrors.next().unwrap()
}

fn packs(mirror: &Path) -> usize {
    let packs = fs::read_dir(mirror.join("objects/pack")).unwrap().flatten();
    packs
        .filter(|entry| entry.path().extension().is_some_and(|e| e == "pack"))
        .count()
}

/// How many objects are in files of their own.
fn loose(mirror: &Path) -> String {
    let counted = git(mirror, &["count-objects"]);
    counted.split(' ').next().unwrap().to_owned()
}

/// A clone each of so many heads of the feature's branch, none of which comes after another one: of all but the last one the mirror
/// forgets.
async fn clones(remote: &Remote, workspaces: &Workspaces, count: usize) -> Vec<(String, Workspace)> {
    let mut clones = Vec::new();
    for n in 0..count {
        if n > 0 {
            remote.git(&["update-ref", "-d", FEATURE]);
        }
        let head = remote.commit(BRANCH, &remote.base, "n.txt", &format!("{n}\n"));
        clones.push((head, remote.prepare(workspaces, &format!("t-{n}")).await));
    }
    clones
}

async fn are_whole(remote: &Remote, mirror: &Path, clones: Vec<(String, Workspace)>) {
    for (n, (head, clone)) in clones.into_iter().enumerate() {
        git(mirror, &["cat-file", "-e", &head]);
        git(clone.path(), &["fsck", "--connectivity-only", "--no-dangling"]);
        assert_eq!(git(clone.path(), &["show", "HEAD:n.txt"]), n.to_string());
        fs::write(clone.path().join("new.txt"), "new\n").unwrap();
        let snapshot = finish(&clone).await;
        let pushed = remote.git(&["rev-parse", &format!("{}^", snapshot.commit.unwrap())]);
        assert_eq!(pushed, head);
        clone.remove().await.unwrap();
    }
}

#[tokio::test]
async fn loose_objects_are_packed_also_those_that_no_ref_leads_to() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let clones = clones(&remote, &workspaces, 3).await;
    let mirror = mirror(&remote);
    let file = remote.data("file");
    fs::write(&file, "nobody's\n").unwrap();
    let nobodys = git(&mirror, &["hash-object", "-w", file.to_str().unwrap()]);
    assert_eq!(packs(&mirror), 0);
    assert_eq!(workspaces.pack_mirrors(Untidy::default()).await, 0);
    assert_eq!(packs(&mirror), 0, "that is few enough");
    assert_eq!(workspaces.pack_mirrors(NONE).await, 1);
    assert_eq!((packs(&mirror), loose(&mirror).as_str()), (1, "0"));
    git(&mirror, &["cat-file", "-e", &nobodys]);
    are_whole(&remote, &mirror, clones).await;
    remote.prepare(&workspaces, "t-9").await;
}

#[tokio::test]
async fn packs_of_many_fetches_become_few() {
    let test = "remotes::packing::packs_of_many_fetches_become_few";
    let Some(user) = User::or_run_as_one(test) else {
        return;
    };
    user.write(
        ".gitconfig",
        "[transfer]\n\tunpackLimit = 1\n[repack]\n\twriteBitmaps = true\n",
    );
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let clones = clones(&remote, &workspaces, 8).await;
    let mirror = mirror(&remote);
    assert!(packs(&mirror) >= 8);
    let most = Untidy {
        packs: 5,
        loose: 1_000,
    };
    let lock = File::open(mirror.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(workspaces.pack_mirrors(most).await, 0, "somebody fetches");
    lock.unlock().unwrap();
    assert_eq!(workspaces.pack_mirrors(most).await, 1);
    assert!(packs(&mirror) <= most.packs);
    assert_eq!(workspaces.pack_mirrors(most).await, 0);
    are_whole(&remote, &mirror, clones).await;
}

#[tokio::test]
async fn whatever_a_killed_git_leaves_of_packing_is_in_nobodys_way() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let clones = clones(&remote, &workspaces, 2).await;
    let mirror = mirror(&remote);
    assert_eq!(workspaces.pack_mirrors(NONE).await, 1);
    let left = [
        "objects/pack/.tmp-1-pack-0.pack",
        "objects/pack/tmp_pack_0",
        "packed-refs.new",
        "packed-refs.lock",
    ];
    for name in left {
        fs::write(mirror.join(name), "half").unwrap();
    }
    // A ref that is not there any more goes from the packed ones.
    assert!(
        fs::read_to_string(mirror.join("packed-refs"))
            .unwrap()
            .contains(FEATURE)
    );
    remote.git(&["update-ref", "-d", FEATURE]);
    remote.prepare(&workspaces, "t-9").await;
    assert!(
        !fs::read_to_string(mirror.join("packed-refs"))
            .unwrap()
            .contains(FEATURE)
    );
    for name in left {
        assert!(!mirror.join(name).exists(), "{name}");
    }
    are_whole(&remote, &mirror, clones).await;
}

/// It is looked at again when a person may have mended it.
#[tokio::test]
async fn mirror_that_can_not_be_packed_rests() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let clones = clones(&remote, &workspaces, 2).await;
    let mirror = mirror(&remote);
    let config = fs::read(mirror.join("config")).unwrap();
    fs::write(mirror.join("config"), "[core\n").unwrap();
    assert_eq!(workspaces.pack_mirrors(NONE).await, 0);
    fs::write(mirror.join("config"), config).unwrap();
    assert_eq!(workspaces.pack_mirrors(NONE).await, 0, "not again so soon");
    fs::remove_file(mirror.join("ralph-not-packed")).unwrap();
    assert_eq!(workspaces.pack_mirrors(NONE).await, 1);
    are_whole(&remote, &mirror, clones).await;
}
