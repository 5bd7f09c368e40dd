//! The protocol side of a session's tools.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    MetaObject, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;

use super::tools::{ToolName, Toolbox};

pub struct Server(Arc<Toolbox>);

impl Server {
    pub fn new(tools: Arc<Toolbox>) -> Self {
        Self(tools)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new(super::NAME, env!("CARGO_PKG_VERSION"));
        info.instructions = Some(
            "Tools of your session, for its own task alone. Their results count like the tags that your \
             prompt names. Report the end of the task with tags all the same."
                .to_owned(),
        );
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.0.offered().map(described).collect();
        Ok(ListToolsResult {
            tools,
            ..ListToolsResult::default()
        })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let called = self.0.call(&request.name, arguments);
        // A client that cancelled the call gets no result.
        let called = tokio::select! {
            called = called => called,
            () = context.ct.cancelled() => Err("the call was cancelled".to_owned()),
        };
        let result = match called {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(why) => CallToolResult::error(vec![ContentBlock::text(why)]),
        };
        Ok(result.into())
    }
}

fn described(name: ToolName) -> Tool {
    let schema = match name.schema() {
        Value::Object(schema) => schema,
        _ => serde_json::Map::new(),
    };
    let annotations = ToolAnnotations::new()
        .read_only(name.is_read_only())
        .destructive(false)
        .open_world(false);
    // Claude Code hides a server's tools until its model searches for them, unless they ask to be loaded.
    let meta = serde_json::Map::from_iter([("anthropic/alwaysLoad".to_owned(), true.into())]);
    Tool::new(name.into_str(), name.description(), schema)
        .with_annotations(annotations)
        .with_meta(MetaObject(meta))
}
