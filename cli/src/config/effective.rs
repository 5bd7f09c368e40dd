//! The effective value of each key, and its source.

use std::borrow::Cow;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use ralph_shared::config::{Key, Unset};

use super::keys::KEYS;

/// Placeholder for a secret value.
const HIDDEN: &str = "(hidden)";
/// Placeholder in a key for a name that the user chooses.
const NAME: &str = "NAME";

/// Source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SettingSource)]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Source {
    /// No source sets it.
    Default,
    /// `.ralph.toml`.
    File,
    /// An environment variable.
    Environment,
    /// A command-line flag.
    Flag,
}

/// A key and its effective value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Setting {
    /// The key's name.
    pub key: String,
    /// The effective value; null when there is none, or the default depends on other settings.
    pub value: Value,
    /// Source of the value.
    pub source: Source,
    /// The file, the variable or the flag that sets the value.
    pub place: Option<String>,
    /// The value or rule that applies when nobody sets the key.
    pub default: String,
    /// The program that reads the key.
    pub read_by: Cow<'static, str>,
    /// Description of the key.
    pub about: Cow<'static, str>,
}

/// A value set outside of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Override {
    Flag(Vec<String>),
    Variable(Vec<String>),
}

/// All keys in order; `given` returns the value that a flag or a variable sets.
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

/// The key's own name, or with a placeholder, one name for each entry of the file's table.
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
        read_by: key.reader.into_str().into(),
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
    // Keys without a table are not keys of the file.
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

/// The value of a flag or a variable, in the type that the file would have.
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

/// Parses a boolean word as clap does; clap's own parser is not public.
fn switched(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "y" | "yes" | "t" | "true" | "on" | "1" => Some(true),
        "n" | "no" | "f" | "false" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// Hides values but keeps names. A value that names a file is no secret.
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
    fn precedence_is_flag_then_variable_then_file_then_default() {
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
        // Not a key of the file.
        check("url = 'x'", &[], "url", (Value::Null, Source::Default, None));
    }

    #[test]
    fn secrets_are_hidden_but_names_of_secret_files_are_not() {
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
    fn every_flag_has_a_variable() {
        for key in KEYS.iter() {
            let (Some(flag), Some(variable)) = (key.flag, key.variable) else {
                assert_eq!(key.flag, None, "{} has a flag and no variable", key.name);
                continue;
            };
            let own = format!("RALPH_{}", flag.replace('-', "_").to_uppercase());
            // Gate commands receive RALPH_GATE, so the setting has another name.
            let expected = if own == "RALPH_GATE" {
                "RALPH_GATE_COMMAND"
            } else {
                &own
            };
            assert_eq!(variable, expected);
        }
    }

    #[test]
    fn defaults_parse_as_toml_and_key_names_are_unique() {
        let mut names = BTreeSet::new();
        for key in KEYS.iter() {
            assert!(names.insert(key.name), "{} is listed twice", key.name);
            if let Unset::Toml(text) = key.default {
                assert!(
                    parse(text).is_some(),
                    "{} has a default that is not TOML: {text}",
                    key.name
                );
            }
        }
    }
}
