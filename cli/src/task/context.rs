//! `context`: the prompt of a past attempt, or of the next one.

use std::process::ExitCode;

use clap::Args;
use ralph_api::body::{PromptNext, PromptSent, SectionTokens};
use ralph_domain::prompt::Prompt;
use ralph_shared::terminal::tame;
use similar::TextDiff;

use crate::args::globals::Globals;
use crate::args::usage::Usage;
use crate::client::{Client, escape};
use crate::terminal::output::{self, Format};
use crate::terminal::pager;
use crate::terminal::table::Table;

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// Print the prompt that an agent got for a task, or would get now
///
/// As JSON it includes the outcome of each section and entry.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph context t-9f2c
  ralph context t-9f2c --tokens
  ralph context t-9f2c --attempt 3 --diff
  ralph context t-9f2c --next --diff 1
  ralph context t-9f2c --next --output json")]
pub struct ContextArgs {
    /// Id of the task, its beginning, or FEATURE/KEY
    task: String,
    /// Number of the attempt; by default the last one
    #[arg(long, value_name = "N")]
    attempt: Option<i32>,
    /// The prompt that the next attempt would get now
    #[arg(long, conflicts_with = "attempt")]
    next: bool,
    /// Only the approximate number of tokens of each section
    #[arg(long)]
    tokens: bool,
    /// Differences from the prompt of attempt N, or of the attempt before
    #[arg(long, value_name = "N", num_args = 0..=1, conflicts_with = "tokens")]
    diff: Option<Option<i32>>,
}

pub async fn run(globals: &Globals, args: ContextArgs) -> anyhow::Result<ExitCode> {
    let client = Client::find(globals)?;
    let (attempt, prompt, tokens, marks) = if args.next {
        let next: PromptNext = client
            .get(&format!("/tasks/{}/preview", escape(&args.task)))
            .await?;
        if globals.output == Format::Json && args.diff.is_none() {
            output::json(&next)?;
            return Ok(ExitCode::SUCCESS);
        }
        let whole = Prompt::join(&next.frame, &next.body);
        (next.attempt, whole, next.tokens, String::new())
    } else {
        let sent = sent(&client, &args.task, args.attempt).await?;
        if globals.output == Format::Json && args.diff.is_none() {
            output::json(&sent)?;
            return Ok(ExitCode::SUCCESS);
        }
        let whole = Prompt::join(&sent.frame, &sent.body);
        let marks = marks(&sent);
        (sent.of.attempt, whole, sent.tokens, marks)
    };
    let text = match args.diff {
        Some(other) => {
            let other = other.unwrap_or(attempt - 1);
            if other < 1 {
                let why =
                    format!("attempt {attempt} has no earlier one to compare with; name one with --diff N");
                return Err(Usage(why).into());
            }
            let before = sent(&client, &args.task, Some(other)).await?;
            let before = Prompt::join(&before.frame, &before.body);
            difference((other, &before), (attempt, &prompt))
        }
        None if args.tokens => counts(&tokens),
        None => format!("{marks}{prompt}\n"),
    };
    pager::show(globals, &tame(&text)).await?;
    Ok(ExitCode::SUCCESS)
}

async fn sent(client: &Client, task: &str, attempt: Option<i32>) -> anyhow::Result<PromptSent> {
    let query = attempt.map(|n| format!("?attempt={n}")).unwrap_or_default();
    client
        .get(&format!("/tasks/{}/prompt{query}", escape(task)))
        .await
}

/// Later changes of shown entries, a line each.
fn marks(sent: &PromptSent) -> String {
    let changed = sent.items.iter().filter(|one| one.shown);
    let lines = changed.filter_map(|one| Some(format!("[{}: {}]\n", one.id, one.reason.as_ref()?)));
    lines.collect()
}

fn counts(tokens: &[SectionTokens]) -> String {
    let mut table = Table::new(["SECTION", "TOKENS"], "");
    for section in tokens {
        table.row([section.name.clone(), section.tokens.to_string()]);
    }
    let sum: usize = tokens.iter().map(|section| section.tokens).sum();
    table.row(["all".to_owned(), sum.to_string()]);
    table.to_string()
}

/// Differences between two attempts' prompts.
fn difference(before: (i32, &str), after: (i32, &str)) -> String {
    let diff = TextDiff::from_lines(before.1, after.1);
    let names = (format!("attempt {}", before.0), format!("attempt {}", after.0));
    let text = diff
        .unified_diff()
        .context_radius(CONTEXT_LINES)
        .header(&names.0, &names.1)
        .to_string();
    if text.is_empty() {
        return "the prompts are the same\n".to_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_both_attempts() {
        let text = difference((1, "a\nb\nc"), (3, "a\nx\nc"));
        for part in ["--- attempt 1", "+++ attempt 3", "-b", "+x"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(difference((1, "a"), (2, "a")), "the prompts are the same\n");
    }
}
