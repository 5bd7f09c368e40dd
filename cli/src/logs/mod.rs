//! `logs`: past and current activity of agents.

pub(crate) mod activity;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ralph_api::body::{Following, Transcript};
use ralph_api::view::{TaskDetail, TranscriptOf};
use ralph_domain::states::TaskState;
use ralph_shared::kind::SessionKind;
use ralph_shared::terminal::transcript::TranscriptText;
use ralph_shared::terminal::{Paint, Tone};

use super::client::{ApiError, Client, escape};
use crate::args::globals::Globals;
use crate::terminal::gate_times;
use crate::terminal::output::{self, Format};
use crate::terminal::pager;

/// Pause before a broken stream is requested again.
const AGAIN: Duration = Duration::from_millis(500);

/// Show the transcript of a task's agent, past or live
///
/// Without --attempt and --kind: the task's last session; for a finished task, the work, then its verdict
/// and its landing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph logs t-9f2c
  ralph logs t-9f2c --follow        until the task is done or the run is over
  ralph logs t-9f2c --kind work     what was done, not how it was verified
  ralph logs t-9f2c --attempt 2 --kind verify
  ralph logs t-9f2c --attempt 2 --raw | jq .text")]
pub struct LogsArgs {
    /// Id of the task, its beginning, or FEATURE/KEY
    task: String,
    /// Number of the attempt
    #[arg(long, value_name = "N")]
    attempt: Option<i32>,
    /// Kind of the session: work, verify, spec, plan, build, review or distill
    #[arg(long)]
    kind: Option<SessionKind>,
    /// Print new entries as they come, through all further attempts
    #[arg(short, long)]
    follow: bool,
    /// Print JSON lines as recorded
    #[arg(long)]
    raw: bool,
}

/// Output format of a growing transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    People,
    /// One JSON document per line.
    Json,
    /// One recorded line per line.
    Raw,
}

pub async fn run(globals: &Globals, args: LogsArgs) -> anyhow::Result<ExitCode> {
    let client = Client::find(globals)?;
    let wanted = [
        args.attempt.map(|n| format!("attempt={n}")),
        args.kind.map(|kind| format!("kind={kind}")),
    ];
    let wanted: Vec<String> = wanted.into_iter().flatten().collect();
    let query = if wanted.is_empty() {
        String::new()
    } else {
        format!("?{}", wanted.join("&"))
    };
    let path = format!("/tasks/{}/transcript", escape(&args.task));
    if args.follow {
        let how = match (args.raw, globals.output) {
            (true, _) => How::Raw,
            (false, Format::Json) => How::Json,
            (false, _) => How::People,
        };
        return follow(&client, &format!("{path}/events{query}"), how).await;
    }
    let mut transcript: Transcript = client.get(&format!("{path}{query}")).await?;
    // Verification and landing don't show the work, so they come after it.
    let since = match wanted[..] {
        [] if !transcript.of.live => done_since(&client, &args.task, &mut transcript).await?,
        _ => Since::default(),
    };
    if transcript.items.is_empty() && !transcript.of.live {
        eprintln!(
            "there is no transcript of this session: its agent never began, or it expired by `transcripts_days` of \
             [retention] in the coordinator's .ralph.toml"
        );
    }
    if args.raw {
        for entry in &transcript.items {
            output::record(entry)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if globals.output == Format::Json {
        output::json(&transcript)?;
        return Ok(ExitCode::SUCCESS);
    }
    pager::show(globals, &page(&transcript, &since)).await?;
    Ok(ExitCode::SUCCESS)
}

/// Events after the work of a finished task.
#[derive(Default)]
struct Since {
    verdict: Option<Transcript>,
    /// The commands of the gate's last run, with their times.
    gate: Option<String>,
    landed: Option<String>,
}

/// If the task is done, replaces its last session by its work, and returns what followed.
async fn done_since(client: &Client, task: &str, last: &mut Transcript) -> anyhow::Result<Since> {
    let task = escape(task);
    let detail: TaskDetail = client.get(&format!("/tasks/{task}")).await?;
    if detail.task.status != TaskState::Done {
        return Ok(Since::default());
    }
    let mut newest = detail.dispatches.iter().rev();
    let mut since = Since {
        verdict: None,
        gate: newest.find_map(|one| gate_times::words(&one.gate_times)),
        landed: detail.landed_commit,
    };
    if last.of.kind != SessionKind::Verify {
        return Ok(since);
    }
    let attempt = last.of.attempt;
    let work = client
        .get(&format!("/tasks/{task}/transcript?attempt={attempt}"))
        .await;
    since.verdict = match work {
        Ok(work) => Some(std::mem::replace(last, work)),
        // For a task that had only a verifier.
        Err(error) if ApiError::refuses(&error) => None,
        Err(error) => return Err(error),
    };
    Ok(since)
}

/// A heading that names the session.
pub(crate) fn head(show: &mut TranscriptText, of: &TranscriptOf) -> String {
    let TranscriptOf {
        kind,
        attempt,
        dispatch,
        worker,
        ..
    } = of;
    let line = format!("── {kind} attempt {attempt} ({dispatch}) on {worker} ──");
    show.line(Tone::Bright, &line)
}

/// A transcript for people, with what followed it.
fn page(transcript: &Transcript, since: &Since) -> String {
    let mut show = TranscriptText::new(Paint::stdout());
    let mut text = String::new();
    for transcript in [Some(transcript), since.verdict.as_ref()].into_iter().flatten() {
        text.push_str(&head(&mut show, &transcript.of));
        for entry in &transcript.items {
            text.push_str(&show.add(&entry.update));
        }
        text.push_str(&show.close());
    }
    if let Some(gate) = &since.gate {
        text.push_str(&show.line(Tone::Bright, &format!("── gate: {gate} ──")));
    }
    if let Some(commit) = &since.landed {
        text.push_str(&show.line(Tone::Bright, &format!("── landed as {commit} ──")));
    }
    text
}

async fn follow(client: &Client, path: &str, how: How) -> anyhow::Result<ExitCode> {
    let mut show = TranscriptText::new(Paint::stdout());
    let mut last_id: Option<String> = None;
    let mut announced: Option<String> = None;
    let (mut answered, mut warned) = (false, false);
    loop {
        let broke_off = match client.events(path, last_id.as_deref()).await {
            Ok(mut events) => loop {
                answered = true;
                match events.next().await {
                    Ok(Some(event)) => {
                        warned = false;
                        if event.id.is_some() {
                            last_id = event.id;
                        }
                        let following = serde_json::from_str(&event.data)?;
                        print(&following, how, &mut show, &mut announced)?;
                        if matches!(following, Following::End { .. }) {
                            return Ok(ExitCode::SUCCESS);
                        }
                    }
                    Ok(None) => break None,
                    Err(error) => break Some(error),
                }
            },
            Err(error) if ApiError::refuses(&error) => {
                return Err(error);
            }
            Err(error) => Some(error),
        };
        match broke_off {
            // Nothing has responded yet, so there may be no such stream.
            Some(error) if !answered => return Err(error),
            Some(error) if !warned => {
                warned = true;
                eprintln!("{error:#}; waiting for it");
            }
            _ => {}
        }
        tokio::time::sleep(AGAIN).await;
    }
}

fn print(
    following: &Following,
    how: How,
    show: &mut TranscriptText,
    announced: &mut Option<String>,
) -> anyhow::Result<()> {
    match following {
        Following::Dispatch(of) if how == How::People && announced.as_ref() != Some(&of.dispatch) => {
            *announced = Some(of.dispatch.clone());
            output::text(&head(show, of))
        }
        Following::Dispatch(_) => Ok(()),
        Following::Entry(entry) => match how {
            How::People => output::text(&show.add(&entry.update)),
            How::Json => output::json_line(entry),
            How::Raw => output::record(entry),
        },
        Following::End { .. } => output::text(&show.close()),
    }
}
