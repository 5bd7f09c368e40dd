//! Resources of a process, from `/proc`.

use std::fs;

use anyhow::Context as _;

/// The unit of processor times in `/proc` on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Resident memory of a process. Bytes.
pub fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    status_bytes(pid, "VmRSS:")
}

/// Peak memory of a process. Bytes.
pub fn peak_bytes(pid: u32) -> anyhow::Result<u64> {
    status_bytes(pid, "VmHWM:")
}

fn status_bytes(pid: u32, field: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
    let kibibytes: u64 = text
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .and_then(|rest| rest.split_whitespace().next())
        .with_context(|| format!("{path} has no {field}"))?
        .parse()?;
    Ok(kibibytes * 1024)
}

/// Processor time of a process and its past and present children. Seconds.
pub fn cpu_seconds_with_children(pid: u32) -> anyhow::Result<f64> {
    let mut ticks = 0;
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(of) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        // Processes may end during the scan.
        let Ok(fields) = fields(of) else { continue };
        if of == pid {
            ticks += fields
                .iter()
                .skip(11)
                .take(4)
                .filter_map(|f| f.parse::<u64>().ok())
                .sum::<u64>();
        } else if fields.get(1).is_some_and(|parent| parent.parse() == Ok(pid)) {
            ticks += fields
                .iter()
                .skip(11)
                .take(2)
                .filter_map(|f| f.parse::<u64>().ok())
                .sum::<u64>();
        }
    }
    Ok(ticks as f64 / TICKS_PER_SECOND)
}

/// Processor time of a process so far. Seconds.
pub fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let ticks = fields(pid)?
        .iter()
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>())
        .sum::<Result<u64, _>>()?;
    Ok(ticks as f64 / TICKS_PER_SECOND)
}

/// The fields of `/proc/PID/stat` from the third on, the process's state; user and system time are at 11 and 12, those of
/// reaped children at 13 and 14.
fn fields(pid: u32) -> anyhow::Result<Vec<String>> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
    let (_, rest) = text
        .rsplit_once(')')
        .with_context(|| format!("unexpected form of {path}"))?;
    Ok(rest.split_whitespace().map(str::to_owned).collect())
}

/// Number of open descriptors of a process.
pub fn descriptors(pid: u32) -> anyhow::Result<usize> {
    entries(&format!("/proc/{pid}/fd"))
}

/// Number of threads of a process.
pub fn threads(pid: u32) -> anyhow::Result<usize> {
    entries(&format!("/proc/{pid}/task"))
}

fn entries(folder: &str) -> anyhow::Result<usize> {
    Ok(fs::read_dir(folder)
        .with_context(|| format!("failed to read {folder}"))?
        .count())
}

/// The children of a process, including zombies.
pub fn children(pid: u32) -> anyhow::Result<Vec<u32>> {
    let parent = |of: u32| fields(of).ok()?.get(1)?.parse::<u32>().ok();
    Ok(all()?.into_iter().filter(|of| parent(*of) == Some(pid)).collect())
}

/// Processes with this text in their readable environment.
pub fn with_environment(words: &str) -> anyhow::Result<Vec<u32>> {
    let has = |of: &u32| {
        let environment = fs::read(format!("/proc/{of}/environ")).unwrap_or_default();
        environment
            .windows(words.len())
            .any(|window| window == words.as_bytes())
    };
    Ok(all()?.into_iter().filter(has).collect())
}

fn all() -> anyhow::Result<Vec<u32>> {
    let names = fs::read_dir("/proc")?.flatten().map(|entry| entry.file_name());
    Ok(names.filter_map(|name| name.to_str()?.parse().ok()).collect())
}
