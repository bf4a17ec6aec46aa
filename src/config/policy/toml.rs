//! TOML into a document. The parser itself bounds how deep tables stand in one another.

use ::toml::de::{DeInteger, DeTable, DeValue};

use super::document::{Entry, LEVELS_MAX, Node, PolicyError, Value};

/// # Errors
/// It is not TOML, or nested too deep.
pub fn read(text: &str) -> Result<Node, PolicyError> {
    let lines = Lines::new(text);
    let table = DeTable::parse(text).map_err(|error| PolicyError {
        line: error.span().map(|span| lines.of(span.start)),
        what: error.message().to_owned(),
    })?;
    Ok(Node { line: 1, value: entries(table.get_ref(), &lines, 1)? })
}

/// Where lines begin.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at + 1).collect())
    }

    /// The line of a byte, counted from 1.
    fn of(&self, at: usize) -> usize {
        self.0.partition_point(|begin| *begin <= at) + 1
    }
}

fn entries(table: &DeTable<'_>, lines: &Lines, level: usize) -> Result<Value, PolicyError> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, item) in table {
        let line = lines.of(key.span().start);
        entries.push(Entry { line, key: key.get_ref().to_string(), value: value(item.get_ref(), line, lines, level)? });
    }
    entries.sort_by_key(|entry| entry.line);
    Ok(Value::Table(entries))
}

/// A value that stands in so many lists and tables.
fn value(item: &DeValue<'_>, line: usize, lines: &Lines, level: usize) -> Result<Value, PolicyError> {
    Ok(match item {
        DeValue::Array(_) | DeValue::Table(_) if level == LEVELS_MAX => return Err(PolicyError::too_deep(line)),
        DeValue::Table(table) => entries(table, lines, level + 1)?,
        DeValue::Array(items) => {
            let node = |item: &::toml::Spanned<DeValue<'_>>| {
                let line = lines.of(item.span().start);
                Ok(Node { line, value: value(item.get_ref(), line, lines, level + 1)? })
            };
            Value::List(items.iter().map(node).collect::<Result<_, _>>()?)
        }
        DeValue::String(text) => Value::Scalar(text.to_string()),
        DeValue::Integer(number) => Value::Scalar(decimal(number)),
        DeValue::Float(number) => Value::Scalar(number.to_string()),
        DeValue::Boolean(answer) => Value::Scalar(answer.to_string()),
        DeValue::Datetime(time) => Value::Scalar(time.to_string()),
    })
}

/// A number that no setting could have stays as it is written.
fn decimal(number: &DeInteger<'_>) -> String {
    i64::from_str_radix(number.as_str(), number.radix())
        .map_or_else(|_| number.to_string(), |number| number.to_string())
}
