//! Named points at which a test can kill or stop this process.
//!
//! A test facility: `RALPH_FAULT="POINT:ACTION[:NTH]"` makes the `NTH` (from 1, default 1) passage of the
//! named point end the process with `SIGKILL` (`kill`) or halt it with `SIGSTOP` (`stop`). With
//! `RALPH_FAULT_ONCE=PATH` the file is created first and exclusively, so that of all processes with the same
//! environment, a restarted one included, only one is hit. Commas separate several faults; each then has the
//! file `PATH.POINT`. Without `RALPH_FAULT` a point costs one atomic load.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[derive(Debug)]
struct Fault {
    point: String,
    signal: Signal,
    nth: u32,
    passed: AtomicU32,
    marker: Option<PathBuf>,
}

static FAULTS: OnceLock<Vec<Fault>> = OnceLock::new();

/// The process passes the named point. Returns at once unless `RALPH_FAULT` names the point.
pub fn point(name: &str) {
    let faults = FAULTS.get_or_init(from_environment);
    for fault in faults.iter().filter(|fault| fault.point == name) {
        fault.passed();
    }
}

impl Fault {
    fn passed(&self) {
        if self.passed.fetch_add(1, Ordering::SeqCst) + 1 != self.nth {
            return;
        }
        if let Some(marker) = &self.marker
            && OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(marker)
                .is_err()
        {
            return;
        }
        if let Err(error) = kill(Pid::this(), self.signal) {
            tracing::error!(point = self.point, %error, "failed to signal this process");
        }
    }
}

fn from_environment() -> Vec<Fault> {
    let Ok(text) = std::env::var("RALPH_FAULT") else {
        return Vec::new();
    };
    let once = std::env::var_os("RALPH_FAULT_ONCE").map(PathBuf::from);
    let faults = read(&text, once.as_deref());
    if faults.is_none() {
        tracing::error!(%text, "RALPH_FAULT is not POINT:kill|stop[:NTH],…, so it is ignored");
    }
    faults.unwrap_or_default()
}

/// Reads one fault or several; `None` if one of them is invalid.
fn read(text: &str, once: Option<&Path>) -> Option<Vec<Fault>> {
    let several = text.contains(',');
    text.split(',')
        .map(|one| {
            let marker = once.map(|path| match one.split(':').next() {
                Some(point) if several => PathBuf::from(format!("{}.{point}", path.display())),
                _ => path.to_owned(),
            });
            parse(one, marker)
        })
        .collect()
}

fn parse(text: &str, marker: Option<PathBuf>) -> Option<Fault> {
    let mut parts = text.split(':');
    let point = parts.next().filter(|point| !point.is_empty())?.to_owned();
    let signal = match parts.next()? {
        "kill" => Signal::SIGKILL,
        "stop" => Signal::SIGSTOP,
        _ => return None,
    };
    let nth = match parts.next() {
        None => 1,
        Some(nth) => nth.parse().ok().filter(|nth| *nth > 0)?,
    };
    let passed = AtomicU32::new(0);
    parts.next().is_none().then_some(Fault {
        point,
        signal,
        nth,
        passed,
        marker,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_names_its_point_action_and_passage() {
        let fault = parse("integrate.before_push:stop:3", None).unwrap();
        assert_eq!(
            (fault.point.as_str(), fault.signal, fault.nth),
            ("integrate.before_push", Signal::SIGSTOP, 3)
        );
        assert_eq!(parse("prepare:kill", None).unwrap().nth, 1);
        let several = read("a:kill,b:stop:2", Some(Path::new("/once"))).unwrap();
        let markers: Vec<_> = several
            .iter()
            .map(|fault| fault.marker.clone().unwrap())
            .collect();
        assert_eq!(markers, [Path::new("/once.a"), Path::new("/once.b")]);
        let one = read("a:kill", Some(Path::new("/once"))).unwrap();
        assert_eq!(one[0].marker.as_deref(), Some(Path::new("/once")));
        assert!(read("a:kill,", None).is_none());
        for wrong in [
            "",
            "prepare",
            ":kill",
            "prepare:die",
            "prepare:kill:0",
            "prepare:kill:x",
            "a:kill:1:2",
        ] {
            assert!(parse(wrong, None).is_none(), "{wrong}");
        }
    }
}
