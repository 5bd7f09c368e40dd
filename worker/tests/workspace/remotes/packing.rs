//! Mirrors are repacked, and clones lose no borrowed object.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use ralph_worker::workspace::{Untidy, Workspace, Workspaces};

use crate::remote::{BRANCH, FEATURE, Remote, finish, git};
use crate::user::User;

/// Limits that every mirror exceeds.
const NONE: Untidy = Untidy { packs: 0, loose: 0 };

/// Path of the only mirror.
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

/// Number of loose objects.
fn loose(mirror: &Path) -> String {
    let counted = git(mirror, &["count-objects"]);
    counted.split(' ').next().unwrap().to_owned()
}

/// Clones of `count` unrelated heads of the feature's branch; the mirror forgets all but the last one.
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
async fn loose_objects_are_packed_including_unreachable_ones() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let clones = clones(&remote, &workspaces, 3).await;
    let mirror = mirror(&remote);
    let file = remote.data("file");
    fs::write(&file, "nobody's\n").unwrap();
    let nobodys = git(&mirror, &["hash-object", "-w", file.to_str().unwrap()]);
    assert_eq!(packs(&mirror), 0);
    assert_eq!(workspaces.pack_mirrors(Untidy::default()).await, 0);
    assert_eq!(packs(&mirror), 0, "few loose objects are not packed");
    assert_eq!(workspaces.pack_mirrors(NONE).await, 1);
    assert_eq!((packs(&mirror), loose(&mirror).as_str()), (1, "0"));
    git(&mirror, &["cat-file", "-e", &nobodys]);
    are_whole(&remote, &mirror, clones).await;
    remote.prepare(&workspaces, "t-9").await;
}

#[tokio::test]
async fn many_packs_are_combined() {
    let test = "remotes::packing::many_packs_are_combined";
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
    assert_eq!(workspaces.pack_mirrors(most).await, 0, "a fetch holds the lock");
    lock.unlock().unwrap();
    assert_eq!(workspaces.pack_mirrors(most).await, 1);
    assert!(packs(&mirror) <= most.packs);
    assert_eq!(workspaces.pack_mirrors(most).await, 0);
    are_whole(&remote, &mirror, clones).await;
}

#[tokio::test]
async fn leftovers_of_a_killed_repack_are_removed() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let clones = clones(&remote, &workspaces, 2).await;
    let mirror = mirror(&remote);
    assert_eq!(workspaces.pack_mirrors(NONE).await, 1);
    let leftovers = [
        "objects/pack/.tmp-1-pack-0.pack",
        "objects/pack/tmp_pack_0",
        "packed-refs.new",
        "packed-refs.lock",
    ];
    for name in leftovers {
        fs::write(mirror.join(name), "half").unwrap();
    }
    // A ref that no longer exists disappears from the packed refs.
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
    for name in leftovers {
        assert!(!mirror.join(name).exists(), "{name}");
    }
    are_whole(&remote, &mirror, clones).await;
}

/// Packing is tried again once a person may have repaired the mirror.
#[tokio::test]
async fn a_mirror_that_cannot_be_packed_is_skipped_for_a_while() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let clones = clones(&remote, &workspaces, 2).await;
    let mirror = mirror(&remote);
    let config = fs::read(mirror.join("config")).unwrap();
    fs::write(mirror.join("config"), "[core\n").unwrap();
    assert_eq!(workspaces.pack_mirrors(NONE).await, 0);
    fs::write(mirror.join("config"), config).unwrap();
    assert_eq!(workspaces.pack_mirrors(NONE).await, 0, "not retried so soon");
    fs::remove_file(mirror.join("ralph-not-packed")).unwrap();
    assert_eq!(workspaces.pack_mirrors(NONE).await, 1);
    are_whole(&remote, &mirror, clones).await;
}
