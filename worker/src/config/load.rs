//! A worker's complete configuration.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use ralph_shared::broker;
use ralph_shared::machine::dir_pool;
use ralph_shared::subjects::{Subjects, is_label};

use super::args::RunArgs;
use super::machine::Machine;
use crate::config::values::absolute;
use crate::sandbox::{SandboxMode, is_for_tools};

/// A worker's configuration, complete and checked.
#[derive(Debug, Clone)]
pub struct Config {
    pub name: String,
    pub slots: u32,
    pub pools: Vec<String>,
    /// This machine's configuration for sessions. Its `dirs` include those of the flags.
    pub machine: Machine,
    pub data: PathBuf,
    pub nats_url: String,
    pub subjects: Subjects,
    /// How long a drain waits for running sessions.
    pub drain: Duration,
}

impl Config {
    /// Combines flags, environment and file.
    ///
    /// # Errors
    /// Fails if a value can't be used: the message says what to change.
    pub fn load(args: RunArgs) -> anyhow::Result<Self> {
        let name = args.name.unwrap_or_else(machine_name);
        if !is_label(&name) {
            bail!("`{name}` can't name a worker: use 1 to 40 of a-z, 0-9 and `-` (--name)");
        }
        if let Some(pool) = args.pools.iter().find(|pool| !is_label(pool)) {
            bail!("`{pool}` can't name a pool: use 1 to 40 of a-z, 0-9 and `-` (--pool)");
        }
        if args.slots == 0 {
            bail!("a worker needs at least one slot (--slots)");
        }
        if args.nats.as_deref().is_some_and(holds_login) {
            bail!(
                "--nats holds a login, which every process of this machine can read in the process table, agents too: \
                 give the address in NATS_URL instead"
            );
        }
        let nats_url = args.nats.map_or_else(broker::url, Ok)?;
        let mut machine = Machine::load(args.machine)?;
        for agent in machine.agents.values_mut() {
            agent.protocol_log = args.protocol_log.unwrap_or(agent.protocol_log);
        }
        if machine.sandbox.mode != SandboxMode::None && is_for_tools(&std::path::absolute(&args.data)?) {
            bail!(
                "agents can read everything below {}, since it contains tools, so one could read the others' work: put --data \
                 elsewhere (/var/lib/ralph, say)",
                args.data.display()
            );
        }
        let mut dirs = absolute(args.dirs.into_iter())?;
        dirs.extend(machine.dirs);
        if let Some(dir) = dirs.iter().find(|dir| !dir.is_dir()) {
            bail!(
                "there is no folder {} for agents to work in: make it, or correct --dir, or `dirs` of [workspace]",
                dir.display()
            );
        }
        let mut pools = args.pools;
        if !dirs.is_empty() {
            // Submissions for a folder of this machine name this pool.
            pools.push(dir_pool());
        }
        machine.dirs = dirs;
        Ok(Self {
            name,
            slots: args.slots,
            pools,
            machine,
            data: args.data,
            nats_url,
            subjects: Subjects::new(&args.subject_prefix).map_err(anyhow::Error::msg)?,
            drain: Duration::from_secs(args.drain_seconds),
        })
    }
}

/// Whether an address in the list contains a user or a password.
fn holds_login(addresses: &str) -> bool {
    addresses.split(',').any(|address| address.contains('@'))
}

fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name
        .trim()
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    if is_label(&name) {
        name
    } else {
        "worker".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::args::MachineArgs;
    use super::*;

    #[test]
    fn unusable_names_are_refused() {
        let refused = |change: fn(&mut RunArgs)| {
            let mut args = RunArgs {
                name: Some("w".into()),
                slots: 1,
                pools: vec!["default".into()],
                dirs: Vec::new(),
                machine: MachineArgs::default(),
                protocol_log: None,
                data: "d".into(),
                nats: None,
                subject_prefix: "ralph".into(),
                drain_seconds: 1,
            };
            change(&mut args);
            Config::load(args).unwrap_err().to_string()
        };
        assert!(refused(|a| a.name = Some("A b".into())).contains("--name"));
        assert!(refused(|a| a.pools = vec!["x.y".into()]).contains("--pool"));
        assert!(refused(|a| a.slots = 0).contains("--slots"));
        assert!(refused(|a| a.nats = Some("nats://a:1,nats://w:secret@b:1".into())).contains("NATS_URL"));
        assert!(refused(|a| a.data = "/opt/ralph".into()).contains("--data"));
        assert!(refused(|a| a.dirs = vec!["/no/such".into()]).contains("no folder /no/such"));
    }
}
