//! How long an agent may take from its start until its session is ready for a prompt.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::session::conversation::Conversation;
use crate::session::protocol::introduction::Introduction;
use crate::session::spec::{AgentCommand, START_LIMIT, SessionSpec};

/// Factor on the start limit for an agent's first start: it may have to download or unpack itself, and would
/// begin anew if interrupted.
const FIRST_START: u32 = 3;

/// Command lines that opened a session since this process began.
static STARTED: Mutex<BTreeSet<Vec<String>>> = Mutex::new(BTreeSet::new());

pub(in crate::session) struct Start<'a> {
    agent: &'a AgentCommand,
    /// Whether this process has not seen the agent start before.
    first: bool,
    pub limit: Duration,
    pub until: Instant,
}

impl<'a> Start<'a> {
    pub fn of(spec: &'a SessionSpec, conversation: &Conversation<'_>) -> Self {
        let agent = &spec.agent;
        let first = !started(|started| started.contains(&agent.argv));
        let limit = agent.start_limit.unwrap_or(START_LIMIT);
        let limit = if first { limit * FIRST_START } else { limit };
        Self {
            agent,
            first,
            limit,
            until: conversation.started() + limit,
        }
    }

    /// Records a successful start: later starts get the normal limit.
    pub fn succeeded(&self) {
        started(|started| started.insert(self.agent.argv.clone()));
    }

    /// The message for an agent that did not answer this method in time: how far it came, and how to give it
    /// more time.
    pub fn too_slow(&self, method: &str, introduction: &Introduction) -> String {
        let Self { agent, limit, .. } = self;
        let mut hint = "";
        let came = if introduction.session.is_some() {
            "it opened a session"
        } else if introduction.protocol_version.is_some() {
            "it answered `initialize`"
        } else {
            hint = ", or correct its command if that doesn't speak ACP on its standard input and output";
            "it was started"
        };
        let first = match self.first {
            true => format!("; {FIRST_START} times that for its first start"),
            false => String::new(),
        };
        format!(
            "the agent was not ready within {} s: {came}, and then did not answer `{method}`; raise `start_seconds` of {} (now \
             {}{first}){hint}",
            limit.as_secs(),
            agent.table(),
            agent.start_limit.unwrap_or(START_LIMIT).as_secs(),
        )
    }
}

fn started<T>(look: impl FnOnce(&mut BTreeSet<Vec<String>>) -> T) -> T {
    look(&mut STARTED.lock())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::protocol::introduction::SessionOffer;

    #[test]
    fn a_slow_start_names_how_far_it_came_and_what_to_change() {
        let check = |introduction: &Introduction, first: bool, expected: &[&str]| {
            let agent = AgentCommand {
                name: "slow".to_owned(),
                start_limit: Some(Duration::from_secs(7)),
                ..AgentCommand::default()
            };
            let start = Start {
                agent: &agent,
                first,
                limit: Duration::from_secs(if first { 21 } else { 7 }),
                until: Instant::now(),
            };
            let words = start.too_slow("some/method", introduction);
            for expected in expected
                .iter()
                .chain(&["`start_seconds` of [agents.slow] (now 7", "`some/method`"])
            {
                assert!(words.contains(expected), "{expected}: {words}");
            }
        };
        let mut introduction = Introduction::default();
        check(
            &introduction,
            true,
            &["within 21 s: it was started", "3 times that", "speak ACP"],
        );
        introduction.protocol_version = Some(1);
        check(
            &introduction,
            false,
            &["within 7 s: it answered `initialize`", "(now 7)"],
        );
        introduction.session = Some(SessionOffer::default());
        check(&introduction, false, &["it opened a session"]);
    }
}
