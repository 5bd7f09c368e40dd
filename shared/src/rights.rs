//! Permissions of the broker's users (DESIGN 7).

use serde_json::{Value, json};

use crate::subjects::{Subjects, worker_inbox};

/// The entry of `authorization.users` for one worker: it receives its own answers and orders, and nothing of
/// other workers.
pub fn user_of_worker(subjects: &Subjects, worker: &str, password: &str) -> Value {
    json!({ "user": worker, "password": password, "permissions": worker_permissions(subjects, Some(worker)) })
}

/// A worker asks, reports and acknowledges tickets. It may not act as a coordinator, create streams, or read
/// other workers' questions and reports. If all workers share one user (no `name`), it can receive the
/// answers to others.
pub fn worker_permissions(subjects: &Subjects, name: Option<&str>) -> Value {
    let tickets = subjects.tickets_stream();
    let hears = match name {
        Some(name) => [format!("{}.>", worker_inbox(name)), subjects.control(name)],
        None => ["_INBOX.>".to_owned(), subjects.control("*")],
    };
    json!({
        "publish": {
            "allow": [
                subjects.claim(),
                subjects.heartbeat(),
                subjects.hello(),
                subjects.blob(),
                subjects.decide(),
                subjects.check(),
                subjects.prune(),
                subjects.session(),
                subjects.reports(),
                subjects.transcripts_all(),
                format!("$JS.API.STREAM.INFO.{tickets}"),
                format!("$JS.API.CONSUMER.INFO.{tickets}.*"),
                format!("$JS.API.CONSUMER.MSG.NEXT.{tickets}.*"),
                format!("$JS.ACK.{tickets}.>"),
                // The newer form, with domain and account before the stream.
                format!("$JS.ACK.*.*.{tickets}.>"),
            ],
        },
        "subscribe": { "allow": hears },
        // For answers to orders.
        "allow_responses": { "max": 1, "expires": "1m" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_with_its_own_user_receives_only_its_own_messages() {
        let user = user_of_worker(&Subjects::default(), "gpu-1", "p");
        let hears = &user["permissions"]["subscribe"]["allow"];
        assert_eq!(*hears, json!(["_INBOX.gpu-1.>", "ralph.control.gpu-1"]));
        let shared = worker_permissions(&Subjects::default(), None);
        assert_eq!(user["permissions"]["publish"], shared["publish"]);
    }
}
