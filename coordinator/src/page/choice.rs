//! Forms for a person's commands. Views name commands as people type them (`domain::choices`,
//! `domain::next`), so that the page offers the same as the command line; it shows a command without a form
//! as text.

use maud::{Markup, html};

use super::sheet::hidden;
use super::words::line;
use crate::page::session::signed_in::Visitor;
use crate::store::view::QuestionView;

/// The meaning of a command.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// A command on a task: verb and task.
    Task(String, String),
    /// A command on a feature: verb and feature.
    Feature(String, String),
    /// Raises a limit of a feature's run: feature, flag, value.
    Limit(String, String, String),
    /// Raises a limit of a level: level, name, flag, value.
    Budget(String, Option<String>, String, String),
    /// Shows a text of a feature: text and feature.
    Text(String, String),
    /// Shows the changes of a task.
    Diff(String),
    /// Any other command.
    Other(String),
}

pub fn read(command: &str) -> Choice {
    let other = || Choice::Other(command.to_owned());
    let Some(words) = shell_words::split(command).ok() else {
        return other();
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let owned = str::to_owned;
    match words[..] {
        ["ralph", "task", "diff", of] => Choice::Diff(owned(of)),
        [
            "ralph",
            "task",
            verb @ ("approve" | "reject" | "retry" | "skip" | "cancel" | "feedback" | "answer"),
            of,
        ] => Choice::Task(owned(verb), owned(of)),
        ["ralph", "feature", verb @ ("run" | "resume"), of] => Choice::Feature(owned(verb), owned(of)),
        [
            "ralph",
            "feature",
            which @ ("spec" | "plan" | "tasks"),
            of,
            "--show",
        ] => Choice::Text(owned(which), owned(of)),
        ["ralph", "feature", "edit", of, flag, value] => Choice::Limit(owned(of), owned(flag), owned(value)),
        ["ralph", "budget", "set", level, flag, value] => {
            Choice::Budget(owned(level), None, owned(flag), owned(value))
        }
        ["ralph", "budget", "set", level, name, flag, value] => {
            Choice::Budget(owned(level), Some(owned(name)), owned(flag), owned(value))
        }
        _ => other(),
    }
}

/// The button of a verb, and whether its form has a text.
fn verb(word: &str) -> (&'static str, Words) {
    match word {
        "approve" => ("Approve", Words::None),
        "reject" => ("Send back", Words::Required),
        "retry" => ("Retry", Words::Optional),
        "feedback" => ("Leave feedback", Words::Required),
        "say" => ("Send a message", Words::Required),
        "answer" => ("Answer", Words::Required),
        "interrupt" => ("Interrupt", Words::Optional),
        "skip" => ("Skip", Words::Confirmation),
        "cancel" => ("Cancel", Words::Confirmation),
        "run" => ("Run", Words::None),
        "resume" => ("Resume", Words::None),
        "pause" => ("Pause", Words::None),
        "stop" => ("Stop the run", Words::Confirmation),
        "release" => ("Take from its worker", Words::Confirmation),
        "review" => ("Review again", Words::None),
        _ => ("Do it", Words::None),
    }
}

/// The text of a verb's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Words {
    None,
    /// No text, but a second click.
    Confirmation,
    Optional,
    Required,
}

/// A form for a command on a task or a feature; `back` is the page to return to.
pub fn form(visitor: &Visitor, kind: &str, word: &str, of: &str, back: &str, first: bool) -> Markup {
    let (name, words) = verb(word);
    let action = format!("/do/{kind}/{word}");
    let class = if first { "primary" } else { "" };
    let fields = html! {
        (hidden(visitor))
        input type="hidden" name="of" value=(of);
        input type="hidden" name="back" value=(back);
    };
    match words {
        Words::None => html! {
            form.act method="post" action=(action) { (fields) button class=(class) type="submit" { (name) } }
        },
        _ => html! {
            details.act #{ "act-" (word) "-" (of) } {
                summary class=(format!("button {class}")) { (name) "…" }
                form method="post" action=(action) {
                    (fields)
                    @if words != Words::Confirmation {
                        label { (if words == Words::Required { "What should the agent know?" } else { "What should the agent know? (optional)" })
                            textarea name="reason" rows="3" required[words == Words::Required] {}
                        }
                    }
                    button.primary type="submit" { (name) }
                }
            }
        },
    }
}

/// Forms that answer a question: a button for each choice, and a text field.
pub fn answer_forms(visitor: &Visitor, question: &QuestionView, of: &str, back: &str) -> Markup {
    let fields = html! {
        (hidden(visitor))
        input type="hidden" name="of" value=(of);
        input type="hidden" name="question" value=(question.id);
        input type="hidden" name="back" value=(back);
    };
    html! {
        @if visitor.may_act() {
            div.acts {
                @if !question.choices.is_empty() {
                    form.act method="post" action="/do/task/answer" {
                        (fields)
                        @for (n, choice) in question.choices.iter().enumerate() {
                            button.primary type="submit" name="choice" value=(n + 1) { (line(choice)) }
                        }
                    }
                }
                form.act method="post" action="/do/task/answer" {
                    (fields)
                    label { (if question.choices.is_empty() { "Your answer" } else { "Or in your own words" })
                        textarea name="reason" rows="2" required {}
                    }
                    button type="submit" { "Answer" }
                }
            }
        }
    }
}

/// A form that merges what landed into the branch that the feature began from.
pub fn merge(visitor: &Visitor, of: &str, into: &str, back: &str) -> Markup {
    html! {
        details.act #act-merge {
            summary.button { "Merge…" }
            form.inline method="post" action="/do/feature/merge" {
                (hidden(visitor))
                input type="hidden" name="of" value=(of);
                input type="hidden" name="back" value=(back);
                label { "Into " code { (line(into)) } " "
                    select name="how" {
                        option value="merge" { "by a merge commit" }
                        option value="squash" { "as one commit" }
                        option value="ff" { "by fast-forward" }
                    }
                }
                button.primary type="submit" { "Merge" }
            }
        }
    }
}

/// A form that raises a limit.
pub fn limit(
    visitor: &Visitor,
    action: &str,
    of: &str,
    name: Option<&str>,
    flag: &str,
    value: &str,
    back: &str,
) -> Markup {
    let what = match flag {
        "--max-cost" => "Cost, USD",
        "--max-tokens" => "Tokens",
        "--limit" => "Iterations",
        "--max-time" => "Time",
        _ => flag,
    };
    html! {
        form.act.inline method="post" action=(action) {
            (hidden(visitor))
            input type="hidden" name="of" value=(of);
            @if let Some(name) = name { input type="hidden" name="name" value=(name); }
            input type="hidden" name="flag" value=(flag);
            input type="hidden" name="back" value=(back);
            label { (what) input name="value" value=(value) size="8" autocomplete="off" required; }
            button.primary type="submit" { "Raise the limit" }
        }
    }
}

/// Forms for commands that change something.
pub fn forms(visitor: &Visitor, commands: &[String], back: &str) -> Markup {
    let choices: Vec<Choice> = commands.iter().map(|command| read(command)).collect();
    let acts = choices.iter().filter(|choice| is_act(choice)).collect::<Vec<_>>();
    html! {
        @if visitor.may_act() && !acts.is_empty() {
            div.acts {
                @for (n, choice) in acts.iter().enumerate() { (one(visitor, choice, back, n == 0)) }
            }
        }
    }
}

fn is_act(choice: &Choice) -> bool {
    matches!(
        choice,
        Choice::Task(..) | Choice::Feature(..) | Choice::Limit(..) | Choice::Budget(..)
    )
}

fn one(visitor: &Visitor, choice: &Choice, back: &str, first: bool) -> Markup {
    match choice {
        Choice::Task(verb, of) => form(visitor, "task", verb, of, back, first),
        Choice::Feature(verb, of) => form(visitor, "feature", verb, of, back, first),
        Choice::Limit(of, flag, value) => limit(visitor, "/do/feature/limit", of, None, flag, value, back),
        Choice::Budget(level, name, flag, value) if visitor.is_admin() => limit(
            visitor,
            "/do/budget/limit",
            level,
            name.as_deref(),
            flag,
            value,
            back,
        ),
        Choice::Budget(..) => html! { p.dim { "A token with the role admin raises this limit." } },
        _ => html! {},
    }
}

/// The commands without a form, as text to type.
pub fn typed(commands: &[String]) -> Markup {
    let others: Vec<&String> = commands
        .iter()
        .filter(|command| match read(command) {
            Choice::Other(command) => {
                let shown_here = [
                    "task show",
                    "logs",
                    "feature show",
                    "feature review",
                    "budget",
                    "worker show",
                ];
                !shown_here
                    .iter()
                    .any(|words| command.starts_with(&format!("ralph {words}")))
            }
            _ => false,
        })
        .collect();
    html! { @for command in others { p.typed { code { (line(command)) } } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_becomes_its_choice() {
        let check = |command: &str, expected: Choice| {
            assert_eq!(read(&format!("ralph {command}")), expected);
        };
        let word = str::to_owned;
        check(
            "task approve todo/a",
            Choice::Task(word("approve"), word("todo/a")),
        );
        check(
            "feature plan todo --show",
            Choice::Text(word("plan"), word("todo")),
        );
        check("feature run todo", Choice::Feature(word("run"), word("todo")));
        let raised = Choice::Limit(word("todo"), word("--max-cost"), word("2.00"));
        check("feature edit todo --max-cost 2.00", raised);
        let day = Choice::Budget(word("day"), None, word("--max-cost"), word("2.00"));
        check("budget set day --max-cost 2.00", day);
        check("task diff todo/a", Choice::Diff(word("todo/a")));
        let other = "ralph feature plan todo --edit";
        assert_eq!(read(other), Choice::Other(word(other)));
        assert_eq!(
            read("ralph-worker doctor 'x"),
            Choice::Other(word("ralph-worker doctor 'x"))
        );
    }
}
