//! Requirements of a worker other than agents.

use std::time::Duration;

use ralph_shared::broker;
use tokio::process::Command;

use super::findings::{Part, Status};
use crate::config::Machine;
use crate::sandbox::{
    Cgroup, Effective, Means, Network, Sandbox, SandboxMode, Support, bubblewrap, effective, means,
};
use crate::session::Redactor;
use crate::workspace::{Trouble, Workspaces};

const BROKER_LIMIT: Duration = Duration::from_secs(5);

pub async fn git() -> Part {
    let version = Command::new("git")
        .arg("version")
        .kill_on_drop(true)
        .output()
        .await;
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let usable = async {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        Workspaces::open(folder.path())
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    };
    match usable.await {
        Ok(()) => Part::new("git", Status::Ok, version.unwrap_or_default(), None),
        Err(error) => {
            let advice = "install git 2.38 or newer, on the PATH of the worker";
            Part::new("git", Status::Missing, error, Some(advice))
        }
    }
}

/// Checks whether git can sign commits without a person. `None` if the worker's user signs nothing.
pub async fn signing(machine: &Machine) -> Option<Part> {
    let tried = async {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let settings = machine.workspace_settings(Redactor::default());
        let workspaces = Workspaces::open_with(folder.path(), settings).await;
        let workspaces = workspaces.map_err(|error| error.to_string())?;
        workspaces.try_to_sign().await.map_err(|error| error.to_string())
    };
    match tried.await {
        Ok(false) => None,
        Ok(true) => {
            let found = "a commit is signed without a person".to_owned();
            Some(Part::new("signing", Status::Ok, found, None))
        }
        Err(error) => {
            let advice = Trouble::Signing.advice();
            Some(Part::new("signing", Status::Missing, error, Some(advice)))
        }
    }
}

/// Checks the sandbox of agents on this machine.
pub fn sandbox(sandbox: &Sandbox) -> Part {
    let cgroup = Cgroup::make(&format!("doctor-{}", std::process::id()), &sandbox.resources);
    let groups = Groups {
        hold: cgroup.is_some(),
        memory: cgroup.bounds_memory(),
        processes: cgroup.bounds_processes(),
    };
    confinement(
        sandbox.mode,
        &sandbox.network,
        means(),
        bubblewrap().is_some(),
        groups,
    )
}

/// Effects of control groups on this machine.
#[derive(Debug, Clone, Copy, Default)]
struct Groups {
    hold: bool,
    memory: bool,
    processes: bool,
}

fn confinement(mode: SandboxMode, network: &Network, means: Means, bubblewrap: bool, groups: Groups) -> Part {
    let abi = means.abi;
    let mut details: Vec<String> = Vec::new();
    let effective = effective(mode, network, means, bubblewrap).and_then(|effective| {
        network.enforceable(effective, means)?;
        Ok(effective)
    });
    let mut gaps = match effective {
        Ok(Effective::Landlock) => Support { abi }.gaps(means.own_root),
        Ok(Effective::Bubblewrap | Effective::Open) | Err(_) => Vec::new(),
    };
    gaps.extend(
        effective
            .iter()
            .flat_map(|effective| network.gaps(*effective, abi)),
    );
    details.extend(gaps.into_iter().map(|gap| format!("not enforced: {gap}")));
    let is_confined = matches!(effective, Ok(Effective::Landlock | Effective::Bubblewrap));
    let missing = [
        (
            // A sandbox that filters system calls prevents processes from hiding their session.
            groups.hold || is_confined && means.filter,
            "ending processes that clean their environment and detach themselves",
        ),
        (groups.memory, "the memory of a session's processes together"),
        (groups.processes, "the number of a session's processes"),
    ];
    let missing = missing.iter().filter(|(enforced, _)| !enforced);
    details.extend(missing.map(|(_, what)| format!("not enforced without control groups: {what}")));
    let (status, found, advice) = rating(effective, mode, means);
    let reached = match network {
        Network::Open => String::new(),
        Network::None => ", no network".to_owned(),
        Network::Proxy(_) => format!(", network by {network} alone"),
    };
    let found = if is_confined { found + &reached } else { found };
    Part {
        details,
        ..Part::new("sandbox", status, found, advice)
    }
}

/// The status of a sandbox, its name, and advice.
fn rating(
    effective: Result<Effective, String>,
    mode: SandboxMode,
    means: Means,
) -> (Status, String, Option<&'static str>) {
    let abi = means.abi;
    let open = "none: agents can reach everything that the worker's user can";
    match effective {
        Err(error) => (
            Status::Missing,
            error,
            Some("change `sandbox` or `sandbox_network` of [workspace], or this machine"),
        ),
        Ok(Effective::Open) if mode == SandboxMode::None => (
            Status::Warning,
            open.to_owned(),
            Some("use `sandbox = \"auto\"` of [workspace] unless this machine holds nothing but agents"),
        ),
        Ok(Effective::Open) => (
            Status::Warning,
            open.to_owned(),
            Some("use Linux 5.13 or later with Landlock enabled (`lsm=landlock,…`), or install bubblewrap"),
        ),
        Ok(Effective::Landlock) if means.own_root => (
            Status::Ok,
            format!("Landlock, ABI {abi}, and a root of each session's own"),
            None,
        ),
        Ok(Effective::Landlock) => (
            Status::Warning,
            format!("Landlock alone, ABI {abi}"),
            Some(
                "allow the worker's user to make user namespaces (`sysctl kernel.unprivileged_userns_clone=1`, on Ubuntu \
                 `sysctl kernel.apparmor_restrict_unprivileged_userns=0`), or install bubblewrap: either closes what is \
                 not enforced",
            ),
        ),
        Ok(Effective::Bubblewrap) => (Status::Ok, "bubblewrap".to_owned(), None),
    }
}

/// Checks whether NATS answers at this address.
pub async fn nats(url: &str) -> Part {
    let shown = without_login(url);
    let reach = async {
        if let Some(refused) = broker::refusal(url, "ralph-worker doctor").await {
            return Err(refused.to_string());
        }
        let client = broker::connect(url, "ralph-worker doctor")
            .await
            .map_err(|error| error.to_string())?;
        client.flush().await.map_err(|error| error.to_string())?;
        Ok::<_, String>(client.server_info().version)
    };
    let reached = tokio::time::timeout(BROKER_LIMIT, reach)
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {} s", BROKER_LIMIT.as_secs())));
    match reached {
        Ok(version) => {
            let found = format!("{shown} answers, nats-server {version}");
            Part::new("NATS", Status::Ok, found, None)
        }
        Err(error) => {
            let advice =
                "start it, or set NATS_URL to its address, with user and password if it asks for them";
            Part::new("NATS", Status::Missing, format!("{shown}: {error}"), Some(advice))
        }
    }
}

fn without_login(url: &str) -> String {
    let shown = url.split(',').map(|address| {
        let (scheme, rest) = address
            .trim()
            .split_once("://")
            .unwrap_or(("nats", address.trim()));
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        format!("{scheme}://{host}")
    });
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_weak_sandbox_comes_with_advice() {
        use SandboxMode::{Auto, Bubblewrap, Landlock, None};
        let check_with = |mode, means, bubblewrap, expected| {
            let part = confinement(mode, &Network::Open, means, bubblewrap, Groups::default());
            assert_eq!(part.status, expected, "{mode:?} {means:?}");
            assert_eq!(
                part.advice.is_none(),
                expected == Status::Ok,
                "{mode:?} {means:?}"
            );
        };
        let check = |mode, abi, bubblewrap, expected| check_with(mode, with(abi), bubblewrap, expected);
        let rootless = Means {
            own_root: false,
            ..with(9)
        };
        check_with(Auto, rootless, false, Status::Warning);
        check_with(Auto, rootless, true, Status::Ok);
        check(Auto, 9, false, Status::Ok);
        check(Auto, 7, true, Status::Ok);
        check(Auto, 1, false, Status::Ok);
        check(Auto, 0, true, Status::Ok);
        check(Auto, 0, false, Status::Warning);
        check(Landlock, 5, false, Status::Ok);
        check(Landlock, 4, true, Status::Missing);
        check(Bubblewrap, 9, false, Status::Missing);
        check(None, 9, true, Status::Warning);
        let all = Groups {
            hold: true,
            memory: true,
            processes: true,
        };
        let lines = |means, groups| {
            confinement(Auto, &Network::Open, means, false, groups)
                .details
                .len()
        };
        assert_eq!(lines(with(9), Groups::default()), lines(with(9), all) + 2);
        let unfiltered = Means {
            filter: false,
            ..with(9)
        };
        assert_eq!(lines(unfiltered, Groups::default()), lines(unfiltered, all) + 3);
    }

    fn with(abi: u32) -> Means {
        Means {
            abi,
            filter: true,
            namespace: true,
            own_root: true,
        }
    }

    #[test]
    fn the_finding_describes_network_access() {
        let check = |network: &str, mode, abi, status, found: &str, details: &str| {
            let network = network.parse().unwrap();
            let part = confinement(mode, &network, with(abi), true, Groups::default());
            assert_eq!(part.status, status, "{network} {mode:?} {abi}");
            assert!(part.found.contains(found), "{}", part.found);
            let text = part.details.join("\n");
            assert!(text.contains(details), "{text}");
        };
        use SandboxMode::{Auto, None};
        check(
            "open",
            Auto,
            9,
            Status::Ok,
            "Landlock",
            "not enforced: the network (",
        );
        check("none", Auto, 9, Status::Ok, "no network", "");
        check("none", Auto, 0, Status::Ok, "bubblewrap, no network", "");
        check("none", None, 9, Status::Missing, "needs a sandbox", "");
        let proxy = "http://u:p@proxy:3128";
        check(
            proxy,
            Auto,
            9,
            Status::Ok,
            "network by http://proxy:3128 alone",
            "knows ports",
        );
        check(proxy, Auto, 0, Status::Missing, "needs Landlock ABI 4", "");
    }

    #[test]
    fn addresses_are_shown_without_their_login() {
        assert_eq!(
            without_login("nats://w:p%40@a:1, nats://b:2"),
            "nats://a:1,nats://b:2"
        );
        assert_eq!(without_login("u:p@host"), "nats://host");
    }
}
