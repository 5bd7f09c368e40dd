//! An agent's choices of models and modes, and how to select one (SPEC 7.2).

use agent_client_protocol::v1::schema::{
    SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOptions,
};
use serde_json::{Value, json};

/// Models or modes that an agent offers in its answer to `session/new`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    way: SetMethod,
    choices: Vec<Choice>,
    current: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Choice {
    /// Value to send to the agent.
    pub id: String,
    /// Name for people.
    pub name: String,
}

/// How to select a choice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum SetMethod {
    /// `session/set_config_option` with this option's id.
    Config(String),
    /// The older `session/set_model`.
    SetModel,
    SetMode,
    /// Not possible. A model can still be set through the environment.
    #[default]
    None,
}

/// A request that selects a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub method: &'static str,
    pub params: Value,
    pub choice: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    InUse(String),
    Set(Request),
    /// The agent offers none of the names.
    NotOffered,
}

impl Options {
    /// Reads the models that an agent offers. Missing or malformed fields count as no offer.
    pub fn models(answer: &Value) -> Self {
        let older = |models: &Value| {
            Some(Self {
                way: SetMethod::SetModel,
                choices: choices(models.get("availableModels")?, "modelId")?,
                current: text(models, "currentModelId"),
            })
        };
        Self::config(answer, &SessionConfigOptionCategory::Model)
            .or_else(|| older(answer.get("models")?))
            .or_else(|| older(answer.get("_meta")?.get("models")?))
            .unwrap_or_default()
    }

    /// Reads the modes that an agent offers, like [`Self::models`].
    pub fn modes(answer: &Value) -> Self {
        let own = |modes: &Value| {
            Some(Self {
                way: SetMethod::SetMode,
                choices: choices(modes.get("availableModes")?, "id")?,
                current: text(modes, "currentModeId"),
            })
        };
        Self::config(answer, &SessionConfigOptionCategory::Mode)
            .or_else(|| own(answer.get("modes")?))
            .unwrap_or_default()
    }

    pub fn choices(&self) -> &[Choice] {
        &self.choices
    }

    /// Id of the choice in use, if the agent reports it.
    pub fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    /// Falls back to an earlier offer if this one is empty. The choice in use is then unknown.
    pub fn or_earlier(self, earlier: &Self) -> Self {
        if self.choices.is_empty() {
            Self {
                current: self.current,
                ..earlier.clone()
            }
        } else {
            self
        }
    }

    fn config(answer: &Value, category: &SessionConfigOptionCategory) -> Option<Self> {
        let options = answer.get("configOptions")?.as_array()?;
        options
            .iter()
            .filter_map(|option| serde_json::from_value::<SessionConfigOption>(option.clone()).ok())
            .filter(|option| option.category.as_ref() == Some(category))
            .find_map(|option| {
                let SessionConfigKind::Select(select) = option.kind else {
                    return None;
                };
                let values = match select.options {
                    SessionConfigSelectOptions::Ungrouped(values) => values,
                    SessionConfigSelectOptions::Grouped(groups) => {
                        groups.into_iter().flat_map(|group| group.options).collect()
                    }
                    _ => return None,
                };
                let choices = values.into_iter().map(|value| Choice {
                    id: value.value.0.to_string(),
                    name: value.name,
                });
                Some(Self {
                    way: SetMethod::Config(option.id.0.to_string()),
                    choices: choices.collect(),
                    current: Some(select.current_value.0.to_string()),
                })
            })
    }

    /// Looks for a choice by names, best first, ignoring case. An exact match of an id or name wins over a
    /// choice that contains the name.
    pub fn choose<'a>(&self, session: &str, names: impl Iterator<Item = &'a str>) -> Chosen {
        let wanted: Vec<String> = names
            .map(str::to_lowercase)
            .filter(|name| !name.is_empty())
            .collect();
        let find = |fits: &dyn Fn(&str, &str) -> bool| {
            wanted.iter().find_map(|wanted| {
                self.choices.iter().find(|choice| {
                    fits(&choice.id.to_lowercase(), wanted) || fits(&choice.name.to_lowercase(), wanted)
                })
            })
        };
        let found = find(&|offered, wanted| offered == wanted)
            .or_else(|| find(&|offered, wanted| offered.contains(wanted)));
        let Some(Choice { id, .. }) = found else {
            return Chosen::NotOffered;
        };
        if self.current.as_ref() == Some(id) {
            return Chosen::InUse(id.clone());
        }
        let (method, params) = match &self.way {
            SetMethod::Config(option) => (
                "session/set_config_option",
                json!({ "sessionId": session, "configId": option, "value": id }),
            ),
            SetMethod::SetModel => (
                "session/set_model",
                json!({ "sessionId": session, "modelId": id }),
            ),
            SetMethod::SetMode => ("session/set_mode", json!({ "sessionId": session, "modeId": id })),
            SetMethod::None => return Chosen::NotOffered,
        };
        Chosen::Set(Request {
            method,
            params,
            choice: id.clone(),
        })
    }
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn choices(available: &Value, id: &str) -> Option<Vec<Choice>> {
    let available = available.as_array()?;
    let choices = available.iter().filter_map(|choice| {
        let id = text(choice, id)?;
        let name = text(choice, "name").unwrap_or_else(|| id.clone());
        Some(Choice { id, name })
    });
    Some(choices.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Options {
        Options::models(&json!({
            "sessionId": "s",
            "configOptions": [
                { "id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": "a",
                  "options": [{ "value": "sonnet", "name": "no model" }] },
                { "id": "m", "name": "Model", "category": "model", "type": "select", "currentValue": "default",
                  "options": [
                    { "value": "default", "name": "Default" },
                    { "value": "claude-sonnet-4", "name": "Sonnet" },
                    { "value": "claude-opus-4", "name": "Opus 4 (most capable)" } ] },
            ],
        }))
    }

    fn older(place: &str) -> Options {
        let models = json!({
            "availableModels": [{ "modelId": "gemini-pro", "name": "Pro" }, { "modelId": "flash" }],
            "currentModelId": "gemini-pro",
        });
        Options::models(&match place {
            "meta" => json!({ "sessionId": "s", "_meta": { "models": models } }),
            _ => json!({ "sessionId": "s", "models": models }),
        })
    }

    fn check(offer: &Options, tier: &str, names: &[&str], expected: &str) {
        let got = match offer.choose("s", names.iter().copied().chain([tier])) {
            Chosen::InUse(model) => format!("in use {model}"),
            Chosen::Set(request) => format!("{} {}", request.method, request.params),
            Chosen::NotOffered => "none".to_owned(),
        };
        assert_eq!(got, expected, "{tier} {names:?}");
    }

    #[test]
    fn an_exact_match_goes_before_a_partial_one() {
        let set = |model: &str| {
            format!(
                "session/set_config_option {}",
                json!({ "sessionId": "s", "configId": "m", "value": model })
            )
        };
        check(
            &config(),
            "sonnet",
            &["claude-sonnet-4-5", "SONNET"],
            &set("claude-sonnet-4"),
        );
        check(&config(), "opus", &[], &set("claude-opus-4"));
        check(
            &config(),
            "x",
            &["claude-opus", "sonnet"],
            &set("claude-sonnet-4"),
        );
        check(&config(), "default", &[], "in use default");
        check(&config(), "haiku", &["claude-haiku"], "none");
        check(&config(), "", &[""], "none");
        assert_eq!(config().current(), Some("default"));
    }

    #[test]
    fn older_agents_get_set_model() {
        let flash = format!(
            "session/set_model {}",
            json!({ "sessionId": "s", "modelId": "flash" })
        );
        check(&older("models"), "Flash", &[], &flash);
        check(&older("meta"), "flash", &[], &flash);
        check(&older("models"), "pro", &[], "in use gemini-pro");
    }

    #[test]
    fn malformed_answers_offer_nothing() {
        for answer in [
            json!(null),
            json!({}),
            json!({ "configOptions": 5, "models": { "availableModels": {} } }),
            json!({ "configOptions": [{ "id": "m", "category": "model" }] }),
        ] {
            check(&Options::models(&answer), "opus", &[], "none");
        }
    }

    #[test]
    fn modes_are_chosen_like_models() {
        let own = json!({ "modes": {
            "availableModes": [{ "id": "default", "name": "Ask" }, { "id": "yolo", "name": "Bypass Permissions" }],
            "currentModeId": "default",
        } });
        let option = json!({ "configOptions": [
            { "id": "how", "name": "Mode", "category": "mode", "type": "select", "currentValue": "plan",
              "options": [{ "value": "plan", "name": "Plan" }, { "value": "build", "name": "Build" }] },
        ] });
        let check = |answer: &Value, name: &str, expected: &str| {
            let got = match Options::modes(answer).choose("s", std::iter::once(name)) {
                Chosen::InUse(mode) => format!("in use {mode}"),
                Chosen::Set(request) => format!("{} {}", request.method, request.params),
                Chosen::NotOffered => "none".to_owned(),
            };
            assert_eq!(got, expected, "{name}");
        };
        check(
            &own,
            "bypass",
            r#"session/set_mode {"sessionId":"s","modeId":"yolo"}"#,
        );
        check(&own, "ask", "in use default");
        check(
            &option,
            "build",
            r#"session/set_config_option {"sessionId":"s","configId":"how","value":"build"}"#,
        );
        check(&json!({}), "build", "none");
    }
}
