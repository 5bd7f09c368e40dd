//! What to do about an agent whose handshake failed.

use ralph_shared::wire::{Ended, Unavailable};

use crate::session::{AgentCommand, Introduction};

/// Advice in one or two sentences.
pub fn advice(agent: &AgentCommand, introduction: &Introduction, ended: &Ended, confined: bool) -> String {
    let table = agent.table();
    let by_hand = shell_words::join(&agent.argv);
    let sandbox = if confined {
        "; if it only fails in the sandbox (compare `--sandbox none`), name the missing paths with `sandbox_read` or \
         `sandbox_write` of [workspace]"
    } else {
        ""
    };
    match ended {
        Ended::Unavailable { door, .. } => match door {
            Unavailable::NotFound => {
                let how = agent
                    .preset
                    .map(|preset| format!(" ({})", preset.how_to_install()));
                format!(
                    "install it for the worker's user{}, or give its whole path as `command` of {table} or with --agent{sandbox}",
                    how.unwrap_or_default()
                )
            }
            Unavailable::Authentication => {
                let ways = introduction.logins.iter();
                let ways: Vec<&str> = ways.map(|login| login.name.as_str()).collect();
                let ways = if ways.is_empty() {
                    String::new()
                } else {
                    format!(" It offers: {}.", ways.join(", "))
                };
                match agent.preset {
                    Some(preset) => format!("log in: {}.{ways}", preset.login),
                    None => format!(
                        "log in with the agent on this machine and name its login in `files` of {table}, or pass a key on \
                         with `pass_env`.{ways}"
                    ),
                }
            }
            Unavailable::RateLimit | Unavailable::Quota | Unavailable::Overload | Unavailable::Empty => {
                "the agent works, its provider refuses for now: try again later, or use another account"
                    .to_owned()
            }
            Unavailable::Version => {
                "update the agent, or this worker: they have no version of the protocol in common".to_owned()
            }
            Unavailable::Silent if introduction.protocol_version.is_some() => {
                format!("give it more time with `start_seconds` of {table}{sandbox}")
            }
            Unavailable::Silent => format!(
                "give it more time with `start_seconds` of {table}; or make sure that `{by_hand}` speaks ACP on its standard \
                 input and output: many agents need an argument for that (`acp`, `--acp`){sandbox}"
            ),
            Unavailable::ExitsAtOnce | Unavailable::Unknown => {
                format!("run `{by_hand}` by hand and see what it says{sandbox}")
            }
        },
        Ended::Workspace { .. } => "see the message: the folder or the sandbox could not be made".to_owned(),
        _ => format!("run `{by_hand}` by hand and see what it says, or update it{sandbox}"),
    }
}

#[cfg(test)]
mod tests {
    use ralph_shared::agents::presets::Preset;

    use super::*;
    use crate::config::DEFAULT_AGENT;
    use crate::session::Choice;

    #[test]
    fn every_failure_has_its_own_advice() {
        let check = |name: &str, door: Unavailable, confined: bool, expected: &[&str]| {
            let agent = AgentCommand {
                name: name.to_owned(),
                preset: Preset::find(name),
                argv: vec!["an agent".to_owned(), "--acp".to_owned()],
                ..AgentCommand::default()
            };
            let introduction = Introduction {
                logins: vec![Choice {
                    id: "b".into(),
                    name: "Browser".into(),
                }],
                ..Introduction::default()
            };
            let ended = Ended::Unavailable {
                door,
                message: String::new(),
            };
            let advice = advice(&agent, &introduction, &ended, confined);
            for expected in expected {
                assert!(advice.contains(expected), "{expected}: {advice}");
            }
            assert_eq!(advice.contains("sandbox_read"), confined, "{advice}");
        };
        check(
            DEFAULT_AGENT,
            Unavailable::NotFound,
            true,
            &["install", "[agent]"],
        );
        check("x", Unavailable::NotFound, false, &["[agents.x]", "--agent"]);
        check(
            "x",
            Unavailable::Authentication,
            false,
            &["log in", "`files`", "Browser"],
        );
        check(
            "gemini",
            Unavailable::NotFound,
            false,
            &["`npm install --global @google/gemini-cli`"],
        );
        check(
            "gemini",
            Unavailable::Authentication,
            false,
            &["set GEMINI_API_KEY", "Browser"],
        );
        check("x", Unavailable::Version, false, &["update"]);
        check(
            "x",
            Unavailable::Silent,
            true,
            &["`start_seconds` of [agents.x]", "`'an agent' --acp`", "`acp`"],
        );
        check(
            "x",
            Unavailable::ExitsAtOnce,
            true,
            &["`'an agent' --acp`", "by hand"],
        );
        check("x", Unavailable::RateLimit, false, &["later"]);
    }
}
