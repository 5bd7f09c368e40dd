//! The findings as text for people.

use std::fmt::Write as _;

use ralph_shared::terminal::{Paint, Tone, tame};

use super::findings::{AgentFinding, Findings, Part, Status};
use crate::session::{Choice, SessionOffer};

/// Most models or modes in the text.
const MOST_SHOWN: usize = 12;

pub fn page(findings: &Findings, paint: Paint) -> String {
    let mut page = Page {
        text: String::new(),
        paint,
    };
    for part in &findings.parts {
        page.part(part);
    }
    for agent in &findings.agents {
        page.agent(agent);
    }
    let verdict = if findings.ok {
        "This machine can work."
    } else {
        "This machine can't work yet: see above what to do."
    };
    let _ = writeln!(page.text, "\n{verdict}");
    page.text
}

struct Page {
    text: String,
    paint: Paint,
}

impl Page {
    fn head(&mut self, status: Status, name: &str, found: &str) {
        let (word, tone) = match status {
            Status::Ok => ("ok     ", Tone::Good),
            Status::Warning => ("warning", Tone::Warn),
            Status::Missing => ("missing", Tone::Bad),
        };
        let word = self.paint.apply(tone, word);
        let _ = writeln!(self.text, "{word}  {name}: {}", tame(found));
    }

    fn line(&mut self, words: &str) {
        let _ = writeln!(self.text, "         {}", tame(words));
    }

    fn part(&mut self, part: &Part) {
        self.head(part.status, part.name, &part.found);
        for detail in &part.details {
            self.line(detail);
        }
        self.advice(part.advice.as_deref());
    }

    fn agent(&mut self, agent: &AgentFinding) {
        let introduction = &agent.introduction;
        let words = [introduction.name.as_deref(), introduction.version.as_deref()];
        let words: Vec<&str> = words.into_iter().flatten().collect();
        let found = match &agent.problem {
            Some(problem) => problem.clone(),
            None if words.is_empty() => format!("ready after {:.1} s", agent.seconds),
            None => format!("{}, ready after {:.1} s", words.join(" "), agent.seconds),
        };
        self.head(agent.status, &format!("agent {}", agent.name), &found);
        self.line(&format!("command: {}", agent.command));
        match &agent.taken_for {
            Some(sessions) => self.line(&format!("taken for: {sessions}")),
            None => self.line("taken for: tasks and runs that name it"),
        }
        let can = introduction.capabilities.words();
        if !can.is_empty() {
            self.line(&format!("can: {}", can.join(", ")));
        }
        if let Some(SessionOffer {
            models,
            model,
            modes,
            mode,
        }) = &introduction.session
        {
            self.choices("models", models, model.as_deref());
            self.choices("modes", modes, mode.as_deref());
        }
        for note in &agent.notes {
            self.line(&format!("note: {note}"));
        }
        self.advice(agent.advice.as_deref());
    }

    /// Lists choices, with a star at the current one.
    fn choices(&mut self, what: &str, choices: &[Choice], current: Option<&str>) {
        if choices.is_empty() {
            return;
        }
        let shown = choices.iter().take(MOST_SHOWN).map(|choice| {
            let star = if current == Some(choice.id.as_str()) {
                "*"
            } else {
                ""
            };
            format!("{}{star}", choice.id)
        });
        let mut words = shown.collect::<Vec<_>>().join(", ");
        if choices.len() > MOST_SHOWN {
            let _ = write!(words, " and {} more", choices.len() - MOST_SHOWN);
        }
        self.line(&format!("{what}: {words}"));
    }

    fn advice(&mut self, advice: Option<&str>) {
        if let Some(advice) = advice {
            self.line(&format!("do: {advice}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Introduction;

    #[test]
    fn a_page_lists_findings_and_advice() {
        let choice = |id: &str| Choice {
            id: id.to_owned(),
            name: id.to_uppercase(),
        };
        let part = Part {
            name: "git",
            status: Status::Ok,
            found: "git version 2.39.5".to_owned(),
            details: vec!["a detail".to_owned()],
            advice: None,
        };
        let good = AgentFinding {
            name: "default".to_owned(),
            preset: None,
            command: "agent acp".to_owned(),
            taken_for: Some("sessions that name no agent".to_owned()),
            status: Status::Ok,
            seconds: 1.23,
            introduction: Introduction {
                name: Some("Agent".to_owned()),
                version: Some("1.0".to_owned()),
                session: Some(SessionOffer {
                    models: vec![choice("large"), choice("small")],
                    model: Some("small".to_owned()),
                    ..SessionOffer::default()
                }),
                ..Introduction::default()
            },
            problem: None,
            notes: Vec::new(),
            advice: None,
        };
        let bad = AgentFinding {
            name: "other".to_owned(),
            taken_for: None,
            status: Status::Missing,
            introduction: Introduction::default(),
            problem: Some("it is not there".to_owned()),
            advice: Some("install it".to_owned()),
            ..good.clone()
        };
        let findings = Findings::new(vec![part], vec![good, bad]);
        assert!(!findings.ok);
        assert_eq!(
            page(&findings, Paint::none()),
            "ok       git: git version 2.39.5\n         a detail\n\
             ok       agent default: Agent 1.0, ready after 1.2 s\n         command: agent acp\n         \
             taken for: sessions that name no agent\n         models: large, small*\n\
             missing  agent other: it is not there\n         command: agent acp\n         \
             taken for: tasks and runs that name it\n         do: install it\n\n\
             This machine can't work yet: see above what to do.\n"
        );
    }
}
