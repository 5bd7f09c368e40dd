//! Asks for a task at the terminal, when its title is missing.

use std::io::{BufRead as _, IsTerminal as _};

use ralph_shared::terminal::{Paint, Tone};

use super::task::TaskArgs;
use crate::args::usage::Usage;
use crate::terminal::editor;

/// Asks at the terminal for values without a flag, shows the submission, and lets the person confirm.
///
/// # Errors
/// Without a terminal, and when the person leaves or doesn't confirm.
pub(super) fn fill(args: &mut TaskArgs) -> anyhow::Result<()> {
    if !std::io::stdin().is_terminal() {
        let why =
            "the title is missing: give TITLE, the task in one line; at a terminal this command asks for it";
        return Err(Usage(why.to_owned()).into());
    }
    let title = loop {
        let title = prompt_line("What is to be done, on one line")?;
        if !title.is_empty() {
            break title;
        }
    };
    if args.description.is_none() {
        let line =
            prompt_line("What the agent needs to know (a line; `e` opens an editor; empty for nothing)")?;
        args.description = match line.as_str() {
            "" => None,
            "e" => Some(editor::edited(
                "description",
                "",
                "give it with --description TEXT",
            )?),
            _ => Some(line),
        };
    }
    if args.feature.is_none() && !args.repo.is_given() {
        let feature =
            prompt_line("Feature that it belongs to (empty makes one, in the repository of this folder)")?;
        args.feature = Some(feature).filter(|feature| !feature.is_empty());
    }
    if args.feature.is_some() && args.after.is_empty() {
        let after = prompt_line(
            "Tasks that must be done before (FEATURE/KEY or ids, separated by commas; empty for none)",
        )?;
        args.after = words(&after);
    }
    if args.feature.is_none() && args.run.gate.is_empty() {
        let gate = prompt_line(
            "Command that must succeed before it lands, for example `make test` (empty for `[verify] commands`)",
        )?;
        args.run.gate = Some(gate).filter(|gate| !gate.is_empty()).into_iter().collect();
    }
    eprint!("{}", summary(args, &title));
    args.title = Some(title);
    match prompt_line("Submit it? [Y/n]")?.as_str() {
        "" | "y" | "Y" | "yes" => Ok(()),
        _ => anyhow::bail!("nothing was submitted"),
    }
}

fn summary(args: &TaskArgs, title: &str) -> String {
    let of_new = "a new one, in the repository of this folder";
    let lines = [
        ("title", title.to_owned()),
        ("description", args.description.clone().unwrap_or_default()),
        (
            "feature",
            args.feature.clone().unwrap_or_else(|| of_new.to_owned()),
        ),
        ("after", args.after.join(", ")),
        ("gate", args.run.gate.join(" && ")),
    ];
    let paint = Paint::stderr();
    let mut text = String::new();
    for (name, value) in lines.iter().filter(|(_, value)| !value.trim().is_empty()) {
        let value = value.trim().replace('\n', "\n               ");
        text.push_str(&format!(
            "  {} {value}\n",
            paint.apply(Tone::Dim, &format!("{name:12}"))
        ));
    }
    text
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// Prompts for a line, and returns it trimmed.
fn prompt_line(question: &str) -> anyhow::Result<String> {
    eprint!("{question}: ");
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line)? == 0 {
        eprintln!();
        anyhow::bail!("nothing was submitted");
    }
    Ok(line.trim().to_owned())
}
