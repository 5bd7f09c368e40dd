//! Which of an agent's models is meant by a tier, and how the agent is told (SPEC 7.2).

use agent_client_protocol::v1::schema::{
    SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOptions,
};
use ralph_shared::wire::ModelChoice;
use serde_json::Value;

/// What an agent offers in its answer to `session/new`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Offer {
    /// How to choose.
    way: Way,
    /// Ids and names of the models.
    models: Vec<(String, String)>,
    /// Id of the one in use.
    current: Option<String>,
}

/// How an agent is told its model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Way {
    /// `session/set_config_option` with this option's id.
    Config(String),
    /// The older `session/set_model`.
    SetModel,
    /// It isn't: there is only the environment.
    #[default]
    Environment,
}

/// What to send so that a model is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: &'static str,
    /// Its parameters.
    pub params: Value,
    /// The model's id.
    pub model: String,
}

/// The outcome of looking for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// It is in use already.
    InUse(String),
    /// It can be set.
    Set(Request),
    /// The agent offers none of the names.
    NotOffered,
}

impl Offer {
    /// Reads what an agent answered to `session/new`. Anything that it left out or wrote differently is no offer.
    pub fn read(answer: &Value) -> Self {
        Self::config(answer)
            .or_else(|| Self::older(answer.get("models")?))
            .or_else(|| Self::older(answer.get("_meta")?.get("models")?))
            .unwrap_or_default()
    }

    /// The model in use, if the agent says so.
    pub fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    fn config(answer: &Value) -> Option<Self> {
        let options = answer.get("configOptions")?.as_array()?;
        options
            .iter()
            .filter_map(|option| serde_json::from_value::<SessionConfigOption>(option.clone()).ok())
            .filter(|option| option.category == Some(SessionConfigOptionCategory::Model))
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
                Some(Self {
                    way: Way::Config(option.id.0.to_string()),
                    models: values
                        .into_iter()
                        .map(|value| (value.value.0.to_string(), value.name))
                        .collect(),
                    current: Some(select.current_value.0.to_string()),
                })
            })
    }

    fn older(models: &Value) -> Option<Self> {
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let available = models.get("availableModels")?.as_array()?;
        Some(Self {
            way: Way::SetModel,
            models: available
                .iter()
                .filter_map(|model| {
                    let id = text(model, "modelId")?;
                    let name = text(model, "name").unwrap_or_else(|| id.clone());
                    Some((id, name))
                })
                .collect(),
            current: text(models, "currentModelId"),
        })
    }

    /// Looks for a model by its names, best first, in any case: one that is called so, else one whose id or name holds
    /// it.
    pub fn choose(&self, session: &str, choice: &ModelChoice) -> Chosen {
        let wanted: Vec<String> = choice
            .names
            .iter()
            .chain([&choice.tier])
            .map(|name| name.to_lowercase())
            .filter(|name| !name.is_empty())
            .collect();
        let find = |fits: &dyn Fn(&str, &str) -> bool| {
            wanted.iter().find_map(|wanted| {
                self.models
                    .iter()
                    .find(|(id, name)| fits(&id.to_lowercase(), wanted) || fits(&name.to_lowercase(), wanted))
            })
        };
        let found = find(&|offered, wanted| offered == wanted)
            .or_else(|| find(&|offered, wanted| offered.contains(wanted)));
        let Some((model, _)) = found else {
            return Chosen::NotOffered;
        };
        if self.current.as_ref() == Some(model) {
            return Chosen::InUse(model.clone());
        }
        let (method, params) = match &self.way {
            Way::Config(option) => (
                "session/set_config_option",
                serde_json::json!({ "sessionId": session, "configId": option, "value": model }),
            ),
            Way::SetModel => (
                "session/set_model",
                serde_json::json!({ "sessionId": session, "modelId": model }),
            ),
            Way::Environment => return Chosen::NotOffered,
        };
        Chosen::Set(Request {
            method,
            params,
            model: model.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config() -> Offer {
        Offer::read(&json!({
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

    fn older(place: &str) -> Offer {
        let models = json!({
            "availableModels": [{ "modelId": "gemini-pro", "name": "Pro" }, { "modelId": "flash" }],
            "currentModelId": "gemini-pro",
        });
        Offer::read(&match place {
            "meta" => json!({ "sessionId": "s", "_meta": { "models": models } }),
            _ => json!({ "sessionId": "s", "models": models }),
        })
    }

    fn check(offer: &Offer, tier: &str, names: &[&str], expected: &str) {
        let choice = ModelChoice {
            tier: tier.into(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let got = match offer.choose("s", &choice) {
            Chosen::InUse(model) => format!("in use {model}"),
            Chosen::Set(request) => format!("{} {}", request.method, request.params),
            Chosen::NotOffered => "none".to_owned(),
        };
        assert_eq!(got, expected, "{tier} {names:?}");
    }

    #[test]
    fn names_are_matched_exactly_first_and_then_inside() {
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
    fn older_agents_are_asked_in_their_way() {
        let flash = format!(
            "session/set_model {}",
            json!({ "sessionId": "s", "modelId": "flash" })
        );
        check(&older("models"), "Flash", &[], &flash);
        check(&older("meta"), "flash", &[], &flash);
        check(&older("models"), "pro", &[], "in use gemini-pro");
    }

    #[test]
    fn odd_answers_are_no_offer() {
        for answer in [
            json!(null),
            json!({}),
            json!({ "configOptions": 5, "models": { "availableModels": {} } }),
            json!({ "configOptions": [{ "id": "m", "category": "model" }] }),
        ] {
            check(&Offer::read(&answer), "opus", &[], "none");
        }
    }
}
