//! What users of the broker may say and hear (DESIGN 7).

use serde_json::{Value, json};

use crate::subjects::{Subjects, worker_inbox};

/// The entry of `authorization.users` of one worker alone: it hears what it is answered and ordered, and nothing of the others.
pub fn user_of_worker(subjects: &Subjects, worker: &str, password: &str) -> Value {
    json!({ "user": worker, "password": password, "permissions": worker_permissions(subjects, Some(worker)) })
}

/// A worker asks, reports and acknowledges tickets; it may not speak as a coordinator, make streams, or read what other workers
/// ask and report. What they are answered it can hear where all of them have one user: no `name` then.
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
        // Answers to orders.
        "allow_responses": { "max": 1, "expires": "1m" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_with_a_user_of_its_own_hears_only_what_is_its_own() {
        let user = user_of_worker(&Subjects::default(), "gpu-1", "p");
        let hears = &user["permissions"]["subscribe"]["allow"];
        assert_eq!(*hears, json!(["_INBOX.gpu-1.>", "ralph.control.gpu-1"]));
        let shared = worker_permissions(&Subjects::default(), None);
        assert_eq!(user["permissions"]["publish"], shared["publish"]);
    }
}
