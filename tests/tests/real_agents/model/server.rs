//! The HTTP server of the scripted model.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Response, StatusCode, Uri};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Barrier, watch};
use tokio::task::JoinHandle;

use super::script::{Message, Saying, Script};
use super::tools::Tool;
use super::{anthropic, chat, gemini, responses};

/// Input and output tokens of every call.
pub const TOKENS: (u64, u64) = (100, 10);

/// A model that listens until it is dropped.
pub struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    /// Names of the models in requests with a script, in order.
    asked: Mutex<Vec<String>>,
    /// Scripts and numbers of taken steps that were requested before.
    begun: Mutex<HashSet<(String, usize)>>,
    meetings: Mutex<HashMap<usize, Arc<Barrier>>>,
    held: watch::Sender<usize>,
}

/// Reads and writes one API.
struct Interface {
    messages: fn(&Value) -> Vec<Message>,
    tools: fn(&Value) -> Vec<Tool>,
    error: fn(u16) -> Value,
    whole: fn(&Saying, &str, (u64, u64)) -> Value,
    events: fn(&Saying, &str, (u64, u64)) -> Vec<String>,
}

const ANTHROPIC: Interface = Interface {
    messages: anthropic::messages,
    tools: anthropic::tools,
    error: anthropic::error,
    whole: anthropic::whole,
    events: anthropic::events,
};

const CHAT: Interface = Interface {
    messages: chat::messages,
    tools: chat::tools,
    error: chat::error,
    whole: chat::whole,
    events: chat::events,
};

const GEMINI: Interface = Interface {
    messages: gemini::messages,
    tools: gemini::tools,
    error: gemini::error,
    whole: gemini::whole,
    events: gemini::events,
};

const RESPONSES: Interface = Interface {
    messages: responses::messages,
    tools: responses::tools,
    error: responses::error,
    whole: responses::whole,
    events: responses::events,
};

impl Model {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let app = axum::Router::new().fallback(answer).with_state(shared.clone());
        let serving = tokio::spawn(async move {
            let _ = axum::serve(listener, app).await;
        });
        Self {
            address,
            shared,
            serving,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Names of the models in requests with a script.
    pub fn asked(&self) -> Vec<String> {
        self.shared.asked.lock().clone()
    }

    /// Waits until an answer is held.
    pub async fn holds(&self) {
        let mut held = self.shared.held.subscribe();
        held.wait_for(|held| *held > 0).await.unwrap();
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(State(shared): State<Arc<Shared>>, uri: Uri, body: Bytes) -> Response<Body> {
    let path = uri.path();
    let interface = match path {
        _ if path.ends_with("/count_tokens") => {
            return json_response(StatusCode::OK, &json!({ "input_tokens": TOKENS.0 }));
        }
        _ if path.ends_with("/messages") => ANTHROPIC,
        _ if path.ends_with("/chat/completions") => CHAT,
        _ if path.ends_with("/responses") => RESPONSES,
        _ if path.ends_with(":countTokens") => {
            return json_response(StatusCode::OK, &json!({ "totalTokens": TOKENS.0 }));
        }
        _ if path.ends_with("enerateContent") => GEMINI,
        _ => {
            return json_response(
                StatusCode::NOT_FOUND,
                &json!({ "error": { "message": "not here" } }),
            );
        }
    };
    let cwd = workspace(&String::from_utf8_lossy(&body));
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    // Gemini's interface has both in its path: `…/models/MODEL:streamGenerateContent`.
    let in_path = path.rsplit('/').next().and_then(|last| last.split(':').next());
    let model = body["model"].as_str().or(in_path).unwrap_or_default();
    let tools = (interface.tools)(&body);
    let stream = body["stream"] == true || path.ends_with(":streamGenerateContent");
    let script = Script::of(&(interface.messages)(&body)).filter(|_| !tools.is_empty());
    let Some((script, taken)) = script else {
        // Requests for titles, summaries and the like.
        return say(&interface, &Saying::Text("A title".to_owned()), model, stream);
    };
    shared.asked.lock().push(model.to_owned());
    let first = shared.begun.lock().insert((format!("{script:?}"), taken));
    if let Some(status) = script.first_status.filter(|_| first && taken == 0) {
        let status_code = StatusCode::from_u16(status).unwrap();
        return json_response(status_code, &(interface.error)(status));
    }
    if script.hold_at == Some(taken) && first {
        shared.held.send_modify(|held| *held += 1);
        let begin = (interface.events)(&Saying::Text("I am at it. ".to_owned()), model, TOKENS);
        let begin = begin.into_iter().take(begin_events(path));
        return event_stream(stream::iter(begin).chain(stream::pending()));
    }
    if let Some(count) = script.meet.filter(|_| taken == 0) {
        let meeting = shared
            .meetings
            .lock()
            .entry(count)
            .or_insert_with(|| Arc::new(Barrier::new(count)))
            .clone();
        meeting.wait().await;
    }
    say(
        &interface,
        &script.next(taken, &tools, cwd.as_deref()),
        model,
        stream,
    )
}

/// The agent's folder if the request contains it: some tools accept only absolute paths.
fn workspace(body: &str) -> Option<String> {
    // The session's home and temporary folder are beside the tree.
    body.match_indices("/workspaces/").find_map(|(at, root)| {
        let (id, rest) = body[at + root.len()..].split_once('/')?;
        rest.starts_with("tree").then(|| {
            let before = &body[..at];
            let begin = before.rfind(|c: char| " \"\\:\n`'(".contains(c));
            format!("{}{root}{id}/tree", &before[begin.map_or(0, |at| at + 1)..])
        })
    })
}

/// Number of events that begin an answer, including its text.
fn begin_events(path: &str) -> usize {
    let is_long = path.ends_with("/messages") || path.ends_with("/responses");
    if is_long { 3 } else { 1 }
}

fn say(interface: &Interface, saying: &Saying, model: &str, stream: bool) -> Response<Body> {
    if stream {
        event_stream(stream::iter((interface.events)(saying, model, TOKENS)))
    } else {
        json_response(StatusCode::OK, &(interface.whole)(saying, model, TOKENS))
    }
}

fn event_stream(events: impl stream::Stream<Item = String> + Send + 'static) -> Response<Body> {
    let events = events.map(Ok::<_, std::convert::Infallible>);
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(events))
        .unwrap()
}

fn json_response(status: StatusCode, body: &Value) -> Response<Body> {
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        // Agents that retry by themselves need not wait long.
        .header("retry-after", "1")
        .body(body.to_string().into())
        .unwrap()
}
