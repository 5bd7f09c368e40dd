//! `feature spec`, `feature plan` and `feature tasks`: texts that the steps of a feature wrote, and that a
//! person may replace.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::Args;
use ralph_api::body::{Done, TextsView, WriteText};
use ralph_api::view::FeatureView;
use ralph_domain::graph::{self, Limits};
use ralph_domain::prompt::ChatFeature;
use ralph_shared::terminal::tame;
use serde::Serialize;

use crate::args::globals::Globals;
use crate::client::endpoint;
use crate::client::{Client, escape};
use crate::cost::estimate;
use crate::feature::chat;
use crate::feature::resume::ResumeFlag;
use crate::submit;
use crate::task::replace::{ReplaceFlags, Replacing, version};
use crate::terminal::editor;
use crate::terminal::output::{self, Format};
use crate::terminal::pager;

/// The feature, and what to do with its text.
#[derive(Debug, Args)]
pub struct TextArgs {
    /// Name of the feature, or the beginning of its id
    #[arg(value_name = "FEATURE")]
    feature: String,
    /// Store this file's content, `-` for standard input; this completes the specification's or the plan's
    /// step
    #[arg(long, value_name = "FILE", conflicts_with = "edit")]
    file: Option<PathBuf>,
    /// Edit the stored text with $VISUAL or $EDITOR
    #[arg(long)]
    edit: bool,
    /// Print the text, at a terminal too
    #[arg(long, conflicts_with_all = ["file", "edit"])]
    show: bool,
    #[command(flatten)]
    replace: ReplaceFlags,
    #[command(flatten)]
    resume: ResumeFlag,
}

/// Prints the text, or stores a new one.
pub async fn run(globals: &Globals, client: &Client, which: &str, args: TextArgs) -> anyhow::Result<()> {
    let path = format!("/features/{}/texts", escape(&args.feature));
    let texts: TextsView = client.get(&path).await?;
    let stored = of(which, &texts);
    let command = format!("ralph feature {which} {} --file", args.feature);
    let given = args.file.is_some() || args.edit;
    let talks = !given && which != "tasks" && !args.show && globals.output == Format::Table && is_terminal();
    if !given && !talks {
        if let (Some(text), true, Format::Table) = (stored, args.show, globals.output) {
            eprintln!(
                "version {0}: `{command} FILE --replaces {0}` replaces it",
                version(text)
            );
        }
        if let (Some(text), "tasks", Format::Table) = (stored, which, globals.output) {
            eprintln!("{}", estimated(client, &args.feature, text).await);
        }
        return print(globals, &args.feature, which, stored).await;
    }
    let before = stored.unwrap_or_default();
    let text = match &args.file {
        Some(file) => submit::read_text(file)?,
        None if args.edit => {
            let instead = "--edit needs a terminal; give the text with --file FILE";
            editor::edited(which, before, instead)?
        }
        None => talk(globals, &args.feature, which, &texts).await?,
    };
    if text == before {
        eprintln!("nothing was changed");
        return Ok(());
    }
    let replacing = Replacing {
        which,
        what: &format!("the {which} of {}", args.feature),
        file: args.file.as_deref().filter(|file| *file != Path::new("-")),
        command: &command,
    };
    if args.file.is_some() {
        replacing.replace(&args.replace, before, &text)?;
    }
    let written = WriteText {
        text,
        before: Some(before.to_owned()),
        resume: args.resume.to_request(),
    };
    let done = match client.put::<Done>(&format!("{path}/{which}"), &written).await {
        Ok(done) => done,
        Err(error) => {
            let now: Option<TextsView> = client.get(&path).await.ok();
            let now = now.map(|texts| of(which, &texts).unwrap_or_default().to_owned());
            return Err(replacing.refused(error, (before, now), &written.text)?);
        }
    };
    let is = if which == "tasks" { "are" } else { "is" };
    let text = format!("the {which} of {} {is} stored\n", args.feature);
    output::answer(globals.output, &done, &text)?;
    args.resume.report(client, &args.feature, &done).await;
    Ok(())
}

/// Lets the person and an agent write the text.
async fn talk(globals: &Globals, name: &str, which: &str, texts: &TextsView) -> anyhow::Result<String> {
    let feature = ChatFeature {
        name,
        description: &texts.description,
        spec: texts.spec.as_deref().filter(|_| which == "plan"),
        stored: of(which, texts),
    };
    let up = endpoint::published(globals.data.as_deref())?;
    let agent = up.and_then(|up| up.agent);
    chat::write(which, feature, agent.as_deref()).await
}

/// Estimated cost of a graph that waits for approval, in a line.
async fn estimated(client: &Client, feature: &str, graph: &str) -> String {
    let graph = graph::load("the tasks", graph, &Limits::file());
    let view: anyhow::Result<FeatureView> = client.get(&format!("/features/{}", escape(feature))).await;
    let (Ok(graph), Ok(view)) = (graph, view) else {
        return estimate::words(None);
    };
    let parallel = usize::try_from(view.max_parallel).unwrap_or(1);
    estimate::words(
        estimate::of_graph(client, &view.repo_id, &graph, parallel)
            .await
            .as_ref(),
    )
}

fn of<'a>(which: &str, texts: &'a TextsView) -> Option<&'a str> {
    match which {
        "plan" => texts.plan.as_deref(),
        "tasks" => texts.tasks.as_deref(),
        _ => texts.spec.as_deref(),
    }
}

fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// A text of a feature under its name; `null` when there is none.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextOfFeature {
    /// The specification.
    Spec(Option<String>),
    /// The plan.
    Plan(Option<String>),
    /// The task graph that waits for approval.
    Tasks(Option<String>),
}

impl TextOfFeature {
    fn new(which: &str, text: Option<String>) -> Self {
        match which {
            "spec" => Self::Spec(text),
            "plan" => Self::Plan(text),
            _ => Self::Tasks(text),
        }
    }
}

async fn print(globals: &Globals, feature: &str, which: &str, text: Option<&str>) -> anyhow::Result<()> {
    match (globals.output, text) {
        (Format::Json, text) => output::json(&TextOfFeature::new(which, text.map(str::to_owned))),
        (_, Some(text)) => {
            let text = format!("{}\n", text.trim_end());
            // An agent wrote the text. Redirected output stays exact, since the user may store it again.
            let shown = if std::io::stdout().is_terminal() {
                tame(&text)
            } else {
                text
            };
            pager::show(globals, &shown).await
        }
        (_, None) if which == "tasks" => Err(anyhow::anyhow!(
            "no task graph of {feature} waits for approval; `ralph task tree {feature}` shows its tasks"
        )),
        (_, None) => Err(anyhow::anyhow!(
            "{feature} has no {which}; write it with `ralph feature {which} {feature} --edit`"
        )),
    }
}
