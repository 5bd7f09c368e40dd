//! How a child is started with less than its worker has: a thread gives up rights, which it can't win back, and starts the
//! child, which inherits what is left of them.

use std::io;

use landlock::RulesetCreated;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use seccompiler::BpfProgram;
use tokio::process::{Child, Command};

use super::filter;

/// What is given up.
#[derive(Default)]
pub struct Restraint {
    /// Rights over files and ports.
    pub rules: Option<RulesetCreated>,
    /// System calls: a child that is started gives these up itself, as the last thing before its first instruction.
    pub calls: Option<BpfProgram>,
    /// Root's capabilities other than over plain files: with some of them a process reads another one's memory past
    /// Landlock.
    pub capabilities: bool,
}

impl Restraint {
    /// Starts a command in a thread that gave up all but system calls.
    ///
    /// # Errors
    /// When the command can't be started, or the rights not be given up.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let runtime = tokio::runtime::Handle::current();
        self.in_thread(None, move || {
            let _entered = runtime.enter();
            command.spawn()
        })
    }

    /// Does something in a thread that gave them up.
    ///
    /// # Errors
    /// When they can't be given up, or that fails.
    pub fn restrained<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        self.in_thread(self.calls.as_ref(), work)
    }

    fn in_thread<T: Send>(
        &self,
        calls: Option<&BpfProgram>,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let rules = self.rules.as_ref().map(RulesetCreated::try_clone).transpose()?;
        std::thread::scope(|scope| {
            let start = move || {
                if let Some(rules) = rules {
                    rules.restrict_self().map_err(io::Error::other)?;
                }
                if self.capabilities {
                    give_up_capabilities()?;
                }
                if let Some(calls) = calls {
                    filter::apply(calls).map_err(io::Error::other)?;
                }
                work()
            };
            let thread = std::thread::Builder::new().name("confined-start".to_owned());
            thread
                .spawn_scoped(scope, start)?
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the thread that starts it failed")))
        })
    }
}

/// The child can't win them back, since a confined thread has no new privileges.
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
