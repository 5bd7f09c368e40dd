//! What a server does to its clients, as often as a test says.

use std::collections::VecDeque;

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Fetching and listing.
    Fetch,
    /// Pushing objects; listing what is there before it isn't yet.
    Push,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It gets this status, whoever asks.
    Status(u16),
    /// The connection ends before anything was done.
    HangUpBefore,
    /// It is done, then the connection ends without an answer.
    HangUpAfter,
}

/// A fault that waits for its requests.
#[derive(Debug)]
struct Armed {
    fault: Fault,
    service: Service,
    /// A part of the request's body: the name of a ref, say.
    about: Vec<u8>,
    times: u32,
}

/// All that wait, the first one first.
#[derive(Debug, Default)]
pub(crate) struct Faults(VecDeque<Armed>);

impl Faults {
    pub(crate) fn arm(&mut self, fault: Fault, service: Service, about: &str, times: u32) {
        let about = about.as_bytes().to_vec();
        self.0.push_back(Armed {
            fault,
            service,
            about,
            times,
        });
    }

    pub(crate) fn disarm(&mut self) {
        self.0.clear();
    }

    /// The fault of this request, which counts as one of its times.
    pub(crate) fn hit(&mut self, service: Service, body: &[u8]) -> Option<Fault> {
        let about = |armed: &Armed| {
            armed.about.is_empty() || body.windows(armed.about.len()).any(|part| part == armed.about)
        };
        let armed = self
            .0
            .iter_mut()
            .find(|armed| armed.times > 0 && armed.service == service && about(armed))?;
        armed.times -= 1;
        Some(armed.fault)
    }
}
