//! Agents' names for the server's tools in permission requests.

use super::NAME;
use super::tools::ToolName;

/// Whether a call with this title or name is for one of the server's tools: `mcp__ralph__ask`, `ralph_ask`,
/// `ask (ralph MCP Server)`. Its arguments may follow after a colon.
pub fn is_own(title: &str) -> bool {
    let title = title.split_once(": ").map_or(title, |(title, _)| title);
    let server_last = title
        .strip_suffix(" MCP Server)")
        .and_then(|title| title.split_once(" ("));
    if let Some((tool, server)) = server_last {
        return server == NAME && ToolName::of(tool).is_some();
    }
    ToolName::ALL.iter().any(|tool| {
        let before = title.strip_suffix(tool.into_str()).unwrap_or_default();
        let server = before.trim_end_matches(|c: char| !c.is_alphanumeric());
        server.len() < before.len()
            && server
                .strip_suffix(NAME)
                .is_some_and(|rest| !rest.ends_with(char::is_alphanumeric))
    })
}

#[test]
fn tool_names_of_all_agents_are_recognized() {
    for own in [
        "mcp__ralph__memory_add",
        "mcp_ralph_ask",
        "ralph_task_context",
        "ralph/report_progress",
        "ask (ralph MCP Server)",
        "ask (ralph MCP Server): {\"question\":\"(a) or b?\"}",
        "mcp.ralph.memory_search",
    ] {
        assert!(is_own(own), "{own}");
    }
    for other in [
        "",
        "ask",
        "_ask",
        "ralphask",
        "ralph",
        "mcp__notralph__ask",
        "mcp__ralph__shell",
        "ask (other MCP Server)",
        "shell (ralph MCP Server)",
        "mcp__ralph__ask && rm",
    ] {
        assert!(!is_own(other), "{other}");
    }
}
