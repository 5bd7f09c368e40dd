//! The tools of this machine's user.

use super::findings::{Part, Status};
use crate::tools::{FoundTool, Tools};

/// Lists the user's tools. Sessions and gates can use other tools only if they are installed for all users.
pub fn tools() -> Part {
    let tools = Tools::of_user();
    let names: Vec<&str> = tools.found.iter().map(|found| found.tool.name).collect();
    let found = match names.is_empty() {
        true => "none in this user's home; sessions and gates use those of the system".to_owned(),
        false => format!("{}, for sessions, setup and gates", names.join(", ")),
    };
    let line = |FoundTool { tool, folder }: &FoundTool| format!("{}: {}", tool.name, folder.display());
    Part {
        details: tools.found.iter().map(line).collect(),
        ..Part::new("tools", Status::Ok, found, None)
    }
}
