//! The agent's side of the protocol: handlers of the client's requests.

use std::io;
use std::sync::Arc;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, AuthMethod, AuthMethodAgent, CancelNotification, ContentBlock, Error as SchemaError,
    Implementation, InitializeRequest, InitializeResponse, LoadSessionRequest, LoadSessionResponse,
    NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, SessionId, SessionNotification,
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent as AgentRole, Client, Error, JsonRpcRequest, JsonRpcResponse, Lines, on_receive_notification,
    on_receive_request,
};
use futures::{Sink, Stream};
use serde::{Deserialize, Serialize};

use super::environment::Environment;
use super::options::{Handshake, Options};
use super::session::{MODEL_OPTION, Session, Sessions};
use super::stdin::Stdin;
use super::stdout::Stdout;
use super::turn::{Answer, Turn};

/// A protocol version that will never exist.
const WRONG_VERSION: u16 = 999;

/// State shared by the whole process.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) options: Options,
    pub(super) environment: Environment,
    pub(super) sessions: Sessions,
    pub(super) stdin: Stdin,
    pub(super) stdout: Stdout,
}

/// The method for choosing models before session options existed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonRpcRequest)]
#[request(method = "session/set_model", response = SetModelResponse)]
#[serde(rename_all = "camelCase")]
struct SetModelRequest {
    session_id: SessionId,
    model_id: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonRpcResponse)]
struct SetModelResponse {}

/// Speaks the protocol over these lines until the input ends.
pub(super) async fn serve(
    agent: Agent,
    outgoing: impl Sink<String, Error = io::Error> + Send + 'static,
    incoming: impl Stream<Item = io::Result<String>> + Send + 'static,
) -> Result<(), Error> {
    let agent = &Arc::new(agent);
    let [
        initializing,
        opening,
        loading,
        setting,
        setting_model,
        prompting,
        cancelling,
    ] = std::array::from_fn(|_| Arc::clone(agent));
    AgentRole
        .v1()
        .name("ralph-scripted-agent")
        .on_receive_request(
            async move |request: InitializeRequest, responder: Responder<InitializeResponse>, cx| {
                initializing.initialize(&request, responder, &cx)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder: Responder<NewSessionResponse>, cx| {
                opening.open_session(request, responder, &cx)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: LoadSessionRequest, responder: Responder<LoadSessionResponse>, cx| {
                responder.respond_with_result(loading.load_session(request, &cx))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: SetSessionConfigOptionRequest,
                        responder: Responder<SetSessionConfigOptionResponse>,
                        _cx| { responder.respond_with_result(setting.set_option(&request)) },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: SetModelRequest, responder: Responder<SetModelResponse>, _cx| {
                responder.respond_with_result(setting_model.set_model(&request))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder: Responder<PromptResponse>, cx| {
                prompting.prompt(request, responder, cx)
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |cancel: CancelNotification, _cx| {
                if let Some(session) = cancelling.sessions.get(&cancel.session_id) {
                    session.cancel();
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_to(Lines::new(outgoing, incoming))
        .await
}

impl Agent {
    fn initialize(
        &self,
        request: &InitializeRequest,
        responder: Responder<InitializeResponse>,
        cx: &ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let version = request.protocol_version.min(ProtocolVersion::V1);
        let response = InitializeResponse::new(version)
            .agent_capabilities(AgentCapabilities::new().load_session(self.options.keep_sessions))
            .agent_info(Implementation::new(
                "ralph-scripted-agent",
                env!("CARGO_PKG_VERSION"),
            ));
        match self.options.handshake {
            Handshake::Normal => responder.respond(response),
            Handshake::Hang => cx.spawn(async move {
                let _unanswered = responder;
                std::future::pending().await
            }),
            Handshake::Exit | Handshake::Crash => {
                eprintln!("ralph-scripted-agent: crash, because of --handshake crash");
                std::process::exit(101)
            }
            Handshake::WrongVersion => {
                let mut response = serde_json::to_value(response)?;
                response["protocolVersion"] = WRONG_VERSION.into();
                self.stdout.answer(cx, responder, &response)
            }
            Handshake::AuthRequired => {
                let login = AuthMethodAgent::new("login", "Log in")
                    .description("There is no way to log in".to_owned());
                responder.respond(response.auth_methods(vec![AuthMethod::Agent(login)]))
            }
            Handshake::Slow(time) => cx.spawn(async move {
                tokio::time::sleep(time).await;
                responder.respond(response)
            }),
        }
    }

    fn open_session(
        &self,
        request: NewSessionRequest,
        responder: Responder<NewSessionResponse>,
        cx: &ConnectionTo<Client>,
    ) -> Result<(), Error> {
        if self.options.handshake == Handshake::AuthRequired {
            return responder.respond_with_error(Error::auth_required());
        }
        let session = self.sessions.open(request.cwd, request.mcp_servers);
        let mut response = NewSessionResponse::new(session.id.clone());
        if !self.options.no_model_option {
            response = response.config_options(session.options());
        }
        if !self.options.set_model {
            return responder.respond(response);
        }
        let mut response = serde_json::to_value(response)?;
        response["models"] = session.models();
        self.stdout.answer(cx, responder, &response)
    }

    /// Replays the session before responding, as the protocol requires.
    fn load_session(
        &self,
        request: LoadSessionRequest,
        cx: &ConnectionTo<Client>,
    ) -> Result<LoadSessionResponse, Error> {
        let id = request.session_id;
        let session = self
            .sessions
            .load(&id, request.cwd, request.mcp_servers)
            .map_err(|error| {
                let error = format!("the session {id} can't be loaded: {error}");
                Error::from(SchemaError::session_not_found(id.clone()).data(error))
            })?;
        for update in session.history() {
            cx.send_notification(SessionNotification::new(id.clone(), update))?;
        }
        Ok(if self.options.no_model_option || self.options.bare_load {
            LoadSessionResponse::new()
        } else {
            LoadSessionResponse::new().config_options(session.options())
        })
    }

    fn set_option(
        &self,
        request: &SetSessionConfigOptionRequest,
    ) -> Result<SetSessionConfigOptionResponse, Error> {
        let session = self.session(&request.session_id)?;
        if self.options.no_model_option || &*request.config_id.0 != MODEL_OPTION {
            return Err(Error::invalid_params().data(format!("there is no option {}", request.config_id)));
        }
        let chosen = request
            .value
            .as_value_id()
            .is_some_and(|value| session.set_model(&value.0));
        if !chosen {
            return Err(Error::invalid_params().data("there is no such model"));
        }
        Ok(SetSessionConfigOptionResponse::new(session.options()))
    }

    fn set_model(&self, request: &SetModelRequest) -> Result<SetModelResponse, Error> {
        if !self.options.set_model {
            return Err(Error::method_not_found());
        }
        let session = self.session(&request.session_id)?;
        if !session.set_model(&request.model_id) {
            return Err(Error::invalid_params().data("there is no such model"));
        }
        Ok(SetModelResponse {})
    }

    fn prompt(
        self: &Arc<Self>,
        request: PromptRequest,
        responder: Responder<PromptResponse>,
        cx: ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let session = match self.session(&request.session_id) {
            Ok(session) => session,
            Err(error) => return responder.respond_with_error(error),
        };
        session.begin_turn();
        let meta = request.meta.unwrap_or_default();
        let prompt: Vec<String> = request.prompt.into_iter().filter_map(text_of).collect();
        let turn = Turn::new(Arc::clone(self), session, cx.clone(), prompt.join("\n"), meta);
        let agent = Arc::clone(self);
        cx.clone().spawn(async move {
            match turn.run().await {
                Ok(Answer::Known(response)) => responder.respond(response),
                Ok(Answer::Unknown(response)) => agent.stdout.answer(&cx, responder, &response),
                Err(error) => responder.respond_with_error(error),
            }
        })
    }

    fn session(&self, id: &SessionId) -> Result<Arc<Session>, Error> {
        self.sessions
            .get(id)
            .ok_or_else(|| SchemaError::session_not_found(id.clone()).into())
    }
}

fn text_of(block: ContentBlock) -> Option<String> {
    match block {
        ContentBlock::Text(text) => Some(text.text),
        _ => None,
    }
}
