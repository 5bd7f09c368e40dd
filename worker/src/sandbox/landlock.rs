//! Landlock: a thread gives up its rights and starts a child, which inherits what is left of them.

use std::io;
use std::sync::LazyLock;

use landlock::{
    ABI, Access, AccessFs, LandlockStatus, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetError, Scope, path_beneath_rules,
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use tokio::process::{Child, Command};

use super::policy::Policy;

/// The newest rights that are asked for; a kernel that knows fewer enforces those that it knows.
const WANTED_ABI: ABI = ABI::V9;

/// What `sandbox = "landlock"` insists on: rename, truncate, TCP and devices are controlled from here on (Linux 6.10).
pub const REQUIRED_ABI: u32 = 5;

/// From here on signals and abstract sockets stay inside (Linux 6.12).
const SCOPE_ABI: u32 = 6;

/// From here on sockets with a path are controlled as well.
const SOCKET_ABI: u32 = 9;

/// What this machine can enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Support {
    /// Landlock's ABI; 0 without it.
    pub abi: u32,
}

impl Support {
    /// What is not enforced here, for `doctor` and the worker's start; empty lines never.
    pub fn gaps(&self) -> Vec<&'static str> {
        let missing = [
            (
                self.abi == 0,
                "files: the kernel has no Landlock (Linux 5.13), agents run open",
            ),
            (
                self.abi < REQUIRED_ABI,
                "truncating files, renaming between folders or devices: Landlock is older than ABI 5 (Linux 6.10)",
            ),
            (
                self.abi < SCOPE_ABI,
                "signals to processes of the same user and abstract sockets: Landlock is older than ABI 6 (Linux 6.12)",
            ),
            (
                self.abi < SOCKET_ABI,
                "sockets with a path that the user may open: Landlock is older than ABI 9",
            ),
            (
                true,
                "permission bits, owners and times of files that the worker's user owns",
            ),
            (true, "the network"),
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
    static SUPPORT: LazyLock<Support> = LazyLock::new(ask_kernel);
    *SUPPORT
}

fn ask_kernel() -> Support {
    // Only confining tells which version the kernel has, so a thread does it and ends.
    let asked = std::thread::spawn(|| {
        Ruleset::default()
            .handle_access(AccessFs::from_all(WANTED_ABI))?
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

/// Starts a command in a thread that confined itself.
///
/// # Errors
/// When the command can't be started, or not be confined.
pub(super) fn spawn(rules: &RulesetCreated, command: &mut Command) -> io::Result<Child> {
    let rules = rules.try_clone()?;
    let runtime = tokio::runtime::Handle::current();
    std::thread::scope(|scope| {
        let start = move || {
            let _entered = runtime.enter();
            rules.restrict_self().map_err(io::Error::other)?;
            give_up_capabilities()?;
            command.spawn()
        };
        let thread = std::thread::Builder::new().name("confined-start".to_owned());
        thread
            .spawn_scoped(scope, start)?
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that starts it failed")))
    })
}

/// Root's capabilities other than over plain files go: with some of them a process reads another one's memory past
/// Landlock. The child can't win them back, since a confined thread has no new privileges.
fn give_up_capabilities() -> io::Result<()> {
    let kept = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::SETUID
        | CapabilitySet::SETGID;
    let held = capabilities(None)?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: held.effective & kept,
            permitted: held.permitted & kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    Ok(())
}

/// The rules of a policy, as far as the kernel knows them.
///
/// # Errors
/// When the kernel refuses them.
pub(super) fn rules(policy: &Policy) -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(WANTED_ABI))?
        .scope(Scope::from_all(WANTED_ABI))?
        .create()?
        .add_rules(path_beneath_rules(&policy.read, AccessFs::from_read(WANTED_ABI)))?
        .add_rules(path_beneath_rules(&policy.write, AccessFs::from_all(WANTED_ABI)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_enforced_is_said() {
        assert_eq!(Support { abi: 9 }.gaps().len(), 2);
        assert!(Support { abi: 0 }.gaps()[0].contains("no Landlock"));
        assert!(
            Support { abi: 7 }
                .gaps()
                .iter()
                .any(|gap| gap.contains("sockets with a path"))
        );
    }
}
