//! An agent that fills its worker's disk.

use ralph_tests::harness::{WorkerOptions, World, until};

use crate::scene::{ONE, Scene};

/// MiB.
const DISK: u32 = 192;
const RESERVE: u32 = 32;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_fills_the_disk_ends_and_other_slots_continue() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can create a disk for a test");
        return;
    }
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let config = format!("[workspace]\nsession_disk_reserve_mb = {RESERVE}\n");
    std::fs::write(world.dir().join(".ralph.toml"), config).unwrap();
    let options = WorkerOptions {
        disk_mib: Some(DISK),
        ..WorkerOptions::named("w1").slots(2).pool("filling,other")
    };
    let _worker = world.worker(&options).unwrap();
    // The second attempt does the work; the file that filled the disk must neither stay nor land.
    let filling = r"
- key: only
  title: Fill the disk
  description: |
    @write work.txt one
    @effect fills
    @on-attempt 1 @run dd if=/dev/urandom of=full bs=1M; dd if=/dev/urandom of=$HOME/full bs=1M
    @on-attempt 1 @silent
    @done
";
    let gate = world.gate("filled");
    let other = format!(
        "- key: only\n  title: Go on\n  description: |\n    @effect other\n    @wait-for {}\n    @write other.txt two\n    @done\n",
        gate.display()
    );
    let other = Scene::submit(&world, "other", &other).await;
    world.effects_of("other", 1).await.unwrap();
    let filling = Scene::submit(&world, "filling", filling).await;
    filling.completes().await;
    std::fs::write(gate, "").unwrap();
    other.completes().await;
    let attempts = filling.attempts().await;
    assert_eq!(attempts.len(), 2, "{attempts:?}");
    let (_, outcome, reason) = &attempts[0];
    assert_eq!(outcome, "error", "{reason}");
    assert!(reason.contains("filled the worker's disk"), "{reason}");
    let landed = filling.repository.as_ref().unwrap();
    assert_eq!(landed.file("ralph/filling", "work.txt").unwrap().trim(), "one");
    assert!(landed.file("ralph/filling", "full").is_err());
    assert_eq!(other.attempts().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_nearly_full_from_the_start_warns_and_ends_no_session() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    // No disk has that much free space.
    let config = "[workspace]\nsession_disk_reserve_mb = 1000000000000\n";
    std::fs::write(world.dir().join(".ralph.toml"), config).unwrap();
    let worker = world.worker(&WorkerOptions::named("low").pool("low")).unwrap();
    let warning = async || worker.output().contains("the disk is nearly full");
    until("the worker's warning", warning).await;
    let scene = Scene::submit(&world, "low", ONE).await;
    scene.completes().await;
    assert_eq!(scene.attempts().await.len(), 1);
}
