//! Parses one task: its fields and their types.

use granit_parser::Event;

use super::file::{Located, TaskEntry};
use super::limits::{MAX_ALL_PATHS, MAX_EDGES, MAX_RETRIES};
use super::nearest::means_after;
use super::printable::quote;
use super::problem::ProblemKind;
use super::read::Reader;
use super::values::{Fault, Value};
use crate::scheduling::concurrency::Concurrency;

pub const FIELDS: [&str; 14] = [
    "key",
    "title",
    "description",
    "after",
    "parent",
    "priority",
    "pool",
    "agent",
    "model",
    "max_retries",
    "verify",
    "paths",
    "concurrency",
    "not_before",
];

/// Fields that decide whether or where a task runs: ignoring them would change the work.
const NOT_YET: [(&str, &str); 2] = [
    (
        "when",
        "a task starts as soon as its blockers are done; name them with `after`, or leave it out and skip the task (`task skip`)",
    ),
    (
        "repo",
        "all tasks of a feature use its repository; submit one feature per repository, or leave it out",
    ),
];

impl<'t> Reader<'t, '_> {
    /// Parses the task whose mapping just started on `line`.
    pub fn task(&mut self, line: u32) -> Result<(), Fault> {
        let (first_problem, first_warning) = (self.problems.kept(), self.warnings.kept());
        let mut task = TaskEntry {
            key: Located {
                value: String::new(),
                line,
            },
            ..TaskEntry::default()
        };
        let mut seen = [false; FIELDS.len()];
        loop {
            let event = self.values.next()?;
            if matches!(event.value, Event::MappingEnd | Event::StreamEnd) {
                break;
            }
            let name = self.values.value_from(event)?;
            let name = Located {
                value: field_name(&name.value),
                line: name.line,
            };
            let value = self.values.value()?;
            let Some(field) = FIELDS.iter().position(|field| *field == name.value) else {
                if let Some((_, instead)) = NOT_YET.iter().find(|(field, _)| *field == name.value) {
                    self.problems
                        .push(name.line, None, ProblemKind::UnknownField, || {
                            format!("`{}` is not possible yet: {instead}", name.value)
                        });
                } else if means_after(&name.value) {
                    self.refuse_field(&name);
                } else {
                    self.ignore_field(&name, &value.value, &FIELDS)?;
                }
                continue;
            };
            if std::mem::replace(&mut seen[field], true) {
                self.problems.push(name.line, None, ProblemKind::Shape, || {
                    format!("a second `{}` in one task; keep one of them", FIELDS[field])
                });
            } else {
                self.field(&mut task, FIELDS[field], value)?;
            }
        }
        if !task.key.value.is_empty() {
            self.problems.name_from(first_problem, &task.key.value);
            self.warnings.name_from(first_warning, &task.key.value);
        }
        self.tasks.push(task);
        Ok(())
    }

    /// Refuses another system's word for `after`: without it, tasks would run in the wrong order.
    fn refuse_field(&mut self, name: &Located<String>) {
        self.problems
            .push(name.line, None, ProblemKind::UnknownField, || {
                format!("unknown field {}; did you mean `after`?", quote(&name.value))
            });
    }

    fn field(
        &mut self,
        task: &mut TaskEntry,
        field: &'static str,
        value: Located<Value<'t>>,
    ) -> Result<(), Fault> {
        let line = value.line;
        match field {
            "key" => {
                task.key = Located {
                    value: self.text(field, value).unwrap_or_default(),
                    line,
                }
            }
            "title" => task.title = self.text(field, value).unwrap_or_default(),
            "description" => task.description = self.text(field, value),
            "after" => task.after = self.keys(field, value)?,
            "parent" => task.parent = self.text(field, value).map(|value| Located { value, line }),
            "pool" => task.pool = self.text(field, value),
            "agent" => task.agent = self.text(field, value),
            "model" => task.model = self.text(field, value),
            "priority" => task.priority = self.whole_number(field, value, i32::MIN, i32::MAX),
            "max_retries" => task.max_retries = self.whole_number(field, value, 0, MAX_RETRIES),
            "paths" => task.paths = self.paths(field, value)?,
            "concurrency" => task.concurrency = self.concurrency(field, value),
            "not_before" => task.not_before = self.text(field, value),
            _ => task.verify = self.boolean(field, value),
        }
        Ok(())
    }

    /// Text, or a number read as text. A value of another shape is a problem; a placeholder replaces it,
    /// which causes no further problems.
    fn text(&mut self, field: &str, value: Located<Value<'t>>) -> Option<String> {
        match value.value {
            Value::Scalar(scalar) if scalar.is_null() => None,
            Value::Scalar(scalar) => Some(scalar.text.into_owned()),
            _ => {
                self.refuse_type(&value, field, "text");
                Some(format!("line-{}", value.line))
            }
        }
    }

    fn keys(&mut self, field: &str, value: Located<Value<'t>>) -> Result<Vec<Located<String>>, Fault> {
        let items = match value.value {
            Value::Scalar(scalar) if scalar.is_null() => return Ok(Vec::new()),
            Value::List(items) => items,
            _ => {
                self.refuse_type(&value, field, "a list of keys, as in `after: [one, two]`");
                return Ok(Vec::new());
            }
        };
        self.edges += items.len();
        if self.edges > MAX_EDGES {
            return Err(Fault {
                line: value.line,
                kind: ProblemKind::Limit,
                what: format!("more than {MAX_EDGES} entries in all `after` lists; split the graph"),
            });
        }
        Ok(items
            .into_iter()
            .map(|item| Located {
                value: item.value.text.into_owned(),
                line: item.line,
            })
            .collect())
    }

    /// Declared paths; a single one needs no list.
    fn paths(&mut self, field: &str, value: Located<Value<'t>>) -> Result<Vec<String>, Fault> {
        let items = match value.value {
            Value::Scalar(scalar) if scalar.is_null() => return Ok(Vec::new()),
            Value::Scalar(scalar) => return Ok(vec![scalar.text.into_owned()]),
            Value::List(items) => items,
            Value::Map(_) | Value::Other(_) => {
                self.refuse_type(
                    &value,
                    field,
                    "a list of paths, as in `paths: [src/api/**, docs/api.md]`",
                );
                return Ok(Vec::new());
            }
        };
        self.paths += items.len();
        if self.paths > MAX_ALL_PATHS {
            return Err(Fault {
                line: value.line,
                kind: ProblemKind::Limit,
                what: format!("more than {MAX_ALL_PATHS} entries in all `paths` lists; name folders instead"),
            });
        }
        Ok(items
            .into_iter()
            .map(|item| item.value.text.into_owned())
            .collect())
    }

    fn concurrency(&mut self, field: &str, value: Located<Value<'t>>) -> Option<Concurrency> {
        let pairs = match &value.value {
            Value::Scalar(scalar) if scalar.is_null() => return None,
            Value::Map(pairs) => &pairs[..],
            _ => &[],
        };
        let of = |name: &str| {
            pairs
                .iter()
                .find(|(field, _)| field.text == name)
                .map(|(_, value)| value)
        };
        if let ([_, _], Some(key), Some(limit)) = (pairs, of("key"), of("limit"))
            && let Ok(limit) = limit.text.parse()
        {
            return Some(Concurrency {
                key: key.text.clone().into_owned(),
                limit,
            });
        }
        self.refuse_type(
            &value,
            field,
            "a key and a limit, as in `concurrency: {key: database, limit: 2}`",
        );
        None
    }

    fn whole_number<N>(&mut self, field: &str, value: Located<Value<'t>>, min: N, max: N) -> Option<N>
    where
        N: std::str::FromStr + PartialOrd + std::fmt::Display,
    {
        if let Value::Scalar(scalar) = &value.value {
            if scalar.is_null() {
                return None;
            }
            match scalar.text.parse() {
                Ok(number) if scalar.plain && (&min..=&max).contains(&&number) => return Some(number),
                _ => {}
            }
        }
        self.refuse_type(&value, field, &format!("a whole number from {min} to {max}"));
        None
    }

    fn boolean(&mut self, field: &str, value: Located<Value<'t>>) -> Option<bool> {
        if let Value::Scalar(scalar) = &value.value {
            match &*scalar.text {
                _ if scalar.is_null() => return None,
                "true" | "True" | "TRUE" if scalar.plain => return Some(true),
                "false" | "False" | "FALSE" if scalar.plain => return Some(false),
                _ => {}
            }
        }
        self.refuse_type(&value, field, "true or false");
        None
    }

    pub fn refuse_type(&mut self, value: &Located<Value<'t>>, field: &str, expected: &str) {
        self.problems.push(value.line, None, ProblemKind::Shape, || {
            format!("`{field}` must be {expected}, not {}", in_words(&value.value))
        });
    }
}

/// The name of a field; a non-scalar gets a name that no field has.
pub fn field_name(value: &Value<'_>) -> String {
    match value {
        Value::Scalar(scalar) => scalar.text.clone().into_owned(),
        other => in_words(other),
    }
}

/// A value in an error message.
pub fn in_words(value: &Value<'_>) -> String {
    match value {
        Value::Scalar(scalar) if scalar.is_null() => "nothing".to_owned(),
        Value::Scalar(scalar) if scalar.plain => quote(&scalar.text),
        Value::Scalar(scalar) => format!("the text {}", quote(&scalar.text)),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a mapping".to_owned(),
        Value::Other(what) => (*what).to_owned(),
    }
}
