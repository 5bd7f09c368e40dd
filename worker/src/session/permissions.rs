//! Permission requests, answered at once by policy: nobody is there to ask, and a request without an answer hangs the
//! agent for a night.

use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, SelectedPermissionOutcome, ToolKind,
};
use ralph_shared::wire::Access;

/// What was decided, and in words for the transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What the agent gets.
    pub outcome: RequestPermissionOutcome,
    /// The words.
    pub words: String,
}

/// Answers one request: by what the session may do and the kind of tool, choosing the narrowest option of that side.
/// Without an option of that side the request is answered as cancelled, never with the other side.
pub fn answer(access: Access, kind: ToolKind, options: &[PermissionOption]) -> Answer {
    let allow = allowed(access, kind);
    let wanted = if allow {
        [PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways]
    } else {
        [
            PermissionOptionKind::RejectOnce,
            PermissionOptionKind::RejectAlways,
        ]
    };
    let chosen = wanted
        .iter()
        .find_map(|kind| options.iter().find(|option| option.kind == *kind));
    match chosen {
        Some(option) => Answer {
            outcome: RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(
                option.option_id.clone(),
            )),
            words: format!("{}: {}", if allow { "allowed" } else { "rejected" }, option.name),
        },
        None => Answer {
            outcome: RequestPermissionOutcome::Cancelled,
            words: format!(
                "cancelled: no option to {} it was offered",
                if allow { "allow" } else { "reject" }
            ),
        },
    }
}

/// Whether a session may use a tool of this kind. What can't be told apart counts as writing.
fn allowed(access: Access, kind: ToolKind) -> bool {
    match access {
        Access::Workspace => true,
        Access::Commands => reads(kind) || kind == ToolKind::Execute,
        Access::ReadOnly => reads(kind),
    }
}

fn reads(kind: ToolKind) -> bool {
    matches!(
        kind,
        ToolKind::Read | ToolKind::Search | ToolKind::Think | ToolKind::Fetch
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use PermissionOptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};

    fn check(access: Access, kind: ToolKind, offered: &[PermissionOptionKind], expected: Option<usize>) {
        let options: Vec<_> = offered
            .iter()
            .enumerate()
            .map(|(at, kind)| PermissionOption::new(at.to_string(), "an option", *kind))
            .collect();
        let chosen = match answer(access, kind, &options).outcome {
            RequestPermissionOutcome::Selected(selected) => Some(selected.option_id.0.parse().unwrap()),
            _ => None,
        };
        assert_eq!(chosen, expected, "{access:?} {kind:?} {offered:?}");
    }

    #[test]
    fn policy_chooses_by_access_and_kind() {
        let all = [AllowAlways, RejectAlways, AllowOnce, RejectOnce];
        let work = Access::Workspace;
        check(work, ToolKind::Edit, &all, Some(2));
        check(work, ToolKind::Other, &[AllowAlways, RejectOnce], Some(0));
        check(work, ToolKind::Execute, &[RejectOnce], None);
        for kind in [ToolKind::Read, ToolKind::Search, ToolKind::Fetch, ToolKind::Think] {
            check(Access::ReadOnly, kind, &all, Some(2));
        }
        for kind in [
            ToolKind::Edit,
            ToolKind::Delete,
            ToolKind::Move,
            ToolKind::Execute,
            ToolKind::SwitchMode,
            ToolKind::Other,
        ] {
            check(Access::ReadOnly, kind, &all, Some(3));
        }
        check(
            Access::ReadOnly,
            ToolKind::Edit,
            &[AllowOnce, RejectAlways],
            Some(1),
        );
        check(Access::ReadOnly, ToolKind::Edit, &[AllowOnce], None);
        check(Access::Commands, ToolKind::Execute, &all, Some(2));
        check(Access::Commands, ToolKind::Edit, &all, Some(3));
        check(Access::Workspace, ToolKind::Edit, &[], None);
    }
}
