//! `feature prune`: removes refs of attempts from the remote.

use clap::Args;
use ralph_api::body::{PruneAttempts, Pruning};
use ralph_shared::terminal::counted;

use super::FeatureArg;
use crate::client::{Client, escape};
use crate::terminal::confirm::confirm;
use crate::terminal::duration::{Span, show_ms};
use crate::terminal::output::{self, Format};

/// The feature, and limits on the refs to remove.
#[derive(Debug, Args)]
pub struct PruneArgs {
    #[command(flatten)]
    named: FeatureArg,
    /// Only of attempts that ended at least this long ago; 0 is any [default: `keep_attempts_days` of the
    /// coordinator]
    #[arg(long, value_name = "TIME")]
    older_than: Option<Span>,
    /// Only list the refs
    #[arg(long)]
    dry_run: bool,
    /// Don't ask
    #[arg(long)]
    yes: bool,
}

/// Lists the refs to remove, then asks and requests their removal.
pub async fn run(client: &Client, format: Format, args: PruneArgs) -> anyhow::Result<()> {
    let feature = &args.named.feature;
    let path = format!("/features/{}/prune", escape(feature));
    let options = |dry_run| PruneAttempts {
        older_than_ms: args.older_than.and_then(|age| u64::try_from(age.ms()).ok()),
        dry_run,
    };
    let planned: Pruning = client.post(&path, &options(true)).await?;
    if args.dry_run || planned.going.is_empty() {
        return show(format, feature, &planned, true);
    }
    let question = format!(
        "Remove {} of attempts of `{feature}` from its repository?",
        counted(planned.going.len(), "ref", "refs")
    );
    confirm(&question, args.yes)?;
    let pruning: Pruning = client.post(&path, &options(false)).await?;
    show(format, feature, &pruning, false)
}

fn show(format: Format, feature: &str, pruning: &Pruning, dry_run: bool) -> anyhow::Result<()> {
    output::answer(format, pruning, &page(feature, pruning, dry_run))
}

fn page(feature: &str, pruning: &Pruning, dry_run: bool) -> String {
    let mut text = String::new();
    for branch in &pruning.going {
        text.push_str(&format!("{branch}\n"));
    }
    for staying in &pruning.staying {
        text.push_str(&format!("{} stays: {}\n", staying.branch, staying.why));
    }
    let count = pruning.going.len();
    let last = match (count, dry_run) {
        (0, _) => format!(
            "no ref of an attempt of {feature} can be removed: {}\n",
            why_none(pruning)
        ),
        (_, true) => format!("{count} would be removed; nothing was done\n"),
        (_, false) => format!(
            "{} removed by the next worker of its pools; `feature prune {feature} --dry-run` shows the rest\n",
            counted(count, "ref will be", "refs will be")
        ),
    };
    text.push_str(&last);
    if let Some(error) = &pruning.error {
        text.push_str(&format!("the last try failed and will be repeated: {error}\n"));
    }
    text
}

fn why_none(pruning: &Pruning) -> String {
    let age = show_ms(i64::try_from(pruning.older_than_ms).unwrap_or(i64::MAX));
    match (pruning.recent, pruning.staying.len()) {
        (0, 0) => "the remote has none, as far as the coordinator knows".to_owned(),
        (0, _) => "the existing ones stay for now".to_owned(),
        (1, _) => format!("1 attempt ended less than {age} ago; `--older-than 0` takes it as well"),
        (n, _) => format!("{n} attempts ended less than {age} ago; `--older-than 0` takes them as well"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_api::body::StayingBranch;

    #[test]
    fn a_pruning_lists_removed_and_retained_refs_and_its_error() {
        let pruning = Pruning {
            feature: "f-000000000001".to_owned(),
            going: vec!["refs/ralph/attempts/todo/t-1/1-d-1".to_owned()],
            staying: vec![StayingBranch {
                branch: "refs/ralph/attempts/todo/t-2/1-d-2".to_owned(),
                why: "its task is not over".to_owned(),
            }],
            recent: 3,
            older_than_ms: 30 * 24 * 3_600_000,
            error: Some("denied".to_owned()),
        };
        assert_eq!(
            page("todo", &pruning, true),
            "refs/ralph/attempts/todo/t-1/1-d-1\nrefs/ralph/attempts/todo/t-2/1-d-2 stays: its task is not over\n1 would be removed; nothing \
             was done\nthe last try failed and will be repeated: denied\n"
        );
        let none = Pruning {
            going: Vec::new(),
            staying: Vec::new(),
            error: None,
            ..pruning
        };
        let text = page("todo", &none, false);
        assert!(
            text.starts_with("no ref of an attempt of todo can be removed: 3 attempts ended less than "),
            "{text}"
        );
        assert!(text.contains("--older-than 0"), "{text}");
        let never = Pruning { recent: 0, ..none };
        assert!(page("todo", &never, false).contains("the remote has none"));
    }
}
