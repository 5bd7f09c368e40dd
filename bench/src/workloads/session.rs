//! Ralph's overhead of a session without git: from the claim's response to the prompt, and from the turn's
//! end to the published report. A bare client holds the same session with the same agent, alternating with
//! Ralph.

use std::path::Path;

use anyhow::Context as _;

use crate::bare;
use crate::figures::{Figures, median};
use crate::load;
use crate::servers::Servers;
use crate::system::System;

/// Script of the agent: it records the arrival of the prompt, and the moment before its turn ends.
const SCRIPT: &str = "@effect begin\n@done\n@effect end";
/// Warm-up sessions.
const FIRST: usize = 5;
const DAY_SECONDS: f64 = 86_400.0;

/// Holds `n` sessions of each kind, alternating.
pub async fn session(servers: &Servers, n: usize, figures: &mut Figures) -> anyhow::Result<()> {
    let mut system = System::fresh(servers, "session").await?;
    let folder = servers.dir().join("session-bare");
    std::fs::create_dir_all(&folder)?;
    let (effects, bare_effects) = (system.effects_of("session"), folder.join("effects.log"));
    // Files of an earlier run would count too.
    for file in [&effects, &bare_effects, &system.log_of("session")] {
        let _ = std::fs::remove_file(file);
    }
    system.start_coordinator()?;
    let worker = system.start_worker("session", 1)?;
    let bus = system.bus().await?;
    let db = system.pool(1).await?;
    system.until_waiting(&bus, 1).await?;
    let prompt = format!(
        "## Assigned Task\nID: t-0123456789ab\nTitle: 0\nDescription:\n{SCRIPT}\n\n## How to report\n"
    );
    let mut held = Vec::new();
    for number in 0..n + FIRST {
        load::submit(&db, &bus, &format!("session-{number}"), &load::scripted([SCRIPT])).await?;
        system.until_done().await?;
        system.until_waiting(&bus, 1).await?;
        held.push(bare::hold(&folder, &bare_effects, &prompt).await?);
    }
    worker.stop().await;
    db.close().await;
    system.stop_coordinator().await;

    let log = std::fs::read_to_string(system.log_of("session"))?;
    let ours = Sides {
        began: logged(&log, "assigned "),
        ended: logged(&log, "reported "),
    };
    let bare = Sides {
        began: held.iter().map(|held| held.began % DAY_SECONDS).collect(),
        ended: held.iter().map(|held| held.answered % DAY_SECONDS).collect(),
    };
    let (before, after) = ours.overheads(&effects, n)?;
    let (bare_before, bare_after) = bare.overheads(&bare_effects, n)?;
    for (name, values) in [
        ("session, claim to prompt", &before),
        ("session, end of turn to report", &after),
        ("bare session, start to prompt", &bare_before),
        ("bare session, end of turn to answer", &bare_after),
    ] {
        figures.add(name, "ms", median(values));
    }
    let added = "session, what Ralph adds";
    let sum = |one: &[f64], other: &[f64]| median(one) + median(other);
    let more = sum(&before, &after) - sum(&bare_before, &bare_after);
    figures.at_most(added, "ms", more, 50.0);
    Ok(())
}

/// Start and end times of sessions, in order. Seconds of the day.
struct Sides {
    began: Vec<f64>,
    ended: Vec<f64>,
}

impl Sides {
    /// Times before the prompt and after the turn's end, without warm-up sessions. Milliseconds.
    fn overheads(&self, effects: &Path, n: usize) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
        let text = std::fs::read_to_string(effects)
            .with_context(|| format!("failed to read the effects log {}", effects.display()))?;
        let times = |name: &str| -> Vec<f64> {
            let lines = text.lines().filter(|line| line.starts_with(name));
            lines
                .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
                .collect()
        };
        let between = |from: &[f64], to: &[f64]| -> Vec<f64> {
            let pairs = from.iter().zip(to).skip(FIRST);
            pairs
                .map(|(from, to)| (to - from).rem_euclid(DAY_SECONDS) * 1e3)
                .collect()
        };
        let before = between(&self.began, &times("begin "));
        let after = between(&times("end "), &self.ended);
        anyhow::ensure!(
            before.len() == n && after.len() == n,
            "{} and {} of {n} sessions left their times in {}",
            before.len(),
            after.len(),
            effects.display()
        );
        Ok((before, after))
    }
}

/// Times of a worker's log lines with these words. Seconds of the day.
fn logged(log: &str, words: &str) -> Vec<f64> {
    let lines = log
        .lines()
        .filter(|line| line.contains(&format!(" INFO {words}")));
    lines.filter_map(second_of_day).collect()
}

/// Time of a line that begins with `2026-01-31T12:34:56.789012Z`.
fn second_of_day(line: &str) -> Option<f64> {
    let (_, time) = line.split_whitespace().next()?.split_once('T')?;
    let mut parts = time.trim_end_matches('Z').split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    let whole = hours.parse::<f64>().ok()? * 3600.0 + minutes.parse::<f64>().ok()? * 60.0;
    Some(whole + seconds.parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logged_parses_times_of_matching_lines() {
        let log = "2026-01-31T01:01:01.500000Z  INFO assigned dispatch=d-1 title=\"x\"\n\
                   2026-01-31T01:01:02.000000Z  INFO reported dispatch=d-1\nnoise\n";
        assert_eq!(logged(log, "assigned "), [3661.5]);
        assert_eq!(logged(log, "reported "), [3662.0]);
    }
}
