//! Renders the OpenAPI document as one page: no script, no external resources, everything escaped.

use std::fmt::Write as _;

use serde_json::{Map, Value};

const STYLE: &str = include_str!("docs.css");
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

pub fn render(document: &Value) -> String {
    let mut page = Page(String::with_capacity(256 * 1024));
    let title = text(&document["info"], "title");
    let version = text(&document["info"], "version");
    page.raw("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    let _ = write!(
        page.0,
        "<title>{} API</title><style>{STYLE}</style></head><body>",
        escaped(title)
    );
    let _ = write!(
        page.0,
        "<h1>{} API <small>{}</small></h1>",
        escaped(title),
        escaped(version)
    );
    page.prose(text(&document["info"], "description"));
    page.raw("<p>For programs: <a href=\"openapi.json\">openapi.json</a></p>");
    let tags = document["tags"].as_array().map_or(&[][..], Vec::as_slice);
    for tag in tags {
        let name = text(tag, "name");
        let _ = write!(page.0, "<h2 id=\"{0}\">{0}</h2>", escaped(name));
        page.prose(text(tag, "description"));
        for (path, item) in fields(&document["paths"]) {
            for method in METHODS {
                if let Some(operation) = item.get(method).filter(|operation| operation["tags"][0] == name) {
                    page.operation(method, path, operation);
                }
            }
        }
    }
    page.raw("<h2 id=\"schemas\">schemas</h2>");
    for (name, schema) in fields(&document["components"]["schemas"]) {
        page.schema(name, schema);
    }
    page.raw("<h2 id=\"problems\">problems</h2><dl>");
    for (name, response) in fields(&document["components"]["responses"]) {
        let meaning = escaped(text(response, "description"));
        let _ = write!(
            page.0,
            "<dt id=\"problem-{0}\">{0}</dt><dd>{meaning}</dd>",
            escaped(name)
        );
    }
    page.raw("</dl></body></html>");
    page.0
}

struct Page(String);

impl Page {
    fn raw(&mut self, html: &str) {
        self.0.push_str(html);
    }

    fn prose(&mut self, words: &str) {
        for paragraph in words
            .split("\n\n")
            .filter(|paragraph| !paragraph.trim().is_empty())
        {
            let _ = write!(self.0, "<p>{}</p>", marked(paragraph));
        }
    }

    fn operation(&mut self, method: &str, path: &str, operation: &Value) {
        let name = escaped(text(operation, "operationId"));
        let summary = marked(text(operation, "summary"));
        let _ = write!(
            self.0,
            "<details id=\"{name}\"><summary><b class=\"{method}\">{method}</b> <code>{}</code> {summary}</summary>",
            escaped(path)
        );
        self.prose(text(operation, "description"));
        let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
        if !parameters.is_empty() {
            self.raw("<table>");
            for parameter in parameters {
                let required = parameter["required"] == true;
                let meaning = text(parameter, "description");
                let name = format!("{} ({})", text(parameter, "name"), text(parameter, "in"));
                self.row(&name, required, &parameter["schema"], meaning);
            }
            self.raw("</table>");
        }
        if let Some((kind, content)) = fields(&operation["requestBody"]["content"]).next() {
            let _ = write!(
                self.0,
                "<p>Body: {} <small>{}</small></p>",
                sort(&content["schema"]),
                escaped(kind)
            );
        }
        self.call(method, path, operation);
        self.raw("<dl>");
        let mut responses: Vec<_> = fields(&operation["responses"]).collect();
        responses.sort_by_key(|(status, _)| *status);
        for (status, response) in responses {
            let _ = write!(self.0, "<dt>{}</dt><dd>", escaped(status));
            if let Some(problem) = response["$ref"].as_str().and_then(|to| to.rsplit('/').next()) {
                let _ = write!(self.0, "<a href=\"#problem-{0}\">{0}</a>", escaped(problem));
            }
            self.raw(&marked(text(response, "description")));
            if let Some((kind, content)) = fields(&response["content"]).next() {
                let _ = write!(
                    self.0,
                    ": {} <small>{}</small>",
                    sort(&content["schema"]),
                    escaped(kind)
                );
            }
            self.raw("</dd>");
        }
        self.raw("</dl></details>");
    }

    /// Writes a shell command for the operation.
    fn call(&mut self, method: &str, path: &str, operation: &Value) {
        let mut line = format!("curl -X {} \"$RALPH_URL{path}\"", method.to_uppercase());
        if operation.get("security").is_some() {
            line.push_str(" -H \"Authorization: Bearer $RALPH_TOKEN\"");
        }
        let example = &operation["requestBody"]["content"]["application/json"]["example"];
        if example.is_object() {
            let body = serde_json::to_string_pretty(example).unwrap_or_default();
            let _ = write!(line, " -d '{}'", body.replace('\'', "'\\''"));
        }
        let _ = write!(self.0, "<pre>{}</pre>", escaped(&line));
    }

    fn schema(&mut self, name: &str, schema: &Value) {
        let name = escaped(name);
        let _ = write!(
            self.0,
            "<details id=\"schema-{name}\"><summary><code>{name}</code></summary>"
        );
        self.prose(text(schema, "description"));
        self.members(schema);
        self.raw("</details>");
    }

    /// Writes the fields of an object, or the parts of a composed schema, else the schema itself.
    fn members(&mut self, schema: &Value) {
        for (word, composed) in [("allOf", "all of"), ("oneOf", "one of")] {
            if let Some(parts) = schema[word].as_array() {
                let _ = write!(self.0, "<p>{composed}:</p>");
                for part in parts {
                    self.raw("<div class=\"part\">");
                    self.prose(text(part, "description"));
                    self.members(part);
                    self.raw("</div>");
                }
                return;
            }
        }
        let Some(properties) = schema["properties"].as_object() else {
            let _ = write!(self.0, "<p>{}</p>", sort(schema));
            return;
        };
        let required = schema["required"].as_array();
        self.raw("<table>");
        for (name, property) in properties {
            let needed = required.is_some_and(|all| all.iter().any(|one| one == name));
            self.row(name, needed, property, text(property, "description"));
        }
        self.raw("</table>");
    }

    fn row(&mut self, name: &str, required: bool, schema: &Value, meaning: &str) {
        let needed = if required { "required" } else { "" };
        let (name, sort, meaning) = (escaped(name), sort(schema), marked(meaning));
        let _ = write!(
            self.0,
            "<tr><td><code>{name}</code></td><td>{sort}</td><td>{needed}</td><td>{meaning}</td></tr>"
        );
    }
}

/// A short description of a value's type, as HTML.
fn sort(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|to| to.rsplit('/').next()) {
        return format!("<a href=\"#schema-{0}\">{0}</a>", escaped(name));
    }
    if let Some(parts) = schema["oneOf"].as_array() {
        return parts.iter().map(sort).collect::<Vec<_>>().join(" or ");
    }
    if let Some(words) = schema["enum"].as_array() {
        let words = words.iter().filter_map(Value::as_str).map(escaped);
        return words.collect::<Vec<_>>().join(" | ");
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => Vec::from_iter(kind.as_str()),
    };
    let mut html = escaped(&kinds.join(" or "));
    let data = &schema["properties"]["data"]["contentSchema"];
    if data.is_object() {
        return format!("events with {}", sort(data));
    }
    if kinds.contains(&"array") {
        let _ = write!(html, " of {}", sort(&schema["items"]));
    } else if schema["additionalProperties"].is_object() {
        let _ = write!(html, " of {}", sort(&schema["additionalProperties"]));
    }
    for word in ["pattern", "const", "format"] {
        if let Some(value) = schema[word].as_str() {
            let _ = write!(html, " <small>{}</small>", escaped(value));
        }
    }
    html
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// Escaped text, with backticks as code.
fn marked(text: &str) -> String {
    let parts = escaped(text);
    let parts = parts.split('`').enumerate().map(|(n, part)| match n % 2 {
        1 => format!("<code>{part}</code>"),
        _ => part.to_owned(),
    });
    parts.collect()
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
                let line = format!("&quot;$RALPH_URL{}&quot;", escaped(path));
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
            marked("a <b> `c & \"d\"`"),
            "a &lt;b&gt; <code>c &amp; &quot;d&quot;</code>"
        );
    }
}
