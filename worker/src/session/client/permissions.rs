//! What a session may do. Rules answer permission requests at once, since an unanswered request would hang
//! the agent for a whole night. A rule may leave a request to a person instead.
//!
//! Rules steer agents that behave. The sandbox enforces limits on agents that don't.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    SelectedPermissionOutcome, ToolKind,
};
use parking_lot::{Mutex, MutexGuard};
use ralph_shared::wire::Access;
use serde::Deserialize as _;
use serde_json::Value;

use super::pattern::Pattern;

/// A rule of the worker's configuration. The first matching rule decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Kinds of tools. Empty means all kinds.
    pub kinds: Vec<ToolKind>,
    /// Files of the workspace. Empty means all files, and tools without files.
    pub paths: Vec<Pattern>,
    /// An `Allow` rule applies if its paths match all files of the tool; any other rule applies if they match
    /// one file.
    pub answer: RuleAnswer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleAnswer {
    Allow,
    Reject,
    /// A person decides. Without a person, the request is rejected.
    Ask,
}

/// A kind of tool, and the files that it may be used on. No files means any file.
type Grant = (ToolKind, Vec<PathBuf>);

#[derive(Debug, Clone)]
pub struct Policy {
    access: Access,
    rules: Vec<Rule>,
    /// The workspace's path, and its canonical form if that differs.
    roots: Vec<PathBuf>,
    /// Grants by a person under an `Ask` rule. Clones of the policy share them.
    granted: Arc<Mutex<Vec<Grant>>>,
}

/// The answer to a permission request, with its text for the transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub outcome: RequestPermissionOutcome,
    pub words: String,
}

impl Policy {
    /// The session's access takes precedence over every rule.
    pub fn new(access: Access, rules: &[Rule], cwd: &Path) -> Self {
        let mut roots = vec![cwd.to_owned()];
        roots.extend(cwd.canonicalize().ok().filter(|real| real != cwd));
        Self {
            access,
            rules: rules.to_vec(),
            roots,
            granted: Arc::default(),
        }
    }

    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether the session may use this kind of tool on these files, by the rules or by a person's grant.
    pub fn allows(&self, kind: ToolKind, files: &[&Path]) -> bool {
        let covers = |(of, granted): &Grant| {
            let is_granted = |file: &&Path| granted.is_empty() || granted.contains(&self.below(file));
            *of == kind && files.iter().all(is_granted)
        };
        match self.decides(kind, files) {
            RuleAnswer::Allow => true,
            RuleAnswer::Reject => false,
            RuleAnswer::Ask => self.granted().iter().any(covers),
        }
    }

    /// Records that a person allowed this kind of tool on these files. No files means any file.
    pub fn grant(&self, kind: ToolKind, files: &[PathBuf]) {
        let files = files.iter().map(|file| self.below(file)).collect();
        self.granted().push((kind, files));
    }

    fn granted(&self) -> MutexGuard<'_, Vec<Grant>> {
        self.granted.lock()
    }

    /// The rules' answer for this kind of tool on these files.
    pub fn decides(&self, kind: ToolKind, files: &[&Path]) -> RuleAnswer {
        if !allowed(self.access, kind) {
            return RuleAnswer::Reject;
        }
        let files: Vec<PathBuf> = files.iter().map(|file| self.below(file)).collect();
        let fits = |rule: &&Rule| {
            let matched = |file: &PathBuf| rule.paths.iter().any(|path| path.fits(file));
            let of_kind = rule.kinds.is_empty() || rule.kinds.contains(&kind);
            let of_files = match rule.answer {
                _ if rule.paths.is_empty() => true,
                RuleAnswer::Allow => !files.is_empty() && files.iter().all(matched),
                RuleAnswer::Reject | RuleAnswer::Ask => files.iter().any(matched),
            };
            of_kind && of_files
        };
        self.rules
            .iter()
            .find(fits)
            .map_or(RuleAnswer::Allow, |rule| rule.answer)
    }

    /// Answers a request with the narrowest option that expresses the decision. Without such an option the
    /// answer is `Cancelled`, never the opposite option.
    pub fn answer(&self, kind: ToolKind, files: &[&Path], options: &[PermissionOption]) -> Decision {
        choose(self.decides(kind, files) == RuleAnswer::Allow, options)
    }

    /// Makes a path relative to the workspace. A path outside stays absolute.
    fn below(&self, file: &Path) -> PathBuf {
        let mut plain = PathBuf::new();
        for part in file.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => {
                    plain.pop();
                }
                part => plain.push(part),
            }
        }
        let below = self.roots.iter().find_map(|root| plain.strip_prefix(root).ok());
        below.map(Path::to_owned).unwrap_or(plain)
    }
}

/// Reads a request and drops its unreadable options, such as options of an unknown kind. A newer agent may
/// offer those beside known options, of which one is chosen.
pub fn read_request(params: &str) -> serde_json::Result<RequestPermissionRequest> {
    let mut params: Value = serde_json::from_str(params)?;
    if let Some(options) = params.get_mut("options").and_then(Value::as_array_mut) {
        options.retain(|option| PermissionOption::deserialize(option).is_ok());
    }
    serde_json::from_value(params)
}

/// Chooses the narrowest option that allows (or rejects).
pub fn choose(allow: bool, options: &[PermissionOption]) -> Decision {
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
        Some(option) => Decision {
            outcome: RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(
                option.option_id.clone(),
            )),
            words: format!("{}: {}", if allow { "allowed" } else { "rejected" }, option.name),
        },
        None => Decision {
            outcome: RequestPermissionOutcome::Cancelled,
            words: format!(
                "cancelled: no option to {} it was offered",
                if allow { "allow" } else { "reject" }
            ),
        },
    }
}

/// Whether a session may use this kind of tool. Unknown kinds count as writing.
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
        let policy = Policy::new(access, &[], Path::new("/w"));
        let chosen = match policy.answer(kind, &[], &options).outcome {
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

    #[test]
    fn options_of_unknown_kinds_are_ignored() {
        let check = |options: serde_json::Value, expected: Option<&str>| {
            let params = serde_json::json!({
                "sessionId": "s",
                "toolCall": {"toolCallId": "c", "kind": "edit"},
                "options": options,
            });
            let request = read_request(&params.to_string()).unwrap();
            let chosen = match choose(true, &request.options).outcome {
                RequestPermissionOutcome::Selected(selected) => Some(selected.option_id.to_string()),
                _ => None,
            };
            assert_eq!(chosen.as_deref(), expected, "{params}");
        };
        let option =
            |id: &str, kind: &str| serde_json::json!({"optionId": id, "name": "An option", "kind": kind});
        let (session, once) = (option("a", "allow_session"), option("b", "allow_once"));
        check(serde_json::json!([session, once]), Some("b"));
        check(serde_json::json!([once, {"kind": "allow_once"}, 7]), Some("b"));
        check(serde_json::json!([session]), None);
        check(serde_json::json!([]), None);
        for wrong in [r#"{"sessionId":"s"}"#, r#"{"options":7}"#, "[", "7"] {
            assert!(read_request(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rule = |kinds: &[ToolKind], paths: &[&str], answer| Rule {
            kinds: kinds.to_vec(),
            paths: paths.iter().map(|path| Pattern::new(path)).collect(),
            answer,
        };
        use RuleAnswer::{Allow, Ask, Reject};
        use ToolKind::{Delete, Edit, Execute, Fetch, Read};
        let rules = [
            rule(&[Edit, Delete], &["docs/**"], Allow),
            rule(&[Edit, Delete], &["migrations", "*.lock"], Reject),
            rule(&[Edit], &["deploy/**"], Ask),
            rule(&[Fetch], &[], Reject),
            rule(&[Execute], &["**"], Allow),
        ];
        let check = |access, kind, files: &[&str], expected| {
            let files: Vec<&Path> = files.iter().map(Path::new).collect();
            let policy = Policy::new(access, &rules, Path::new("/w"));
            assert_eq!(
                policy.decides(kind, &files),
                expected,
                "{access:?} {kind:?} {files:?}"
            );
        };
        let work = Access::Workspace;
        check(work, Edit, &["/w/src/a.rs"], Allow);
        check(work, Edit, &["/w/migrations/1.sql"], Reject);
        check(work, Edit, &["/w/src/../migrations/1.sql"], Reject);
        check(work, Edit, &["migrations/1.sql"], Reject);
        check(work, Edit, &["/w/src/a.rs", "/w/deep/Cargo.lock"], Reject);
        check(work, Edit, &["/w/docs/Cargo.lock"], Allow);
        check(work, Edit, &["/w/docs/Cargo.lock", "/w/Cargo.lock"], Reject);
        check(work, Read, &["/w/migrations/1.sql"], Allow);
        check(work, Fetch, &[], Reject);
        check(work, Execute, &[], Allow);
        check(Access::ReadOnly, Edit, &["/w/docs/a.md"], Reject);
        check(work, Edit, &["/w/src/a.rs", "/w/deploy/a.yaml"], Ask);
        check(Access::ReadOnly, Edit, &["/w/deploy/a.yaml"], Reject);
    }

    #[test]
    fn an_ask_rule_allows_what_a_person_granted() {
        let rule = |kind, paths: &[&str]| Rule {
            kinds: vec![kind],
            paths: paths.iter().map(|path| Pattern::new(path)).collect(),
            answer: RuleAnswer::Ask,
        };
        let rules = [rule(ToolKind::Edit, &["deploy/**"]), rule(ToolKind::Execute, &[])];
        let policy = Policy::new(Access::Workspace, &rules, Path::new("/w"));
        let (asked, other) = (Path::new("/w/deploy/a.yaml"), Path::new("/w/deploy/b.yaml"));
        assert!(!policy.allows(ToolKind::Edit, &[asked]));
        assert!(!policy.allows(ToolKind::Execute, &[]));
        policy.grant(ToolKind::Edit, &[PathBuf::from("deploy/a.yaml")]);
        assert!(policy.clone().allows(ToolKind::Edit, &[asked]));
        assert!(!policy.allows(ToolKind::Edit, &[asked, other]));
        assert!(!policy.allows(ToolKind::Execute, &[]));
        policy.grant(ToolKind::Execute, &[]);
        assert!(policy.allows(ToolKind::Execute, &[]));
    }
}
