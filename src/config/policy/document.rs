//! What both syntaxes are read into: scalars as text, lists and tables, each with its line.

use std::fmt;

/// Levels of lists and tables: the file, its topics, one topic, the list of a setting.
pub const LEVELS_MAX: usize = 4;

/// Why a policy can't be taken, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyError {
    /// Counted from 1; `None` where it is about the whole.
    pub line: Option<usize>,
    pub what: String,
}

impl PolicyError {
    pub fn at(line: usize, what: impl Into<String>) -> Self {
        Self { line: Some(line), what: what.into() }
    }

    pub fn too_deep(line: usize) -> Self {
        Self::at(line, format!("lists and tables stand in one another deeper than {LEVELS_MAX} levels"))
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for PolicyError {}

/// A value and the line that it begins in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    pub line: usize,
    pub value: Value,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// YAML's null, which is also what stands where nothing stands.
    Null,
    /// Text, a number, true or false.
    Scalar(String),
    List(Vec<Node>),
    /// In the order of the lines. A key may be there twice.
    Table(Vec<Entry>),
}

/// A key of a table with its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub line: usize,
    pub key: String,
    pub value: Value,
}

impl Value {
    /// What it is, in the words of a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Scalar(_) => "a single value",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}
