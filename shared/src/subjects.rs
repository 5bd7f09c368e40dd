//! Every NATS name, in one place (DESIGN 3). The prefix is configurable so that two systems can share a
//! server.

use crate::ids::{DispatchId, FeatureId};

/// The names under one prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subjects {
    prefix: String,
}

impl Default for Subjects {
    fn default() -> Self {
        Self {
            prefix: "ralph".to_owned(),
        }
    }
}

/// Queue group that all coordinators join, so that each request reaches one of them.
pub const COORDINATORS: &str = "coordinators";

/// The beginning of the subjects on which clients get answers: their library's default, which nobody changes
/// here. Besides orders, workers may subscribe only to these (deploy/nats.conf).
const INBOX: &str = "_INBOX.";

/// Largest message on the wire; larger texts go in parts through [`Subjects::blob`]. Bytes.
pub const MAX_MESSAGE_BYTES: usize = 512 * 1024;

impl Subjects {
    /// Names under `prefix`: `[a-z0-9-]{1,40}`.
    ///
    /// # Errors
    /// If it can't be a prefix.
    pub fn new(prefix: &str) -> Result<Self, String> {
        if is_label(prefix) {
            Ok(Self {
                prefix: prefix.to_owned(),
            })
        } else {
            Err(format!(
                "`{prefix}` can't be a subject prefix: use 1 to 40 of a-z, 0-9 and `-`"
            ))
        }
    }

    fn name(&self, rest: &str) -> String {
        format!("{}.{rest}", self.prefix)
    }

    fn stream(&self, name: &str) -> String {
        format!("{}_{name}", self.prefix.to_uppercase())
    }

    /// Stream of tickets: a work queue that discards new tickets of a full subject.
    pub fn tickets_stream(&self) -> String {
        self.stream("TICKETS")
    }

    /// Stream of reports: work queue.
    pub fn reports_stream(&self) -> String {
        self.stream("REPORTS")
    }

    /// Stream of transcripts: limited by age and bytes.
    pub fn transcripts_stream(&self) -> String {
        self.stream("TRANSCRIPTS")
    }

    /// "There is work in this pool."
    pub fn tickets(&self, pool: &str) -> String {
        self.name(&format!("tickets.{pool}"))
    }

    pub fn tickets_all(&self) -> String {
        self.name("tickets.*")
    }

    /// Durable consumer of one pool's tickets, shared by its workers.
    pub fn tickets_consumer(&self, pool: &str) -> String {
        format!("pool-{pool}")
    }

    /// Requests of slots for an assignment.
    pub fn claim(&self) -> String {
        self.name("claim")
    }

    /// Renewals of workers' leases.
    pub fn heartbeat(&self) -> String {
        self.name("heartbeat")
    }

    /// Introductions of workers' incarnations.
    pub fn hello(&self) -> String {
        self.name("hello")
    }

    /// Storage of texts that are too large for one message.
    pub fn blob(&self) -> String {
        self.name("blob")
    }

    /// Requests for the decision, from the holder of an integration turn.
    pub fn decide(&self) -> String {
        self.name("decide")
    }

    /// Questions of workers whether an agent's task graph can be used.
    pub fn check(&self) -> String {
        self.name("check")
    }

    /// Requests of workers for a running session.
    pub fn session(&self) -> String {
        self.name("session")
    }

    /// Questions of workers which attempt refs may be removed.
    pub fn prune(&self) -> String {
        self.name("prune")
    }

    /// Orders to one worker.
    pub fn control(&self, worker: &str) -> String {
        self.name(&format!("control.{worker}"))
    }

    pub fn reports(&self) -> String {
        self.name("reports")
    }

    /// Durable consumer of reports, shared by coordinators.
    pub fn reports_consumer(&self) -> String {
        "apply".to_owned()
    }

    /// One dispatch's transcript.
    pub fn transcript(&self, dispatch: DispatchId) -> String {
        self.name(&format!("transcripts.{}", dispatch.0.simple()))
    }

    pub fn transcripts_all(&self) -> String {
        self.name("transcripts.*")
    }

    /// State changes of one feature, for screens.
    pub fn events(&self, feature: FeatureId) -> String {
        self.name(&format!("events.{}", feature.0.simple()))
    }

    pub fn events_all(&self) -> String {
        self.name("events.*")
    }
}

/// The beginning of a worker's inboxes. A broker that gives each worker a user of its own can let it receive
/// only its own answers.
pub fn worker_inbox(worker: &str) -> String {
    format!("{INBOX}{worker}")
}

/// Whether an answer may go to `subject`. The asker names the subject. Without this check, a coordinator,
/// which may publish anything, would publish for a worker what the worker itself may not: orders to others,
/// or an order to empty a stream.
pub fn is_inbox(subject: &str) -> bool {
    subject.starts_with(INBOX)
}

/// Whether `text` can name a pool or a worker: it becomes a token of a subject (DESIGN 3).
pub fn is_label(text: &str) -> bool {
    (1..=40).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_and_subjects_share_the_prefix() {
        let subjects = Subjects::new("team-a").unwrap();
        assert_eq!(subjects.tickets("gpu"), "team-a.tickets.gpu");
        assert_eq!(subjects.reports_stream(), "TEAM-A_REPORTS");
    }

    #[test]
    fn answers_go_only_to_inboxes() {
        assert!(is_inbox("_INBOX.xyz.1") && is_inbox(&worker_inbox("w")));
        for other in [
            "_INBOX",
            "ralph.control.w",
            "$JS.API.STREAM.PURGE.RALPH_REPORTS",
            "x._INBOX.y",
            "",
        ] {
            assert!(!is_inbox(other), "{other}");
        }
    }

    #[test]
    fn labels_are_safe_in_subjects() {
        for bad in ["", "A", "a.b", "a b", "a*", ">", &"x".repeat(41)] {
            assert!(!is_label(bad), "{bad}");
        }
        assert!(is_label("pool-1"));
    }
}
