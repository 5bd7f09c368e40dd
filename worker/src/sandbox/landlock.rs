//! Landlock: which files, ports and processes are out of reach, as the kernel is told it.

use std::sync::LazyLock;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, NetPort, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};

use super::network::Network;
use super::policy::Policy;

/// The newest rights that are requested; an older kernel enforces those that it knows.
pub(super) const NEWEST_ABI: ABI = ABI::V9;

/// What `sandbox = "landlock"` insists on: rename, truncate, TCP and devices are controlled from here on (Linux 6.10).
pub const REQUIRED_ABI: u32 = 5;

/// From here on signals and abstract sockets stay inside (Linux 6.12).
pub(super) const SCOPE_ABI: u32 = 6;

/// From here on sockets with a path are controlled as well.
const SOCKET_ABI: u32 = 9;

/// What this machine can enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Support {
    /// Landlock's ABI; 0 without it.
    pub abi: u32,
}

impl Support {
    /// What is not enforced here, for `doctor` and the worker's start; `own_root` where a session has a root of its own.
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

/// What the kernel can do, asked once.
pub fn support() -> Support {
    static SUPPORT: LazyLock<Support> = LazyLock::new(query_kernel);
    *SUPPORT
}

fn query_kernel() -> Support {
    // Only confining tells which version the kernel has, so a thread does it and ends.
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

/// The rules of a policy, as far as the kernel knows them; those for the network, all of them.
///
/// # Errors
/// When the kernel refuses them.
pub(super) fn rules(policy: &Policy, network: &Network) -> Result<RulesetCreated, RulesetError> {
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST_ABI))?
        .scope(Scope::from_all(NEWEST_ABI))?;
    add_port(over_ports(rules, network)?.create()?, network)?
        .add_rules(path_beneath_rules(&policy.read, AccessFs::from_read(NEWEST_ABI)))?
        .add_rules(path_beneath_rules(&policy.write, AccessFs::from_all(NEWEST_ABI)))
}

/// Rules for the network alone, beside another wall; abstract sockets are out of reach as far as the kernel knows them.
///
/// # Errors
/// When the kernel refuses them.
pub(super) fn port_rules(network: &Network) -> Result<RulesetCreated, RulesetError> {
    let rules = over_ports(Ruleset::default(), network)?.scope(Scope::AbstractUnixSocket)?;
    add_port(rules.create()?, network)
}

/// Takes all of TCP away where a proxy is all that may be reached. Without a network there are no such sockets anyway.
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
    fn what_is_not_enforced_is_said() {
        let gaps = |abi, own_root| Support { abi }.gaps(own_root).join("\n");
        assert!(gaps(0, false).starts_with("files: the kernel has no Landlock"));
        let sockets = "sockets with a path";
        assert!(gaps(7, false).contains(sockets) && gaps(8, false).contains("terminals"));
        assert!(!gaps(9, false).contains(sockets) && gaps(9, false).contains("permission bits"));
        assert_eq!(Support { abi: 6 }.gaps(true).len(), 1);
        assert!(gaps(5, true).contains("signals"));
    }
}
