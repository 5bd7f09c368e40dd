//! `schedule …`, and the flags that set a schedule.

pub(crate) mod hook;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use jiff::tz::TimeZone;
use ralph_api::body::{Done, PauseSchedule, SetSchedule};
use ralph_api::view::{Page, ScheduleView};
use ralph_domain::scheduling::schedule::{Missed, Timetable, zone_of};

use super::client::{Client, escape};
use crate::args::globals::Globals;
use crate::args::usage::Usage;
use crate::terminal::local_time::{ago, when};
use crate::terminal::moment::Moment;
use crate::terminal::output::{self, Format};
use crate::terminal::table::Table;

/// Show, pause and remove schedules; --at and --every of `submit feature` and `feature run` set them
#[derive(Debug, Subcommand)]
pub enum ScheduleCommand {
    /// List schedules, the next one first
    #[command(
        visible_alias = "ls",
        after_help = "Example:
  ralph schedule list"
    )]
    List,
    /// Remove a feature's schedule; the features that it created stay
    #[command(after_help = "Example:
  ralph schedule remove nightly")]
    Remove(ScheduleArg),
    /// Pause a feature's schedule
    #[command(after_help = "Example:
  ralph schedule pause nightly")]
    Pause(ScheduleArg),
    /// Resume a schedule; times that passed meanwhile count as missed
    #[command(after_help = "Example:
  ralph schedule resume nightly")]
    Resume(ScheduleArg),
}

/// The schedule's feature.
#[derive(Debug, Args)]
pub struct ScheduleArg {
    /// Name of the feature, or the beginning of its id
    feature: String,
}

/// Schedule of the run
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Schedule of the run")]
pub struct ScheduleFlags {
    /// Start its run at this time: 2026-12-01T08:00+01:00, "2026-12-01 08:00", or 6h for 6 hours from now
    #[arg(long, value_name = "TIME", conflicts_with = "every")]
    at: Option<String>,
    /// Create and run a copy of it at the times of a cron expression: minute, hour, day, month and weekday
    #[arg(long, value_name = "CRON")]
    every: Option<String>,
    /// Time zone of --every and of times without an offset, such as Europe/Berlin [default: yours, else UTC]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Times missed while no coordinator ran: run once for all of them (once), or not at all (skip)
    #[arg(long, value_enum, default_value_t = Missed::Once, value_name = "POLICY")]
    missed: Missed,
}

impl ScheduleFlags {
    /// The schedule that the flags request, if any.
    pub fn to_request(&self) -> Result<Option<SetSchedule>, Usage> {
        if self.at.is_none() && self.every.is_none() {
            return match self.time_zone {
                Some(_) => Err(Usage("--time-zone goes with --at or --every".to_owned())),
                None => Ok(None),
            };
        }
        let zone = match &self.time_zone {
            Some(name) => zone_of(name).map_err(Usage)?,
            None => TimeZone::system(),
        };
        // A zone without a name exists only on this machine.
        let name = zone.iana_name().unwrap_or("UTC").to_owned();
        if let Some(cron) = &self.every {
            Timetable::parse(cron, &name).map_err(Usage)?;
        }
        let at = self
            .at
            .as_deref()
            .map(|at| Moment::read(at, &zone).map_err(Usage));
        Ok(Some(SetSchedule {
            at: at.transpose()?.map(|at| at.to_string()),
            cron: self.every.clone(),
            time_zone: Some(name),
            missed: self.missed,
        }))
    }
}

/// Sets a feature's schedule, and reports its next time.
pub async fn set(
    client: &Client,
    format: Format,
    feature: &str,
    options: &SetSchedule,
) -> anyhow::Result<ExitCode> {
    let path = format!("/features/{}/schedule", escape(feature));
    let set: ScheduleView = client.put(&path, options).await?;
    let at = set.next_at.map(when).unwrap_or_default();
    let what = if set.cron.is_some() { "a copy of " } else { "" };
    let text = format!("{what}{} begins at {at}\n", set.feature);
    output::answer(format, &set, &text)?;
    Ok(ExitCode::SUCCESS)
}

pub async fn run(globals: &Globals, command: ScheduleCommand) -> anyhow::Result<ExitCode> {
    let client = Client::find(globals)?;
    let path = |of: &ScheduleArg| format!("/features/{}/schedule", escape(&of.feature));
    let (of, done, now): (ScheduleArg, Done, &str) = match command {
        ScheduleCommand::List => {
            let page: Page<ScheduleView> = client.get("/schedules").await?;
            output::show(globals, &page, |_| table(&page.items)).await?;
            return Ok(ExitCode::SUCCESS);
        }
        ScheduleCommand::Remove(of) => {
            let done = client.delete(&path(&of)).await?;
            (of, done, "no longer has a schedule")
        }
        ScheduleCommand::Pause(of) => {
            let done = client.patch(&path(&of), &PauseSchedule { paused: true }).await?;
            (of, done, "starts no runs by schedule until it is resumed")
        }
        ScheduleCommand::Resume(of) => {
            let done = client.patch(&path(&of), &PauseSchedule { paused: false }).await?;
            (of, done, "starts runs by schedule again")
        }
    };
    output::answer(globals.output, &done, &format!("{} {now}\n", of.feature))?;
    Ok(ExitCode::SUCCESS)
}

fn table(schedules: &[ScheduleView]) -> Table {
    let heads = [
        "FEATURE", "NEXT", "CRON", "ZONE", "MISSED", "FIRED", "MADE", "PROBLEM",
    ];
    let mut table = Table::new(heads, "no schedules");
    for one in schedules {
        let next = match one.next_at {
            _ if one.paused => "paused".to_owned(),
            Some(at) => ago(at),
            None => "over".to_owned(),
        };
        let missed = match one.missed {
            Missed::Skip => "skip",
            Missed::Once => "once",
        };
        table.row([
            one.feature.clone(),
            next,
            one.cron.clone().unwrap_or_else(|| "once".to_owned()),
            one.time_zone.clone(),
            missed.to_owned(),
            one.fired_at.map(ago).unwrap_or_default(),
            one.made.clone().unwrap_or_default(),
            one.problem.clone().unwrap_or_default(),
        ]);
    }
    table
}
