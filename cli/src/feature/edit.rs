//! `feature edit`

use clap::Args;
use clap::builder::{BoolishValueParser, PossibleValuesParser};
use ralph_api::body::{Done, EditFeature, RunOptions, TextsView};
use ralph_domain::routing::strategy::Strategy;
use ralph_domain::train::Landing;
use ralph_shared::file;

use crate::client::{Client, escape};
use crate::feature::resume::ResumeFlag;
use crate::submit::agents;
use crate::submit::priority::PrecedenceFlags;
use crate::submit::protect;
use crate::task::replace::{ReplaceFlags, Replacing};
use crate::terminal::duration::Span;
use crate::terminal::output::{self, Format};

/// Change a feature; flags that are left out change nothing
///
/// Running sessions are not affected. Limits and choices replace those of the last run, and further runs
/// inherit them; a run that ended at a limit goes on when that limit is raised. To change a specification, a
/// plan or a task graph, use `feature spec`, `plan` and `tasks`; for priorities, `task edit`. Features share
/// the workers by weight, whatever the priorities of their tasks.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph feature edit todo --max-cost 50 --max-parallel 8
  ralph feature edit todo --model-strategy escalate --verify false
  ralph feature edit todo --weight 3 --deadline \"2026-12-01 08:00\"
  ralph feature edit todo --agent claude               also of tasks that wait in the queue
  ralph feature edit todo --gate-may-fail-on-base      work that passes the gate lands even if the base fails it
  ralph feature edit todo --description - < description.md")]
pub struct EditArgs {
    /// Name of the feature, or the beginning of its id
    #[arg(value_name = "FEATURE")]
    feature: String,
    /// Description for agents; `-` for standard input
    #[arg(long, value_name = "TEXT|-")]
    description: Option<String>,
    /// Sessions that may run at once
    #[arg(long, value_name = "N")]
    max_parallel: Option<i32>,
    /// Rounds of reviewing the whole feature when its tasks are done, including past rounds; 0 is none
    #[arg(long, value_name = "N")]
    review: Option<i32>,
    /// Retries of its unfinished tasks that are not running
    #[arg(long, value_name = "N")]
    max_retries: Option<i32>,
    /// Whether another session judges attempts at these tasks before they count
    #[arg(long, value_name = "BOOL")]
    verify: Option<bool>,
    #[command(flatten)]
    precedence: PrecedenceFlags,
    #[command(flatten)]
    run: RunChange,
    #[command(flatten)]
    replace: ReplaceFlags,
    #[command(flatten)]
    resume: ResumeFlag,
}

/// Limits and choices of a run
// No environment variables: one that sets defaults for submissions must not change existing features.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits and choices of its run; 0 is no limit")]
struct RunChange {
    /// Iterations
    #[arg(long, value_name = "N")]
    limit: Option<i64>,
    /// Cost in USD
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,
    /// Wall time, since the run began
    #[arg(long, value_name = "TIME")]
    max_time: Option<Span>,
    /// Tokens in and out
    #[arg(long, value_name = "N")]
    max_tokens: Option<i64>,
    /// Wall time of one session
    #[arg(long, value_name = "TIME")]
    session_time: Option<Span>,
    /// Longest silence of an agent
    #[arg(long, value_name = "TIME")]
    idle_time: Option<Span>,
    /// Pause after a task's first failure, doubled by each up to 10 minutes
    #[arg(long, value_name = "TIME")]
    backoff: Option<Span>,
    /// Model or tier; alone it means the strategy `fixed`
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// How models are chosen
    #[arg(long, value_name = "STRATEGY", value_parser = PossibleValuesParser::new(Strategy::ALL.map(|one| one.into_str())))]
    model_strategy: Option<String>,
    /// A configured agent of the workers
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// A command that must succeed on exactly the commit that lands; replaces the present gate; may be
    /// repeated
    #[arg(long, value_name = "COMMAND")]
    gate: Vec<String>,
    /// Let work that passes the gate land without trying the gate on the base commit, which may fail it
    #[arg(long, value_name = "YES|NO", num_args = 0..=1, require_equals = true, default_missing_value = "yes",
          value_parser = BoolishValueParser::new())]
    gate_may_fail_on_base: Option<bool>,
    /// Paths whose change a person approves before it lands; replaces the present ones; may be repeated, and
    /// '' is none
    #[arg(long, value_name = "PATTERN")]
    protect: Vec<String>,
    /// How attempts that passed land: each, batch, serial
    #[arg(long, value_name = "HOW")]
    landing: Option<Landing>,
    /// Let no task wait for a person when its retries are used up, or a further one would not help
    #[arg(long, value_name = "YES|NO", num_args = 0..=1, require_equals = true, default_missing_value = "yes",
          value_parser = BoolishValueParser::new())]
    no_review: Option<bool>,
}

impl RunChange {
    fn request(self) -> RunOptions {
        RunOptions {
            iterations: self.limit,
            first_iteration: None,
            time_ms: self.max_time.map(Span::ms),
            cost_usd: self.max_cost,
            tokens: self.max_tokens,
            session_ms: self.session_time.map(Span::ms),
            idle_ms: self.idle_time.map(Span::ms),
            output_bytes: None,
            backoff_ms: self.backoff.map(Span::ms),
            model: self.model,
            model_strategy: self.model_strategy,
            agent: self.agent,
            gate: self.gate,
            gate_steps: Vec::new(),
            gate_may_fail_on_base: self.gate_may_fail_on_base,
            protect: protect(&self.protect),
            landing: self.landing,
            max_speculation: None,
            gate_retries: None,
            review: self.no_review.map(|off| !off),
            cold: None,
        }
    }
}

/// Changes the feature, and reports it.
///
/// # Errors
/// When the coordinator refuses, or the description changed in the meantime.
pub async fn run(client: &Client, format: Format, args: EditArgs) -> anyhow::Result<()> {
    let (feature, resume) = (args.feature.clone(), args.resume);
    agents::warn_if_unknown(client, args.run.agent.as_deref()).await;
    let done = edit(client, args).await?;
    output::answer(format, &done, &format!("edited {feature}\n"))?;
    resume.report(client, &feature, &done).await;
    Ok(())
}

/// Changes the feature; a description only if it is still the one that the person saw.
async fn edit(client: &Client, args: EditArgs) -> anyhow::Result<Done> {
    let path = format!("/features/{}", escape(&args.feature));
    let description = match args.description.as_deref() {
        Some("-") => Some(file::read_stdin(file::LARGE_BYTES)?),
        _ => args.description,
    };
    let mut edit = EditFeature {
        description,
        before: None,
        max_parallel: args.max_parallel,
        review_rounds: args.review,
        max_retries: args.max_retries,
        verify: args.verify,
        precedence: args.precedence.into(),
        resume: args.resume.to_request(),
        run: args.run.request(),
    };
    let Some(text) = edit.description.clone() else {
        return client.patch(&path, &edit).await;
    };
    let texts = format!("{path}/texts");
    let stored: TextsView = client.get(&texts).await?;
    let before = stored.description;
    let what = format!("the description of {}", args.feature);
    let command = format!("ralph feature edit {} --description - <", args.feature);
    let replacing = Replacing {
        which: "feature",
        what: &what,
        file: None,
        command: &command,
    };
    if text != before {
        replacing.replace(&args.replace, &before, &text)?;
    }
    edit.before = Some(before.clone());
    let error = match client.patch(&path, &edit).await {
        Ok(done) => return Ok(done),
        Err(error) => error,
    };
    let now: Option<TextsView> = client.get(&texts).await.ok();
    let now = now.map(|now| now.description);
    Err(replacing.refused(error, (&before, now), &text)?)
}
