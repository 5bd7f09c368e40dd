//! Renders the OpenAPI document as one page: no script, no external resources.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Map, Value};

const STYLE: &str = include_str!("docs.css");
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The page.
pub fn render(document: &Value) -> String {
    let info = &document["info"];
    let title = text(info, "title");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " API" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) " API " small { (text(info, "version")) } }
                (prose(info))
                p { "For programs: " a href="openapi.json" { "openapi.json" } }
                @for tag in document["tags"].as_array().into_iter().flatten() {
                    @let name = text(tag, "name");
                    h2 id=(name) { (name) }
                    (prose(tag))
                    @for (path, item) in fields(&document["paths"]) {
                        @for method in METHODS {
                            @if let Some(found) = item.get(method).filter(|found| found["tags"][0] == name) {
                                (operation(method, path, found))
                            }
                        }
                    }
                }
                h2 id="schemas" { "schemas" }
                @for (name, schema) in fields(&document["components"]["schemas"]) {
                    details id={ "schema-" (name) } {
                        summary { code { (name) } }
                        (prose(schema))
                        (members(schema))
                    }
                }
                h2 id="problems" { "problems" }
                dl {
                    @for (name, response) in fields(&document["components"]["responses"]) {
                        dt id={ "problem-" (name) } { (name) }
                        dd { (text(response, "description")) }
                    }
                }
            }
        }
    };
    page.into_string()
}

/// The paragraphs of a description.
fn prose(described: &Value) -> Markup {
    html! {
        @for paragraph in text(described, "description").split("\n\n").filter(|words| !words.trim().is_empty()) {
            p { (marked(paragraph)) }
        }
    }
}

fn operation(method: &str, path: &str, operation: &Value) -> Markup {
    let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
    let mut responses: Vec<_> = fields(&operation["responses"]).collect();
    responses.sort_by_key(|(status, _)| *status);
    html! {
        details id=(text(operation, "operationId")) {
            summary { b class=(method) { (method) } " " code { (path) } " " (marked(text(operation, "summary"))) }
            (prose(operation))
            @if !parameters.is_empty() {
                table {
                    @for parameter in parameters {
                        @let name = format!("{} ({})", text(parameter, "name"), text(parameter, "in"));
                        (row(&name, parameter["required"] == true, &parameter["schema"], text(parameter, "description")))
                    }
                }
            }
            @if let Some(content) = fields(&operation["requestBody"]["content"]).next() {
                p { "Body: " (body(content)) }
            }
            pre { (call(method, path, operation)) }
            dl {
                @for (status, response) in responses {
                    dt { (status) }
                    dd {
                        @if let Some(problem) = reference(response) {
                            a href={ "#problem-" (problem) } { (problem) }
                        }
                        (marked(text(response, "description")))
                        @if let Some(content) = fields(&response["content"]).next() { ": " (body(content)) }
                    }
                }
            }
        }
    }
}

/// The type and the media type of a body.
fn body((kind, content): (&String, &Value)) -> Markup {
    html! { (sort(&content["schema"])) " " small { (kind) } }
}

/// A shell command for the operation.
fn call(method: &str, path: &str, operation: &Value) -> String {
    let mut line = format!("curl -X {} \"$RALPH_URL{path}\"", method.to_uppercase());
    if operation.get("security").is_some() {
        line.push_str(" -H \"Authorization: Bearer $RALPH_TOKEN\"");
    }
    let example = &operation["requestBody"]["content"]["application/json"]["example"];
    if example.is_object() {
        let body = serde_json::to_string_pretty(example).unwrap_or_default();
        line.push_str(&format!(" -d '{}'", body.replace('\'', "'\\''")));
    }
    line
}

/// The fields of an object, or the parts of a composed schema, else the schema itself.
fn members(schema: &Value) -> Markup {
    for (word, composed) in [("allOf", "all of:"), ("oneOf", "one of:")] {
        if let Some(parts) = schema[word].as_array() {
            return html! {
                p { (composed) }
                @for part in parts {
                    div class="part" { (prose(part)) (members(part)) }
                }
            };
        }
    }
    let Some(properties) = schema["properties"].as_object() else {
        return html! { p { (sort(schema)) } };
    };
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    html! {
        table {
            @for (name, property) in properties {
                (row(name, required.iter().any(|one| one == name), property, text(property, "description")))
            }
        }
    }
}

fn row(name: &str, required: bool, schema: &Value, meaning: &str) -> Markup {
    html! {
        tr {
            td { code { (name) } }
            td { (sort(schema)) }
            td { @if required { "required" } }
            td { (marked(meaning)) }
        }
    }
}

/// A short description of a value's type.
fn sort(schema: &Value) -> Markup {
    if let Some(name) = reference(schema) {
        return html! { a href={ "#schema-" (name) } { (name) } };
    }
    if let Some(parts) = schema["oneOf"].as_array() {
        return html! { @for (n, part) in parts.iter().enumerate() { @if n > 0 { " or " } (sort(part)) } };
    }
    if let Some(words) = schema["enum"].as_array() {
        return html! { (words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | ")) };
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => Vec::from_iter(kind.as_str()),
    };
    let data = &schema["properties"]["data"]["contentSchema"];
    if data.is_object() {
        return html! { "events with " (sort(data)) };
    }
    html! {
        (kinds.join(" or "))
        @if kinds.contains(&"array") {
            " of " (sort(&schema["items"]))
        } @else if schema["additionalProperties"].is_object() {
            " of " (sort(&schema["additionalProperties"]))
        }
        @for value in ["pattern", "const", "format"].iter().filter_map(|word| schema[word].as_str()) {
            " " small { (value) }
        }
    }
}

/// The name that a value refers to.
fn reference(value: &Value) -> Option<&str> {
    value["$ref"].as_str()?.rsplit('/').next()
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Text with backticks as code.
fn marked(text: &str) -> Markup {
    html! {
        @for (n, part) in text.split('`').enumerate() {
            @if n % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{openapi, routes};

    #[test]
    fn the_page_shows_all_operations_and_schemas_and_loads_nothing() {
        let document = openapi::complete(&routes::description());
        let page = render(&document);
        for (path, item) in fields(&document["paths"]) {
            for (_, operation) in fields(item) {
                let name = text(operation, "operationId");
                let line = format!("&quot;$RALPH_URL{path}&quot;");
                assert!(page.contains(&line), "{line}");
                assert!(
                    page.contains(&format!("<details id=\"{name}\">")),
                    "{path} {name}"
                );
            }
        }
        for (name, _) in fields(&document["components"]["schemas"]) {
            assert!(page.contains(&format!("id=\"schema-{name}\"")), "{name}");
        }
        for foreign in ["<script", "src=", "url(", "http://", "https://", "@import"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn descriptions_cannot_become_markup() {
        assert_eq!(
            marked("a <b> `c & \"d\"`").into_string(),
            "a &lt;b&gt; <code>c &amp; &quot;d&quot;</code>"
        );
    }
}
