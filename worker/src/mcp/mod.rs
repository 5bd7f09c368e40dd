//! Ralph's own MCP server. It offers tools to sessions beside the sigils, confined to their task.
//!
//! An agent starts `ralph-worker mcp` like any MCP server, inside its sandbox. That is a [`pipe`] to the
//! worker, which serves the connection through a socket in the session's own folder for temporary files, with
//! a key that only this session knows. The agent therefore needs only the rights of its session, and a tool's
//! results pass the same checks as sigils.
//!
//! | module | content |
//! | --- | --- |
//! | [`pipe`] | the program for agents |
//! | [`socket`] | the session's socket and its connections |
//! | [`server`] | the protocol |
//! | [`tools`] | the tools |
//! | [`title`] | agents' names for the tools |

pub mod pipe;
pub mod server;
pub mod socket;
pub mod title;
pub mod tools;

/// The server's name among those of the agent.
pub const NAME: &str = "ralph";

/// Environment variable with the socket's path.
pub const SOCKET: &str = "RALPH_SESSION_SOCKET";
/// Environment variable with the key, which is the first line to send.
pub const KEY: &str = "RALPH_SESSION_KEY";
