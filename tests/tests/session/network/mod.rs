//! What of the network is reached, tried by the agent, by its child and in a terminal of the worker's, with real listeners.

mod listeners;

use std::collections::BTreeSet;

use ralph_shared::wire::{Access, Ended};
use ralph_worker::sandbox::{Network, SandboxMode, bubblewrap, support};

use self::listeners::Listeners;
use super::scene::{Scene, scene, turn};

/// Who tries.
const WHO: [&str; 3] = ["agent", "child", "terminal"];

/// What every machine lets through where nothing forbids it. The kernel, or the user, may lack the others.
const ALWAYS: &[&str] = &[
    "tcp",
    "tcp-any-address",
    "tcp-mapped",
    "tcp-fast-open",
    "tcp-fast-open-message",
    "udp",
    "udp-connected",
    "udp-mapped",
    "proxy",
    "listen",
    "listen-unbound",
    "path-socket",
];

fn stage(mode: SandboxMode, network: &str, listeners: &Listeners) -> Scene {
    let mut stage = scene("");
    let script = stage.work().join("attempts.py");
    std::fs::write(&script, include_str!("attempts.py")).unwrap();
    let ports = listeners.ports().map(|port| port.to_string());
    let program = ["python3".to_owned(), script.display().to_string()];
    stage.spec.agent.argv = program.into_iter().chain(ports).collect();
    stage.spec.sandbox.mode = mode;
    stage.spec.sandbox.network = network.parse().unwrap();
    stage
}

/// What was reached, by whom.
async fn reached(mode: SandboxMode, network: impl Fn(&Listeners) -> String) -> BTreeSet<String> {
    let listeners = Listeners::open().await;
    let played = stage(mode, &network(&listeners), &listeners).play().await;
    assert_eq!(played.end.ended, turn("end_turn"), "{}", played.transcript());
    let told = std::fs::read_to_string(played.path("told")).unwrap_or_default();
    let mut reached = listeners.reached().await;
    reached.extend(told.lines().map(str::to_owned));
    reached
}

fn by_all(what: &[&str]) -> BTreeSet<String> {
    let by = |who| what.iter().map(move |what| format!("{who}/{what}"));
    WHO.into_iter().flat_map(by).collect()
}

/// Whether this kernel is set up for it.
fn is_possible(what: &str) -> bool {
    if what.ends_with("-mapped") {
        return std::net::UdpSocket::bind("[::]:0").is_ok();
    }
    if what.starts_with("tcp-fast-open") {
        let set = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_fastopen").unwrap_or_default();
        return set.trim().parse::<u32>().is_ok_and(|set| set & 1 == 1);
    }
    true
}

/// The walls that this machine has.
fn walls() -> Vec<SandboxMode> {
    let mut walls = vec![SandboxMode::Landlock];
    if bubblewrap().is_some() {
        walls.push(SandboxMode::Bubblewrap);
    } else {
        eprintln!("bubblewrap is not installed here, or can't make namespaces: not tried");
    }
    walls
}

#[tokio::test]
async fn everything_is_reached_where_the_network_is_open() {
    for mode in walls().into_iter().chain([SandboxMode::None]) {
        let reached = reached(mode, |_| "open".to_owned()).await;
        let possible: Vec<&str> = ALWAYS.iter().copied().filter(|what| is_possible(what)).collect();
        let expected = by_all(&possible);
        assert!(
            reached.is_superset(&expected),
            "{mode:?}: {:?}",
            expected.difference(&reached)
        );
    }
}

#[tokio::test]
async fn nothing_is_reached_without_a_network() {
    // With a network of its own a session may make sockets, which lead nowhere.
    let made = ["listen", "listen-unbound", "raw", "ping", "sctp", "path-socket"];
    for mode in walls() {
        let reached = reached(mode, |_| "none".to_owned()).await;
        let expected = by_all(&["path-socket"]);
        if mode == SandboxMode::Landlock {
            assert_eq!(reached, expected);
        } else {
            assert!(
                reached.is_superset(&expected) && reached.is_subset(&by_all(&made)),
                "{reached:?}"
            );
        }
    }
}

#[tokio::test]
async fn only_the_proxy_is_reached_where_there_is_one() {
    assert!(support().abi >= 4, "this test needs Landlock ABI 4");
    for mode in walls() {
        // By name: inside there is nobody to ask for its address.
        let mut reached = reached(mode, |listeners| {
            format!("http://localhost:{}", listeners.ports()[2])
        })
        .await;
        // Landlock doesn't see it; `doctor` says so.
        reached.retain(|what| !what.ends_with("/listen-unbound"));
        assert_eq!(
            reached,
            by_all(&["fetch-by-proxy", "path-socket", "proxy"]),
            "{mode:?}"
        );
    }
}

#[tokio::test]
async fn a_session_that_only_reads_has_the_same_network() {
    let listeners = Listeners::open().await;
    let stage = stage(SandboxMode::Landlock, "none", &listeners).access(Access::ReadOnly);
    let played = stage.play().await;
    assert_eq!(played.end.ended, turn("end_turn"), "{}", played.transcript());
    assert_eq!(listeners.reached().await, BTreeSet::new());
}

#[tokio::test]
async fn a_policy_that_nothing_enforces_starts_no_agent() {
    let listeners = Listeners::open().await;
    let played = stage(SandboxMode::None, "none", &listeners).play().await;
    match played.end.ended {
        Ended::Workspace { message, .. } => assert!(message.contains("needs a sandbox"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_proxy_without_an_address_is_told() {
    let mut stage = scene("@say hi");
    stage.spec.sandbox.network = "http://user:hidden-word@no-such-host.invalid"
        .parse::<Network>()
        .unwrap();
    let played = stage.play().await;
    match &played.end.ended {
        Ended::Workspace { message, .. } => assert!(message.contains("no-such-host.invalid"), "{message}"),
        other => panic!("{other:?}"),
    }
    assert!(!format!("{:?}{}", played.end, played.transcript()).contains("hidden-word"));
}
