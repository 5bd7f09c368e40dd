//! The version of a server program, and whether it is usable.

use std::path::Path;
use std::process::{Command, Stdio};

use super::runas::RunAs;

/// The oldest Postgres that the migrations work on.
pub const OLDEST_POSTGRES_MAJOR: u32 = 15;
/// The oldest nats-server with consumers that filter by several subjects.
pub const OLDEST_NATS: [u32; 3] = [2, 10, 0];

/// The version of the Postgres in `bin`, or why we can't use it. As root, `user` must be able to run it.
pub(super) fn postgres(bin: &Path, user: Option<&RunAs>) -> Result<[u32; 2], String> {
    if !bin.join("initdb").exists() {
        return Err("there is no `initdb` beside `postgres`".into());
    }
    if let Some(user) = user
        && let Some(folder) = user.blocked_by(&bin.join("postgres"))
    {
        return Err(format!(
            "as root it would run as user `{}`, who may not enter {}",
            user.name,
            folder.display()
        ));
    }
    // "postgres (PostgreSQL) 18.6 (Debian 18.6-1)"
    let version = version_of(&bin.join("postgres"), "(PostgreSQL) ")?;
    let version = [
        version.first().copied().unwrap_or(0),
        version.get(1).copied().unwrap_or(0),
    ];
    if version[0] < OLDEST_POSTGRES_MAJOR {
        return Err(format!(
            "version {} is too old, {OLDEST_POSTGRES_MAJOR} is needed",
            version[0]
        ));
    }
    Ok(version)
}

/// The version of a nats-server, or why we can't use it.
pub(super) fn nats(program: &Path) -> Result<[u32; 3], String> {
    // "nats-server: v2.15.1"
    let version = version_of(program, "nats-server: v")?;
    let part = |index: usize| version.get(index).copied().unwrap_or(0);
    let version = [part(0), part(1), part(2)];
    if version < OLDEST_NATS {
        let text = |version: [u32; 3]| version.map(|part| part.to_string()).join(".");
        return Err(format!(
            "version {} is too old, {} is needed",
            text(version),
            text(OLDEST_NATS)
        ));
    }
    Ok(version)
}

/// The numbers that follow `marker` in what `program --version` prints.
fn version_of(program: &Path, marker: &str) -> Result<Vec<u32>, String> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("it can't be run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers = text
        .split_once(marker)
        .map(|(_, version)| numbers(version))
        .unwrap_or_default();
    if numbers.is_empty() {
        let printed_line = String::from_utf8_lossy(&output.stderr);
        let printed_line = printed_line
            .lines()
            .next()
            .or(text.lines().next())
            .unwrap_or("nothing");
        return Err(format!("it printed no version, but: {printed_line}"));
    }
    Ok(numbers)
}

fn numbers(version: &str) -> Vec<u32> {
    let end = version
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(version.len());
    version[..end]
        .split('.')
        .map_while(|part| part.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_as_numbers() {
        let check = |text: &str, expected: &[u32]| assert_eq!(numbers(text), expected, "{text}");
        check("18.6 (Debian 18.6-1)", &[18, 6]);
        check("2.15.1\n", &[2, 15, 1]);
        check("19beta1", &[19]);
        check("unknown", &[]);
    }
}
