//! Turns the parser's events into the few shapes of a task graph.
//!
//! A field is a scalar, or a flat list or mapping of scalars; deeper nesting is skipped, and only its name is
//! kept. So nothing here recurses, an alias copies at most one flat list, and the total of all copies is
//! bounded.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Options, Parser, ScalarStyle, ScanError, StrInput};

use super::file::Located;
use super::limits::MAX_TEXT_BYTES;
use super::problem::ProblemKind;

/// Collections within collections; a graph needs a list, its tasks and their lists.
const MAX_NESTING: usize = 16;

/// A problem that ends the reading.
#[derive(Debug)]
pub struct Fault {
    pub line: u32,
    pub kind: ProblemKind,
    pub what: String,
}

/// A scalar as it was written.
#[derive(Debug, Clone)]
pub struct Scalar<'t> {
    pub text: Cow<'t, str>,
    /// Without quotes and not a block, so that it may be a number, a boolean or null.
    pub plain: bool,
}

impl Scalar<'_> {
    pub fn is_null(&self) -> bool {
        self.plain && matches!(&*self.text, "" | "~" | "null" | "Null" | "NULL")
    }
}

/// The value of a field.
#[derive(Debug, Clone)]
pub enum Value<'t> {
    Scalar(Scalar<'t>),
    List(Vec<Located<Scalar<'t>>>),
    Map(Vec<(Scalar<'t>, Scalar<'t>)>),
    /// Any other value; the text names it in an error.
    Other(&'static str),
}

/// A pass over the values of a text.
pub struct Values<'t> {
    events: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, Value<'t>>,
    /// Bytes copied for aliases so far.
    alias_bytes: usize,
    /// Lines of the author's text above the parser's first one.
    lines_above: u32,
}

impl<'t> Values<'t> {
    pub fn new(text: &'t str, lines_above: u32) -> Self {
        let mut options: Options = granit_parser::options! {
            flow_nesting_limit: MAX_NESTING,
            block_nesting_limit: MAX_NESTING,
        };
        options.set_emit_comments(false);
        Self {
            events: Parser::new_from_str_with_options(text, options),
            anchors: HashMap::new(),
            alias_bytes: 0,
            lines_above,
        }
    }

    /// The next event of the parser and its line.
    pub fn next(&mut self) -> Result<Located<Event<'t>>, Fault> {
        match self.events.next_event() {
            Some(Ok((value, span))) => Ok(Located {
                value,
                line: self.line(span.start.line()),
            }),
            Some(Err(error)) => Err(self.fault(&error)),
            None => Ok(Located {
                value: Event::StreamEnd,
                line: 0,
            }),
        }
    }

    /// The next whole value.
    pub fn value(&mut self) -> Result<Located<Value<'t>>, Fault> {
        let event = self.next()?;
        self.value_from(event)
    }

    /// The whole value that `event` begins.
    pub fn value_from(&mut self, event: Located<Event<'t>>) -> Result<Located<Value<'t>>, Fault> {
        let line = event.line;
        let (value, anchor) = match event.value {
            Event::Scalar(text, style, anchor, _) => (Value::Scalar(scalar(text, style)), anchor),
            Event::SequenceStart(_, anchor, _) => (self.list()?, anchor),
            Event::MappingStart(..) => (self.map()?, 0),
            Event::Alias(anchor) => (self.copy_of(anchor, line)?, 0),
            _ => (Value::Other("nothing"), 0),
        };
        if anchor != 0 && !matches!(value, Value::Other(_)) {
            self.anchors.insert(anchor, value.clone());
        }
        Ok(Located { value, line })
    }

    fn list(&mut self) -> Result<Value<'t>, Fault> {
        let mut items = Vec::new();
        let mut nested = false;
        loop {
            let event = self.next()?;
            if matches!(event.value, Event::SequenceEnd | Event::StreamEnd) {
                break;
            }
            let item = self.value_from_item(event)?;
            match item.value {
                Value::Scalar(value) => items.push(Located {
                    value,
                    line: item.line,
                }),
                Value::List(_) | Value::Map(_) | Value::Other(_) => nested = true,
            }
        }
        Ok(if nested {
            Value::Other("a list of lists or mappings")
        } else {
            Value::List(items)
        })
    }

    fn map(&mut self) -> Result<Value<'t>, Fault> {
        let mut scalars = Vec::new();
        let mut nested = false;
        loop {
            let event = self.next()?;
            if matches!(event.value, Event::MappingEnd | Event::StreamEnd) {
                break;
            }
            match self.value_from_item(event)?.value {
                Value::Scalar(scalar) => scalars.push(scalar),
                _ => nested = true,
            }
        }
        if nested {
            return Ok(Value::Other("a mapping"));
        }
        let mut scalars = scalars.into_iter();
        let pairs = std::iter::from_fn(|| Some((scalars.next()?, scalars.next()?)));
        Ok(Value::Map(pairs.collect()))
    }

    /// Like [`Self::value_from`], but skips a collection within the collection, since no field uses one.
    fn value_from_item(&mut self, event: Located<Event<'t>>) -> Result<Located<Value<'t>>, Fault> {
        if let Event::SequenceStart(..) | Event::MappingStart(..) = event.value {
            self.pass_over()?;
            return Ok(Located {
                value: Value::Other("a collection"),
                line: event.line,
            });
        }
        self.value_from(event)
    }

    /// Skips to the end of the collection that just started. Scalars in it keep their anchors.
    fn pass_over(&mut self) -> Result<(), Fault> {
        let mut open = 1;
        while open > 0 {
            match self.next()?.value {
                Event::SequenceStart(..) | Event::MappingStart(..) => open += 1,
                Event::SequenceEnd | Event::MappingEnd => open -= 1,
                Event::Scalar(text, style, anchor, _) if anchor != 0 => {
                    self.anchors.insert(anchor, Value::Scalar(scalar(text, style)));
                }
                Event::StreamEnd => break,
                _ => {}
            }
        }
        Ok(())
    }

    fn copy_of(&mut self, anchor: usize, line: u32) -> Result<Value<'t>, Fault> {
        let Some(value) = self.anchors.get(&anchor) else {
            return Ok(Value::Other("an alias of a mapping or of a nested list"));
        };
        self.alias_bytes += match value {
            Value::Scalar(scalar) => size_of_val(scalar) + scalar.text.len(),
            Value::List(items) => items
                .iter()
                .map(|item| size_of_val(item) + item.value.text.len())
                .sum(),
            Value::Map(_) | Value::Other(_) => 0,
        };
        if self.alias_bytes > MAX_TEXT_BYTES {
            return Err(Fault {
                line,
                kind: ProblemKind::Limit,
                what: format!(
                    "the aliases copy more than {} MiB; write less with aliases",
                    MAX_TEXT_BYTES / (1024 * 1024)
                ),
            });
        }
        Ok(value.clone())
    }

    fn line(&self, line: usize) -> u32 {
        u32::try_from(line)
            .unwrap_or(u32::MAX)
            .saturating_add(self.lines_above)
    }

    fn fault(&self, error: &ScanError) -> Fault {
        let hint = match error.kind() {
            ErrorKind::MappingValueNotAllowed => "; put a text that holds `: ` in quotes",
            ErrorKind::UnexpectedCharacter {
                character: '@' | '`' | '%',
            } => "; put a text that begins with it in quotes",
            ErrorKind::UnexpectedCharacter { .. } => "; remove it, or write it as an escape in double quotes",
            ErrorKind::TabInBlockIndentation
            | ErrorKind::TabInIndentation
            | ErrorKind::TabInPlainScalar
            | ErrorKind::TabNotAllowed => "; indent with spaces",
            ErrorKind::UnknownAnchor => "; put a text that begins with `*` in quotes",
            ErrorKind::RecursionLimitExceeded => "; a task graph is a list of flat mappings",
            _ => "",
        };
        Fault {
            line: self.line(error.marker().line()),
            kind: ProblemKind::Syntax,
            what: format!("neither YAML nor JSON: {}{hint}", error.kind()),
        }
    }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle) -> Scalar<'_> {
    Scalar {
        text,
        plain: style == ScalarStyle::Plain,
    }
}
