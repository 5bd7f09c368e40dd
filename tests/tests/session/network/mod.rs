//! Network access, tried by the agent, by its child and in a terminal of the worker's, against real
//! listeners.

mod listeners;

use std::collections::BTreeSet;

use ralph_shared::wire::{Access, Ended};
use ralph_worker::sandbox::{Network, SandboxMode, bubblewrap, support};

use self::listeners::Listeners;
use super::scene::{Scene, scene, turn};

const WHO: [&str; 3] = ["agent", "child", "terminal"];

/// Attempts that succeed on every machine if nothing forbids them. The kernel or the user may lack the
/// others.
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

/// The attempts that succeeded, with who made them.
async fn reached(mode: SandboxMode, network: impl Fn(&Listeners) -> String) -> BTreeSet<String> {
    let listeners = Listeners::open().await;
    let played = stage(mode, &network(&listeners), &listeners).play().await;
    assert_eq!(played.end.ended, turn("end_turn"), "{}", played.transcript());
    let results = std::fs::read_to_string(played.path("results")).unwrap_or_default();
    let mut reached = listeners.reached().await;
    reached.extend(results.lines().map(str::to_owned));
    reached
}

fn by_all(what: &[&str]) -> BTreeSet<String> {
    let by = |who| what.iter().map(move |what| format!("{who}/{what}"));
    WHO.into_iter().flat_map(by).collect()
}

/// Whether this kernel supports the attempt.
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

/// The kinds of sandbox that this machine has.
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
async fn everything_is_reached_if_the_network_is_open() {
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
    // With its own network namespace a session may open sockets, which lead nowhere.
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
async fn only_a_configured_proxy_is_reached() {
    assert!(support().abi >= 4, "this test needs Landlock ABI 4");
    for mode in walls() {
        // The proxy is given by name: there is no name server inside.
        let mut reached = reached(mode, |listeners| {
            format!("http://localhost:{}", listeners.ports()[2])
        })
        .await;
        // Landlock doesn't restrict this; `doctor` says so.
        reached.retain(|what| !what.ends_with("/listen-unbound"));
        assert_eq!(
            reached,
            by_all(&["fetch-by-proxy", "path-socket", "proxy"]),
            "{mode:?}"
        );
    }
}

#[tokio::test]
async fn a_read_only_session_has_the_same_network() {
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
async fn a_proxy_without_an_address_is_reported() {
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
