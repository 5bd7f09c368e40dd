//! Rights that a child gives up right before its first instruction. It can't regain them, and its children
//! inherit the rest.

use std::io;
use std::os::fd::OwnedFd;

use landlock::{Access as _, AccessFs, PathBeneath, RulesetCreated, RulesetCreatedAttr as _};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use seccompiler::BpfProgram;

use super::{filter, landlock::NEWEST_ABI};

/// The rights and calls that a child gives up before its first instruction.
#[derive(Default)]
pub struct PreExecLimits {
    /// Rights over files and ports.
    pub rules: Option<RulesetCreated>,
    pub calls: Option<BpfProgram>,
    /// Root's capabilities other than those for plain files: with some of them a process reads another one's
    /// memory despite Landlock.
    pub capabilities: bool,
}

impl PreExecLimits {
    /// A copy for one more child.
    pub fn again(&self) -> io::Result<Self> {
        Ok(Self {
            rules: self.rules.as_ref().map(RulesetCreated::try_clone).transpose()?,
            calls: self.calls.clone(),
            capabilities: self.capabilities,
        })
    }

    /// Gives up the rights, except for a folder of the process's own. Allocates nothing while it succeeds.
    pub fn apply(&mut self, own: Option<OwnedFd>) -> io::Result<()> {
        // An error message would have to be allocated.
        let refused = || io::Error::from(io::ErrorKind::Unsupported);
        if let Some(mut rules) = self.rules.take() {
            if let Some(own) = own {
                let rule = PathBeneath::new(own, AccessFs::from_all(NEWEST_ABI));
                rules = rules.add_rule(rule).map_err(|_| refused())?;
            }
            rules.restrict_self().map_err(|_| refused())?;
        }
        if self.capabilities {
            give_up_capabilities()?;
        }
        match &self.calls {
            Some(calls) => filter::apply(calls).map_err(|_| refused()),
            None => Ok(()),
        }
    }
}

/// Drops capabilities. The child can't regain them, since a confined process gets no new privileges.
fn give_up_capabilities() -> io::Result<()> {
    let retained = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::SETUID
        | CapabilitySet::SETGID;
    let held = capabilities(None)?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: held.effective & retained,
            permitted: held.permitted & retained,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    Ok(())
}
