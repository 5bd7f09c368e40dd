//! What a child gives up of what its worker has, as the last things before its first instruction. It can't win them back, and what
//! it starts inherits what is left of them.

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
    /// System calls.
    pub calls: Option<BpfProgram>,
    /// Root's capabilities other than over plain files: with some of them a process reads another one's memory past
    /// Landlock.
    pub capabilities: bool,
}

impl PreExecLimits {
    /// The same, for one more child.
    ///
    /// # Errors
    /// When there are too many files open.
    pub fn again(&self) -> io::Result<Self> {
        Ok(Self {
            rules: self.rules.as_ref().map(RulesetCreated::try_clone).transpose()?,
            calls: self.calls.clone(),
            capabilities: self.capabilities,
        })
    }

    /// Gives them up, but for a folder that the process was given for its own. Allocates nothing while it succeeds.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn give_up(&mut self, own: Option<OwnedFd>) -> io::Result<()> {
        // Nothing may be allocated for words here.
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

/// The child can't win them back, since a confined process has no new privileges.
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
