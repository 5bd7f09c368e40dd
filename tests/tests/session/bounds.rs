//! Limits on a session's use of its machine.

use ralph_worker::sandbox::{Cgroup, Resources};

use super::scene::{Played, Scene, scene, turn};

fn bounded(script: &str, change: impl FnOnce(&mut Resources)) -> Scene {
    let mut stage = scene(script);
    change(&mut stage.spec.sandbox.resources);
    stage
}

fn read(played: &Played, name: &str) -> String {
    std::fs::read_to_string(played.path(name)).unwrap_or_default()
}

#[tokio::test]
async fn a_file_grows_to_its_limit() {
    let script = "@run head -c 2000000 /dev/zero > big; stat -c %s big > size";
    let played = bounded(script, |resources| resources.file_bytes = 1024 * 1024)
        .play()
        .await;
    assert_eq!(read(&played, "size"), "1048576\n");
}

#[tokio::test]
async fn a_process_that_uses_up_its_cpu_time_is_killed() {
    let script = "@run sh -c 'while :; do :; done'; echo $? > status";
    let played = bounded(script, |resources| resources.cpu_seconds = Some(1))
        .play()
        .await;
    assert_eq!(played.end.ended, turn("end_turn"));
    // 128 + SIGXCPU.
    assert_eq!(read(&played, "status"), "152\n");
}

#[tokio::test]
async fn the_process_limit_applies_to_the_whole_session() {
    let groups = Cgroup::make("processes-of-a-test", &Resources::default());
    let script = "@run sh -c 'for i in $(seq 300); do sleep 600 & done' 2> err; echo over > over";
    let played = bounded(script, |resources| resources.processes = 60).play().await;
    assert_eq!(played.end.ended, turn("end_turn"));
    assert_eq!(read(&played, "over"), "over\n");
    let refused = read(&played, "err").to_lowercase().contains("fork");
    assert_eq!(refused, groups.bounds_processes(), "{}", read(&played, "err"));
}

#[tokio::test]
async fn a_session_that_uses_up_its_memory_is_limited_and_says_so() {
    let groups = Cgroup::make("memory-of-a-test", &Resources::default());
    let script = "@run python3 -c 'len(bytearray(10 ** 9)); print(1)' > ate; echo $? > status";
    let bytes = 256 * 1024 * 1024;
    let played = bounded(script, |resources| resources.memory_bytes = Some(bytes))
        .play()
        .await;
    assert_eq!(played.end.ended, turn("end_turn"));
    // The control group limits the session; without one, each process has its own limit.
    assert_eq!(read(&played, "ate"), "");
    assert_ne!(read(&played, "status"), "0\n");
    let is_noted = played.transcript().contains("used up its memory");
    assert_eq!(is_noted, groups.bounds_memory(), "{}", played.transcript());
}
