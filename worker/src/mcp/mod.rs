//! Ralph's own MCP server, offered to sessions beside the sigils and confined to their task.
//!
//! An agent starts `ralph-worker mcp` as it starts any MCP server, inside of its sandbox. That is a [`pipe`] to the worker, which serves
//! the connection: a socket in the session's own folder for temporary files, and a key that only this session is told. So an agent needs
//! no right but that of its session, and what a tool does passes the checks that sigils pass.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`pipe`] | the program that agents start |
//! | [`socket`] | the session's socket and its connections |
//! | [`server`] | the protocol |
//! | [`tools`] | what the tools do |
//! | [`title`] | what agents call the tools by |

pub mod pipe;
pub mod server;
pub mod socket;
pub mod title;
pub mod tools;

/// The server's name among those of the agent.
pub const NAME: &str = "ralph";

/// Variable of the program with the socket's path.
pub const SOCKET: &str = "RALPH_SESSION_SOCKET";
/// Variable of the program with the key, which is the first line that it sends.
pub const KEY: &str = "RALPH_SESSION_KEY";
