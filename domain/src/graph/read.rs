//! Text → [`GraphFile`].
//!
//! granit-parser reads YAML event by event. So the lines of all values are known, all problems of the file
//! can be reported at once, and of a large file only the entries stay in memory. JSON is YAML, so the same
//! code reads it.

use granit_parser::Event;

use super::entry::{FIELDS, field_name, in_words};
use super::file::{GraphFile, Located, TaskEntry};
use super::limits::{MAX_TASKS, MAX_TEXT_BYTES};
use super::nearest::did_you_mean;
use super::printable::quote;
use super::problem::{GraphErrors, ProblemKind, Problems};
use super::values::{Fault, Value, Values};

/// Parses a task graph from YAML or JSON.
///
/// Errors start with `source_name`: a path, or "the agent's graph". A code fence around the text, as agents
/// like to write it, is ignored. [`super::validate`] judges the values of the fields.
///
/// # Errors
/// All places where the text is not a list of tasks with fields of the right types, each with its line.
pub fn parse(source_name: &str, text: &str) -> Result<GraphFile, GraphErrors> {
    let mut problems = Problems::default();
    match read(source_name, text, &mut problems) {
        Some(file) if problems.is_empty() => Ok(file),
        _ => Err(problems.into_errors(source_name)),
    }
}

/// Parses as much as possible; `None` when a fault makes the rest unreadable.
pub fn read(source_name: &str, text: &str, problems: &mut Problems) -> Option<GraphFile> {
    if text.len() > MAX_TEXT_BYTES {
        problems.push(0, None, ProblemKind::Limit, || {
            format!(
                "it has {} bytes, and {MAX_TEXT_BYTES} are allowed; split the graph",
                text.len()
            )
        });
        return None;
    }
    let (text, lines_above) = without_fence(text);
    let mut reader = Reader {
        values: Values::new(text, lines_above),
        problems,
        warnings: Problems::default(),
        tasks: Vec::new(),
        edges: 0,
        paths: 0,
    };
    match reader.file() {
        Ok(true) => Some(GraphFile {
            tasks: reader.tasks,
            source_name: source_name.to_owned(),
            warnings: reader.warnings.into_kept(),
        }),
        Ok(false) => None,
        Err(fault) => {
            reader.problems.push(fault.line, None, fault.kind, || fault.what);
            None
        }
    }
}

/// The text between a first and a last line of backticks, and the number of lines above it.
fn without_fence(text: &str) -> (&str, u32) {
    let body = text.trim();
    let fenced = body
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .and_then(|rest| rest.split_once('\n'));
    match fenced {
        Some((_, inner)) => {
            let above = &text[..inner.as_ptr() as usize - text.as_ptr() as usize];
            (
                inner,
                u32::try_from(above.matches('\n').count()).unwrap_or(u32::MAX),
            )
        }
        None => (text, 0),
    }
}

/// A pass over a text, with its findings so far.
pub struct Reader<'t, 'p> {
    pub values: Values<'t>,
    pub problems: &'p mut Problems,
    pub warnings: Problems,
    pub tasks: Vec<TaskEntry>,
    /// Entries of all `after` lists so far.
    pub edges: usize,
    /// Entries of `paths` lists so far.
    pub paths: usize,
}

impl<'t> Reader<'t, '_> {
    /// Returns whether the text has a list of tasks that was read to its end.
    fn file(&mut self) -> Result<bool, Fault> {
        let root = loop {
            let event = self.values.next()?;
            if !matches!(event.value, Event::StreamStart | Event::DocumentStart(..)) {
                break event;
            }
        };
        let found = match root.value {
            Event::SequenceStart(..) => {
                self.list()?;
                true
            }
            Event::MappingStart(..) => self.mapping(root.line)?,
            Event::StreamEnd => self.refuse_root(0, None),
            _ => {
                let root = self.values.value_from(root)?;
                match root.value {
                    Value::Scalar(scalar) if scalar.is_null() => self.refuse_root(0, None),
                    value => self.refuse_root(root.line, Some(in_words(&value))),
                }
            }
        };
        loop {
            let event = self.values.next()?;
            match event.value {
                Event::StreamEnd => return Ok(found),
                Event::DocumentStart(..) => {
                    self.problems.push(event.line, None, ProblemKind::Syntax, || {
                        "a second document begins; keep the tasks in one document, without `---` between them".into()
                    });
                    return Ok(false);
                }
                _ => {}
            }
        }
    }

    fn refuse_root(&mut self, line: u32, found: Option<String>) -> bool {
        let (kind, what) = match found {
            None => (ProblemKind::Empty, "it is empty".to_owned()),
            Some(found) => (ProblemKind::Shape, format!("it is {found}")),
        };
        self.problems.push(line, None, kind, || {
            format!("{what}; write a list of tasks, each with `key` and `title`, or `tasks:` and that list")
        });
        false
    }

    /// A mapping with `tasks`; other fields are ignored.
    fn mapping(&mut self, first_line: u32) -> Result<bool, Fault> {
        let (mut found, mut looks_like_a_task) = (false, false);
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
            if name.value != "tasks" {
                let value = self.values.value()?;
                looks_like_a_task |= FIELDS.contains(&&*name.value);
                self.ignore_field(&name, &value.value, &["tasks"])?;
                continue;
            }
            if found {
                self.problems.push(name.line, None, ProblemKind::Shape, || {
                    "a second `tasks`; join the lists".into()
                });
            }
            let event = self.values.next()?;
            found = true;
            if let Event::SequenceStart(..) = event.value {
                self.list()?;
                continue;
            }
            let value = self.values.value_from(event)?;
            if !matches!(&value.value, Value::Scalar(scalar) if scalar.is_null()) {
                self.refuse_type(&value, "tasks", "a list of tasks");
            }
        }
        if !found {
            self.problems.push(first_line, None, ProblemKind::Shape, || {
                if looks_like_a_task {
                    "it is one task and not a list; begin the task with `- `".into()
                } else {
                    "it has no `tasks`; write `tasks:` and the list of tasks under it".into()
                }
            });
        }
        Ok(found)
    }

    fn list(&mut self) -> Result<(), Fault> {
        loop {
            let event = self.values.next()?;
            match event.value {
                Event::SequenceEnd | Event::StreamEnd => return Ok(()),
                _ if self.tasks.len() == MAX_TASKS => {
                    return Err(Fault {
                        line: event.line,
                        kind: ProblemKind::Limit,
                        what: format!("more than {MAX_TASKS} tasks; split the graph"),
                    });
                }
                Event::MappingStart(..) => self.task(event.line)?,
                _ => {
                    let value = self.values.value_from(event)?;
                    self.problems.push(value.line, None, ProblemKind::Shape, || {
                        format!(
                            "a task must be a mapping with `key` and `title`, not {}",
                            in_words(&value.value)
                        )
                    });
                }
            }
        }
    }

    /// Warns of an unknown field, unless it only serves editors or aliases.
    pub fn ignore_field(
        &mut self,
        name: &Located<String>,
        value: &Value<'t>,
        known: &[&str],
    ) -> Result<(), Fault> {
        if name.value == "<<" {
            return Err(Fault {
                line: name.line,
                kind: ProblemKind::Syntax,
                what: "merge keys (`<<`) are not supported; write the fields out".to_owned(),
            });
        }
        if name.value != "$schema" && !name.value.starts_with("x-") {
            self.warnings
                .push(name.line, None, ProblemKind::UnknownField, || {
                    let near = did_you_mean(&name.value, known.iter().copied());
                    format!(
                        "unknown field {} is ignored ({}){near}",
                        quote(&name.value),
                        in_words(value)
                    )
                });
        }
        Ok(())
    }
}
