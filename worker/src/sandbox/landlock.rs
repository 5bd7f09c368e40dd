//! Landlock rules for files, ports and processes.

use std::sync::LazyLock;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, NetPort, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};

use super::network::Network;
use super::policy::Policy;

/// The newest requested rights. An older kernel enforces those it knows.
pub(super) const NEWEST_ABI: ABI = ABI::V9;

/// Required by `sandbox = "landlock"`: controls rename, truncate, TCP and devices (Linux 6.10).
pub const REQUIRED_ABI: u32 = 5;

/// From this ABI on, signals and abstract sockets stay inside (Linux 6.12).
pub(super) const SCOPE_ABI: u32 = 6;

/// From this ABI on, Landlock controls sockets with a path.
const SOCKET_ABI: u32 = 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Support {
    /// Landlock's ABI; 0 without Landlock.
    pub abi: u32,
}

impl Support {
    /// Missing protection on this machine, for `doctor` and the worker's start. `own_root` says whether a
    /// session has a root of its own.
    pub fn gaps(&self, own_root: bool) -> Vec<&'static str> {
        let missing = [
            (
                self.abi == 0,
                "files: the kernel has no Landlock (Linux 5.13), agents run open",
            ),
            (
                self.abi < REQUIRED_ABI && !own_root,
                "truncating files, renaming between folders or devices: Landlock is older than ABI 5 (Linux 6.10)",
            ),
            (
                self.abi < SCOPE_ABI,
                "signals to processes of the same user and abstract sockets: Landlock is older than ABI 6 (Linux 6.12)",
            ),
            (
                self.abi < SOCKET_ABI && !own_root,
                "sockets with a path that the user may open (a message bus, docker): Landlock is older than ABI 9",
            ),
            (
                !own_root,
                "permission bits, owners, times and names of files that the worker's user owns",
            ),
            (
                !own_root,
                "terminals of programs that open them by path (those of musl and Go): they get none, since the user's are there too",
            ),
            (true, "names and command lines of other processes (/proc)"),
        ];
        missing
            .into_iter()
            .filter(|(missing, _)| *missing)
            .map(|(_, words)| words)
            .collect()
    }
}

pub fn support() -> Support {
    static SUPPORT: LazyLock<Support> = LazyLock::new(query_kernel);
    *SUPPORT
}

fn query_kernel() -> Support {
    // The kernel reports its version only when it confines a thread, so a separate thread does it and ends.
    let asked = std::thread::spawn(|| {
        Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST_ABI))?
            .create()?
            .restrict_self()
    });
    let abi = match asked.join() {
        Ok(Ok(status)) => match status.landlock {
            LandlockStatus::Available { effective_abi, .. } => effective_abi as u32,
            _ => 0,
        },
        _ => 0,
    };
    Support { abi }
}

/// The rules of a policy, as far as the kernel knows them. All network rules are required.
pub(super) fn rules(policy: &Policy, network: &Network) -> Result<RulesetCreated, RulesetError> {
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST_ABI))?
        .scope(Scope::from_all(NEWEST_ABI))?;
    add_port(over_ports(rules, network)?.create()?, network)?
        .add_rules(path_beneath_rules(&policy.read, AccessFs::from_read(NEWEST_ABI)))?
        .add_rules(path_beneath_rules(&policy.write, AccessFs::from_all(NEWEST_ABI)))
}

/// Rules for the network only, beside another sandbox. Abstract sockets are blocked if the kernel supports
/// it.
pub(super) fn port_rules(network: &Network) -> Result<RulesetCreated, RulesetError> {
    let rules = over_ports(Ruleset::default(), network)?.scope(Scope::AbstractUnixSocket)?;
    add_port(rules.create()?, network)
}

/// Forbids all TCP if only a proxy may be reached. Without a network there are no such sockets anyway.
fn over_ports(rules: Ruleset, network: &Network) -> Result<Ruleset, RulesetError> {
    if network.port().is_none() {
        return Ok(rules);
    }
    let insisted = rules.set_compatibility(CompatLevel::HardRequirement);
    let rules = insisted.handle_access(AccessNet::from_all(ABI::V4))?;
    Ok(rules.set_compatibility(CompatLevel::BestEffort))
}

fn add_port(rules: RulesetCreated, network: &Network) -> Result<RulesetCreated, RulesetError> {
    match network.port() {
        Some(port) => rules.add_rule(NetPort::new(port, AccessNet::ConnectTcp)),
        None => Ok(rules),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_name_missing_protection() {
        let gaps = |abi, own_root| Support { abi }.gaps(own_root).join("\n");
        assert!(gaps(0, false).starts_with("files: the kernel has no Landlock"));
        let sockets = "sockets with a path";
        assert!(gaps(7, false).contains(sockets) && gaps(8, false).contains("terminals"));
        assert!(!gaps(9, false).contains(sockets) && gaps(9, false).contains("permission bits"));
        assert_eq!(Support { abi: 6 }.gaps(true).len(), 1);
        assert!(gaps(5, true).contains("signals"));
    }
}
