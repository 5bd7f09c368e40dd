//! MCP servers for agents.

use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::{
    EnvVariable, HttpHeader, McpServer, McpServerHttp, McpServerSse, McpServerStdio,
};
use anyhow::bail;

use crate::config::values::{split, values};
use crate::session::secret_values;
use ralph_shared::config::McpTable;

/// Reads a server's table and adds its secrets to `secrets`.
pub(super) fn mcp_server(
    name: &str,
    table: McpTable,
    secrets: &mut Vec<String>,
) -> anyhow::Result<McpServer> {
    match (table.command, table.url) {
        (Some(command), None) => {
            let argv = split("it", &command)?;
            let env = values(table.env, secrets)?;
            secrets.extend(secret_values(env.clone()));
            let env = env.into_iter().map(|(key, value)| EnvVariable::new(key, value));
            let server = McpServerStdio::new(name, program(&argv[0]))
                .args(argv[1..].to_vec())
                .env(env.collect());
            Ok(McpServer::Stdio(server))
        }
        (None, Some(url)) => {
            let headers = values(table.headers, secrets)?;
            // The part after the scheme (such as `Bearer`) is a secret by itself.
            let words = headers.values().filter_map(|value| value.rsplit(' ').next());
            secrets.extend(words.map(str::to_owned));
            let headers = headers
                .into_iter()
                .map(|(key, value)| HttpHeader::new(key, value));
            Ok(if table.sse {
                McpServer::Sse(McpServerSse::new(name, url).headers(headers.collect()))
            } else {
                McpServer::Http(McpServerHttp::new(name, url).headers(headers.collect()))
            })
        }
        _ => bail!("it needs either `command = \"…\"` or `url = \"…\"`"),
    }
}

/// The absolute path of a program, as the protocol requires. A program missing on the `PATH` stays unchanged.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let plain = !name.contains('/');
    std::env::split_paths(&path)
        .filter(|_| plain)
        .map(|folder| folder.join(name))
        .find(|file| file.is_absolute() && file.is_file())
        .unwrap_or_else(|| Path::new(name).to_owned())
}
