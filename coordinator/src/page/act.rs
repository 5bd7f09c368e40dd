//! Executes forms through the API's routes.

use std::collections::HashMap;

use axum::Form;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Redirect;
use ralph_cli::terminal::duration::Span;
use ralph_cli::terminal::local_time::relative;
use ralph_shared::ids::FeatureId;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use super::confirmations::{RUN_RESUMED, confirmation};
use super::sheet::{encoded, own_path};
use super::site::Site;
use super::words::line;
use crate::api::body::ProblemBody;
use crate::domain::names;
use crate::page::session::signed_in::Visitor;
use crate::page::session::trouble::Trouble;
use crate::store::view::{LogEntry, Page};

#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct FormFields(HashMap<String, String>);

impl FormFields {
    /// Checks that the form belongs to this session.
    pub fn check(&self, visitor: &Visitor) -> Result<(), Trouble> {
        let sent = self.get("csrf").as_bytes();
        let secret = visitor.csrf.as_bytes();
        // The time of the comparison must not reveal how much of it matches.
        let differs = sent
            .iter()
            .zip(secret)
            .fold(0, |differs, (a, b)| differs | (a ^ b));
        match sent.len() == secret.len() && differs == 0 {
            true => Ok(()),
            false => Err(Trouble::stale_form()),
        }
    }

    fn get(&self, field: &str) -> &str {
        self.0.get(field).map_or("", String::as_str).trim()
    }
}

/// A request to the API, and the confirmation when it is done.
type ActionRequest = (Method, String, Value, &'static str);

/// Executes a form, and redirects back with a confirmation.
pub async fn act(
    State(site): State<Site>,
    visitor: Visitor,
    Path((kind, verb)): Path<(String, String)>,
    Form(form): Form<FormFields>,
) -> Result<Redirect, Trouble> {
    form.check(&visitor)?;
    let (method, path, body, done) = request(&kind, &verb, &form)?;
    let answer = match site.request(&visitor, method, &path, &body).await {
        Err(Trouble::Problem(StatusCode::CONFLICT, problem)) if kind == "task" => {
            return Err(with_last_change(&site, &visitor, form.get("of"), problem).await);
        }
        answer => answer?,
    };
    let (resumed, back) = match answer["feature"]["id"].as_str() {
        // Leads to the new feature.
        Some(made) if verb == "submit" => ("", format!("/features/{}", encoded(made))),
        _ if answer["run"].is_string() => (RUN_RESUMED, own_path(form.get("back"))),
        _ => ("", own_path(form.get("back"))),
    };
    let (back, mark) = back
        .split_once('#')
        .map_or((back.as_str(), ""), |(back, mark)| (back, mark));
    let join = if back.contains('?') { '&' } else { '?' };
    let mark = if mark.is_empty() {
        String::new()
    } else {
        format!("#{mark}")
    };
    Ok(Redirect::to(&format!(
        "{back}{join}did={}{mark}",
        encoded(&format!("{done}{resumed}"))
    )))
}

/// Adds the last change of the task to a refusal: another person may have decided while the form was open.
async fn with_last_change(
    site: &Site,
    visitor: &Visitor,
    of: &str,
    mut problem: Box<ProblemBody>,
) -> Trouble {
    let path = format!("/tasks/{}/log", encoded(of));
    if let Ok(log) = site.read::<Page<LogEntry>>(visitor, &path).await
        && let Some(last) = log.items.last()
    {
        let how_long = relative(OffsetDateTime::now_utc() - last.at).unwrap_or_default();
        let (what, by) = (line(&last.what), line(&last.actor));
        problem.errors.push(format!(
            "The last change of the task: {what}, by {by}, {how_long}"
        ));
    }
    Trouble::Problem(StatusCode::CONFLICT, problem)
}

/// The request that a form stands for.
fn request(kind: &str, verb: &str, form: &FormFields) -> Result<ActionRequest, Trouble> {
    if (kind, verb) == ("feature", "submit") {
        return submitted(form);
    }
    let of = encoded(form.get("of"));
    if of.is_empty() {
        return Err(Trouble::incomplete("the form names no object"));
    }
    match kind {
        "task" if verb == "answer" => Ok((
            Method::POST,
            format!("/tasks/{of}/answer"),
            answer_of(form)?,
            confirmation(verb),
        )),
        "task" => Ok((
            Method::POST,
            format!("/tasks/{of}/{}", encoded(verb)),
            with_reason(form),
            confirmation(verb),
        )),
        "feature" => of_feature(verb, &of, form),
        "budget" => {
            let mut body = raised("cost_usd", form)?;
            if !form.get("name").is_empty() {
                body.insert("name".to_owned(), form.get("name").into());
            }
            Ok((
                Method::PUT,
                format!("/budgets/{of}"),
                body.into(),
                "The limit is raised",
            ))
        }
        "memory" => of_memory(verb, &of, form),
        "worker" if verb == "drain" => Ok((
            Method::POST,
            format!("/workers/{of}/drain"),
            json!({}),
            "The worker finishes its sessions and takes no new work",
        )),
        "worker" if verb == "forget" => Ok((
            Method::DELETE,
            format!("/workers/{of}"),
            json!({}),
            "The worker is forgotten",
        )),
        _ => Err(Trouble::not_found("there is no such form")),
    }
}

/// The submission of a feature; without a name, the description's first line gives one.
fn submitted(form: &FormFields) -> Result<ActionRequest, Trouble> {
    let description = form.get("description").replace("\r\n", "\n");
    let Some(first) = description.lines().next() else {
        return Err(Trouble::incomplete(
            "describe in a sentence what the feature should do",
        ));
    };
    let name = match form.get("name") {
        "" => names::for_task(first, FeatureId::new()),
        name => name.to_owned(),
    };
    let mut body = json!({ "name": name, "description": description });
    if !form.get("repo").is_empty() {
        body["repo"] = json!({ "address": form.get("repo") });
    }
    if form.get("approve") == "plan" {
        body["approve"] = json!(["plan"]);
    }
    Ok((Method::POST, "/features".to_owned(), body, "Submitted"))
}

fn of_feature(verb: &str, of: &str, form: &FormFields) -> Result<ActionRequest, Trouble> {
    let path = format!("/features/{of}");
    match verb {
        "limit" => Ok((
            Method::PATCH,
            path,
            json!({ "run": raised("cost_usd", form)? }),
            "The limit is raised",
        )),
        "merge" => Ok((
            Method::POST,
            format!("{path}/merge"),
            json!({ "how": form.get("how") }),
            confirmation(verb),
        )),
        "spec" | "plan" | "tasks" => {
            let mut body =
                json!({ "text": form.0.get("text").map_or("", String::as_str).replace("\r\n", "\n") });
            if let Some(before) = form.0.get("before") {
                body["before"] = before.replace("\r\n", "\n").into();
            }
            Ok((
                Method::PUT,
                format!("{path}/texts/{verb}"),
                body,
                "The text is stored, and counts as approved",
            ))
        }
        _ => Ok((
            Method::POST,
            format!("{path}/{}", encoded(verb)),
            json!({}),
            confirmation(verb),
        )),
    }
}

fn of_memory(verb: &str, of: &str, form: &FormFields) -> Result<ActionRequest, Trouble> {
    let ids = json!({ "ids": [form.get("of")] });
    match verb {
        "prune" => Ok((
            Method::POST,
            "/memory/prune".to_owned(),
            ids,
            "The entry is hidden",
        )),
        "restore" => Ok((
            Method::POST,
            "/memory/restore".to_owned(),
            ids,
            "The entry is restored",
        )),
        "edit" => Ok((
            Method::POST,
            format!("/memory/{of}/edit"),
            json!({ "title": form.get("title"), "body": form.get("body").replace("\r\n", "\n") }),
            "The entry is changed",
        )),
        "revoke" => Ok((
            Method::POST,
            format!(
                "/tasks/{of}/memory/revoke?attempt={}",
                encoded(form.get("attempt"))
            ),
            json!({}),
            "The attempt's entries are revoked",
        )),
        _ => Err(Trouble::not_found("there is no such form")),
    }
}

fn with_reason(form: &FormFields) -> Value {
    match form.get("reason") {
        "" => json!({}),
        reason => json!({ "reason": reason.replace("\r\n", "\n") }),
    }
}

/// The answer to a question: a choice, or a text.
fn answer_of(form: &FormFields) -> Result<Value, Trouble> {
    let mut body = Map::new();
    if !form.get("question").is_empty() {
        body.insert("question".to_owned(), form.get("question").into());
    }
    match form.get("choice") {
        "" => body.insert(
            "answer".to_owned(),
            form.get("reason").replace("\r\n", "\n").into(),
        ),
        choice => {
            let number = choice.parse::<usize>();
            let number = number.map_err(|_| Trouble::incomplete("the choice is not a number"))?;
            body.insert("choice".to_owned(), number.into())
        }
    };
    Ok(body.into())
}

/// A limit as a field of the API.
fn raised(cost: &str, form: &FormFields) -> Result<Map<String, Value>, Trouble> {
    let value = form.get("value");
    let wrong = || Trouble::incomplete("the limit is not a number; write it as 5, 5.50 or, for a time, 24h");
    let (field, value) = match form.get("flag") {
        "--max-cost" => (cost, json!(value.parse::<f64>().map_err(|_| wrong())?)),
        "--max-tokens" => ("tokens", json!(value.parse::<i64>().map_err(|_| wrong())?)),
        "--limit" => ("iterations", json!(value.parse::<i64>().map_err(|_| wrong())?)),
        "--max-time" => ("time_ms", json!(value.parse::<Span>().map_err(|_| wrong())?.ms())),
        _ => return Err(Trouble::not_found("there is no such limit here")),
    };
    Ok(Map::from_iter([(field.to_owned(), value)]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn sent(fields: &[(&str, &str)]) -> FormFields {
        FormFields(
            fields
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn a_form_becomes_a_request_to_the_api() {
        let form = sent(&[("of", "todo/a"), ("reason", " why\r\nnot ")]);
        let (method, path, body, _) = request("task", "retry", &form).unwrap();
        assert_eq!((method, path.as_str()), (Method::POST, "/tasks/todo%2Fa/retry"));
        assert_eq!(body, json!({"reason": "why\nnot"}));
        let form = sent(&[("of", "todo"), ("flag", "--max-cost"), ("value", "2.5")]);
        let (method, path, body, _) = request("feature", "limit", &form).unwrap();
        assert_eq!((method, path.as_str()), (Method::PATCH, "/features/todo"));
        assert_eq!(body, json!({"run": {"cost_usd": 2.5}}));
        let form = sent(&[("of", "../tokens"), ("value", "x"), ("flag", "--limit")]);
        assert_eq!(
            request("feature", "pause", &form).unwrap().1,
            "/features/..%2Ftokens/pause"
        );
        assert!(request("feature", "limit", &form).is_err());
        assert!(request("token", "create", &form).is_err());
        let form = sent(&[
            ("description", "Say hi.\r\nIn English."),
            ("repo", "/r"),
            ("approve", "plan"),
        ]);
        let (_, path, body, _) = request("feature", "submit", &form).unwrap();
        assert!(
            path == "/features" && body["name"].as_str().unwrap().starts_with("say-hi-"),
            "{body}"
        );
        assert_eq!(
            (&body["description"], &body["repo"], &body["approve"]),
            (
                &json!("Say hi.\nIn English."),
                &json!({"address": "/r"}),
                &json!(["plan"])
            )
        );
        let form = sent(&[("description", "x"), ("name", "y")]);
        let plain = json!({"name": "y", "description": "x"});
        assert_eq!(request("feature", "submit", &form).unwrap().2, plain);
        assert!(request("feature", "submit", &sent(&[("description", " ")])).is_err());
        let form = sent(&[("of", "todo"), ("how", "squash")]);
        let (_, path, body, _) = request("feature", "merge", &form).unwrap();
        assert_eq!(
            (path.as_str(), body),
            ("/features/todo/merge", json!({"how": "squash"}))
        );
        assert!(request("task", "retry", &sent(&[])).is_err());
        let form = sent(&[("of", "t-1"), ("question", "q"), ("choice", "2"), ("reason", "")]);
        let (method, path, body, _) = request("task", "answer", &form).unwrap();
        assert_eq!((method, path.as_str()), (Method::POST, "/tasks/t-1/answer"));
        assert_eq!(body, json!({"question": "q", "choice": 2}));
        let form = sent(&[("of", "t-1"), ("reason", "a\r\nb")]);
        assert_eq!(
            request("task", "answer", &form).unwrap().2,
            json!({"answer": "a\nb"})
        );
        assert!(request("task", "answer", &sent(&[("of", "t-1"), ("choice", "x")])).is_err());
    }
}
