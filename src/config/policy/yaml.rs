//! YAML into a document.
//!
//! Built from the parser's events with a stack of our own, so that depth is refused as it comes. Aliases, which let a short text stand for a
//! long one, and tags are refused: a policy needs neither.

use saphyr_parser::{Event, Parser, ScalarStyle};

use super::document::{Entry, LEVELS_MAX, Node, PolicyError, Value};

/// A list or a table that has begun.
enum Open {
    List { line: usize, items: Vec<Node> },
    Table { line: usize, entries: Vec<Entry>, key: Option<(usize, String)> },
}

/// # Errors
/// It is not YAML, or more of YAML than a policy may be made of.
pub fn read(text: &str) -> Result<Node, PolicyError> {
    let mut open: Vec<Open> = Vec::new();
    let mut document = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| PolicyError::at(error.marker().line(), error.info()))?;
        let line = span.start.line();
        check(&event, line)?;
        let node = match event {
            Event::SequenceStart(..) | Event::MappingStart(..) if open.len() == LEVELS_MAX => {
                return Err(PolicyError::too_deep(line));
            }
            Event::SequenceStart(..) => {
                open.push(Open::List { line, items: Vec::new() });
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Table { line, entries: Vec::new(), key: None });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(ended) => ended.end(),
                None => return Err(PolicyError::at(line, "an end of what has not begun")),
            },
            Event::Scalar(text, style, ..) => Node { line, value: scalar(&text, style) },
            Event::DocumentStart(_) if document.is_some() => {
                let what = "a second document begins: a policy is one, with a list of `topics`";
                return Err(PolicyError::at(line, what));
            }
            _ => continue,
        };
        match open.last_mut() {
            None => document = Some(node),
            Some(within) => within.take(node)?,
        }
    }
    Ok(document.unwrap_or(Node { line: 1, value: Value::Null }))
}

/// Refuses what YAML has and a policy must not have.
fn check(event: &Event<'_>, line: usize) -> Result<(), PolicyError> {
    let (anchor, tag) = match event {
        // What it stands for has an anchor.
        Event::Alias(id) => (*id, &None),
        Event::Scalar(_, _, anchor, tag) | Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => {
            (*anchor, tag)
        }
        _ => return Ok(()),
    };
    if anchor != 0 {
        return Err(PolicyError::at(line, "an anchor or alias: a policy has none, write the values out"));
    }
    if tag.is_some() {
        return Err(PolicyError::at(line, "a tag: a policy has none, quote what is text"));
    }
    Ok(())
}

impl Open {
    fn end(self) -> Node {
        match self {
            Self::List { line, items } => Node { line, value: Value::List(items) },
            Self::Table { line, entries, .. } => Node { line, value: Value::Table(entries) },
        }
    }

    fn take(&mut self, node: Node) -> Result<(), PolicyError> {
        match self {
            Self::List { items, .. } => items.push(node),
            Self::Table { entries, key, .. } => match key.take() {
                Some((line, key)) => entries.push(Entry { line, key, value: node.value }),
                None => match node.value {
                    Value::Scalar(text) => *key = Some((node.line, text)),
                    other => return Err(PolicyError::at(node.line, format!("a key is {}, not text", other.kind()))),
                },
            },
        }
        Ok(())
    }
}

/// As in YAML's core schema, but that numbers stay the text that they are.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    match text {
        _ if style != ScalarStyle::Plain => Value::Scalar(text.to_owned()),
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Scalar("true".to_owned()),
        "false" | "False" | "FALSE" => Value::Scalar("false".to_owned()),
        _ => Value::Scalar(text.to_owned()),
    }
}
