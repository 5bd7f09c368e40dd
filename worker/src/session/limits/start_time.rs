//! How long an agent may take from its start to a session that is ready for its prompt.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::session::conversation::Conversation;
use crate::session::protocol::introduction::Introduction;
use crate::session::spec::{AgentCommand, START_LIMIT, SessionSpec};

/// How many times its limit an agent may take for its first start: it may have to fetch or unpack itself, and begins anew when
/// that is cut short.
const FIRST_START: u32 = 3;

/// Command lines that got as far as a session since this program began.
static STARTED: Mutex<BTreeSet<Vec<String>>> = Mutex::new(BTreeSet::new());

/// The start of one agent.
pub(in crate::session) struct Start<'a> {
    agent: &'a AgentCommand,
    /// Whether this program has not seen it start yet.
    first: bool,
    /// How long it may take.
    pub limit: Duration,
    /// When it has to be ready.
    pub until: Instant,
}

impl<'a> Start<'a> {
    /// The start of a session's agent.
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

    /// The agent is ready: from now on its starts are not its first.
    pub fn succeeded(&self) {
        started(|started| started.insert(self.agent.argv.clone()));
    }

    /// Why an agent was ended that did not answer this method in time: how far it came, and what gives it more time.
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
    look(&mut STARTED.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::protocol::introduction::SessionOffer;

    #[test]
    fn a_slow_start_is_told_with_how_far_it_came_and_what_to_change() {
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
