//! Which value of each key holds, and where it comes from.

use std::borrow::Cow;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use ralph_shared::config::{Key, Unset};

use super::keys::KEYS;

/// What stands for a value that nobody is to see.
const HIDDEN: &str = "(hidden)";
/// In a key's name, a name that the user chooses.
const NAME: &str = "NAME";

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SettingSource)]
pub enum Source {
    /// Nobody set it.
    Default,
    /// `.ralph.toml`.
    File,
    /// A variable.
    Environment,
    /// A flag.
    Flag,
}

impl Source {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}

/// A key and what holds for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Setting {
    /// The key.
    pub key: String,
    /// Its value; null when there is none, or a default that depends on more.
    pub value: Value,
    /// Where it comes from.
    pub source: Source,
    /// The file, the variable or the flag that sets it.
    pub place: Option<String>,
    /// What holds when nobody sets it, in words or as a value.
    pub default: String,
    /// Who reads it.
    pub read_by: Cow<'static, str>,
    /// What it sets.
    pub about: Cow<'static, str>,
}

/// What somebody set outside of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Override {
    Flag(Vec<String>),
    Variable(Vec<String>),
}

/// All keys in order; `given` says what flags and variables set.
pub fn effective(
    file: Option<(&Path, &toml::Table)>,
    given: impl Fn(&Key) -> Option<Override>,
) -> Vec<Setting> {
    let mut settings = Vec::new();
    for key in KEYS.iter() {
        for name in names(key, file.map(|(_, table)| table)) {
            settings.push(setting(key, name, file, given(key)));
        }
    }
    settings
}

/// The key's own name, or one for each name that the file has at its place.
fn names(key: &Key, file: Option<&toml::Table>) -> Vec<String> {
    let Some((above, below)) = key.name.split_once(NAME) else {
        return vec![key.name.to_owned()];
    };
    let table = file.and_then(|file| file.get(above.trim_end_matches('.'))?.as_table());
    let chosen = table.into_iter().flat_map(toml::Table::keys);
    chosen.map(|name| format!("{above}{name}{below}")).collect()
}

fn setting(key: &Key, name: String, file: Option<(&Path, &toml::Table)>, given: Option<Override>) -> Setting {
    let in_file = file.and_then(|(path, table)| Some((path, look_up(table, &name)?)));
    let (value, source, place) = match (given, in_file) {
        (Some(Override::Flag(words)), _) => {
            let flag = key.flag.map(|flag| format!("--{flag}"));
            (of_words(key, words), Source::Flag, flag)
        }
        (Some(Override::Variable(words)), _) => {
            let variable = key.variable.map(str::to_owned);
            (of_words(key, words), Source::Environment, variable)
        }
        (None, Some((path, value))) => (value, Source::File, Some(path.display().to_string())),
        (None, None) => (default(key), Source::Default, None),
    };
    let value = match source {
        Source::Default => value,
        _ if key.secret => hide(value),
        _ => value,
    };
    Setting {
        key: name,
        value,
        source,
        place,
        default: match key.default {
            Unset::Toml(_) => shown(&default(key)),
            Unset::Words(words) => words.to_owned(),
        },
        read_by: key.reader.as_str().into(),
        about: key.about.into(),
    }
}

/// A value for people.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn look_up(file: &toml::Table, name: &str) -> Option<Value> {
    let mut parts = name.split('.');
    // Names without a table are none of the file's.
    let mut at = file.get(parts.next()?).filter(|_| name.contains('.'))?;
    for part in parts {
        at = at.get(part)?;
    }
    serde_json::to_value(at).ok()
}

fn default(key: &Key) -> Value {
    match key.default {
        Unset::Toml(text) => parse(text).unwrap_or_default(),
        Unset::Words(_) => Value::Null,
    }
}

fn parse(text: &str) -> Option<Value> {
    let table: toml::Table = format!("value = {text}").parse().ok()?;
    serde_json::to_value(table.get("value")?).ok()
}

/// What a flag or a variable says, in the type that the file would have.
fn of_words(key: &Key, words: Vec<String>) -> Value {
    let negates = key.flag.is_some_and(|flag| flag.starts_with("no-"));
    match (default(key), words.as_slice()) {
        (Value::Bool(_), [word]) => match switched(word) {
            Some(on) => Value::Bool(on != negates),
            None => word.clone().into(),
        },
        (Value::Array(_), _) => words.into(),
        (Value::String(_), [text]) => text.clone().into(),
        (_, [text]) => parse(text).unwrap_or_else(|| text.clone().into()),
        _ => words.into(),
    }
}

/// What a switch's word says; clap's own parser of them is not for others to call.
fn switched(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "y" | "yes" | "t" | "true" | "on" | "1" => Some(true),
        "n" | "no" | "f" | "false" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// Keeps the names of what is set, never the values; those that name a file are no secret.
fn hide(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, hide(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(hide).collect(),
        Value::String(text) if text.starts_with("file:") => Value::String(text),
        _ => Value::String(HIDDEN.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    fn check(file: &str, given: &[(&str, Override)], key: &str, expected: (Value, Source, Option<&str>)) {
        let table: toml::Table = file.parse().unwrap();
        let path = Path::new("/etc/.ralph.toml");
        let settings = effective(Some((path, &table)), |key| {
            let found = given.iter().find(|(name, _)| *name == key.name);
            found.map(|(_, given)| given.clone())
        });
        let found = settings.into_iter().find(|setting| setting.key == key).unwrap();
        assert_eq!(
            (found.value, found.source, found.place.as_deref()),
            expected,
            "{file} {given:?}"
        );
    }

    #[test]
    fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
        let (flag, variable) = (
            |text: &str| Override::Flag(vec![text.to_owned()]),
            |text: &str| Override::Variable(vec![text.to_owned()]),
        );
        let (key, file) = ("limits.max_cost", "[limits]\nmax_cost = 5.5");
        check("", &[], key, (json!(20.0), Source::Default, None));
        check(
            file,
            &[],
            key,
            (json!(5.5), Source::File, Some("/etc/.ralph.toml")),
        );
        check(
            file,
            &[(key, variable("7"))],
            key,
            (json!(7), Source::Environment, Some("RALPH_MAX_COST")),
        );
        check(
            file,
            &[(key, flag("9"))],
            key,
            (json!(9), Source::Flag, Some("--max-cost")),
        );
        check(
            "",
            &[("limits.max_time", flag("2h"))],
            "limits.max_time",
            (json!("2h"), Source::Flag, Some("--max-time")),
        );
        check(
            "",
            &[("execution.verify", flag("true"))],
            "execution.verify",
            (json!(false), Source::Flag, Some("--no-verify")),
        );
        check(
            "[execution]\nverify = false",
            &[("execution.verify", variable("no"))],
            "execution.verify",
            (json!(true), Source::Environment, Some("RALPH_NO_VERIFY")),
        );
        check(
            "",
            &[("verify.commands", flag("make"))],
            "verify.commands",
            (json!(["make"]), Source::Flag, Some("--gate")),
        );
        check("", &[], "limits.iterations", (Value::Null, Source::Default, None));
        // No key of the file.
        check("url = 'x'", &[], "url", (Value::Null, Source::Default, None));
    }

    #[test]
    fn secrets_are_hidden_but_for_the_files_that_hold_them() {
        let file = "[notify]\nsecret = 'abc'\nurl = 'https://x/abc'\n[agent.env]\nKEY = 'abc'\nOTHER = 'file:/k'\n\
                    [agents.fast]\ncommand = 'x'\n[agents.fast.mcp.a.headers]\nAuthorization = 'abc'";
        let from = Some("/etc/.ralph.toml");
        check(
            file,
            &[],
            "notify.secret",
            (json!("(hidden)"), Source::File, from),
        );
        check(file, &[], "notify.url", (json!("(hidden)"), Source::File, from));
        check(
            file,
            &[],
            "agent.env",
            (json!({"KEY": "(hidden)", "OTHER": "file:/k"}), Source::File, from),
        );
        check(file, &[], "agents.fast.command", (json!("x"), Source::File, from));
        let table: toml::Table = file.parse().unwrap();
        let all = effective(Some((Path::new("f"), &table)), |key| {
            key.secret.then(|| Override::Variable(vec!["abc".to_owned()]))
        });
        assert!(!serde_json::to_string(&all).unwrap().contains("abc"));
    }

    #[test]
    fn what_a_flag_sets_a_variable_sets_as_well() {
        for key in KEYS.iter() {
            let (Some(flag), Some(variable)) = (key.flag, key.variable) else {
                assert_eq!(key.flag, None, "{} has a flag and no variable", key.name);
                continue;
            };
            let own = format!("RALPH_{}", flag.replace('-', "_").to_uppercase());
            // RALPH_GATE is what gates are told.
            let expected = if own == "RALPH_GATE" {
                "RALPH_GATE_COMMAND"
            } else {
                &own
            };
            assert_eq!(variable, expected);
        }
    }

    #[test]
    fn defaults_are_values_and_names_stand_once() {
        let mut names = BTreeSet::new();
        for key in KEYS.iter() {
            assert!(names.insert(key.name), "{} stands twice", key.name);
            if let Unset::Toml(text) = key.default {
                assert!(
                    parse(text).is_some(),
                    "{} has no default of TOML: {text}",
                    key.name
                );
            }
        }
    }
}
