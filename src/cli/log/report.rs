//! What `log` says: rows of its subject, and problems with their place and remedy.

use std::fmt::Display;
use std::path::Path;

use serde::Serialize;

use super::super::Exit;
use super::super::output::{Format, Output};

/// Where a problem is.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub file: &'a Path,
    /// The byte of the file at which it begins.
    pub position: u64,
}

impl<'a> Place<'a> {
    pub fn new(file: &'a Path, position: u64) -> Self {
        Self { file, position }
    }
}

/// How much a problem matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    /// Worth knowing; nothing is lost.
    Note,
    /// What was written is not there.
    Damage,
}

#[derive(Serialize)]
struct ProblemRow<'a> {
    severity: Severity,
    file: String,
    position: u64,
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'a str>,
}

/// Standard output, and how much damage was told.
pub struct Report {
    format: Format,
    output: Output,
    pub damages: u64,
}

impl Report {
    pub fn new(format: Format) -> Self {
        Self { format, output: Output::stdout(), damages: 0 }
    }

    pub fn exit(&self) -> Exit {
        if self.damages > 0 { Exit::DataDamaged } else { Exit::Done }
    }

    /// A row: the object for programs, the line for people.
    pub fn row(&mut self, object: &impl Serialize, line: impl FnOnce() -> String) {
        match self.format {
            Format::Json => self.output.json(object),
            Format::Table => self.output.line(&line()),
        }
    }

    /// A line for people only.
    pub fn line(&mut self, text: &str) {
        if self.format == Format::Table {
            self.output.line(text);
        }
    }

    pub fn damage(&mut self, place: Place<'_>, what: impl Display, remedy: Option<&str>) {
        self.damages += 1;
        self.problem(Severity::Damage, place, &what, remedy);
    }

    pub fn note(&mut self, place: Place<'_>, what: impl Display, remedy: Option<&str>) {
        self.problem(Severity::Note, place, &what, remedy);
    }

    fn problem(&mut self, severity: Severity, place: Place<'_>, what: &dyn Display, remedy: Option<&str>) {
        let row = ProblemRow {
            severity,
            file: place.file.display().to_string(),
            position: place.position,
            what: what.to_string(),
            remedy,
        };
        self.row(&row, || {
            let of = if severity == Severity::Damage { "DAMAGED" } else { "note" };
            let remedy = remedy.map_or_else(String::new, |remedy| format!("; {remedy}"));
            format!("{}: {of} at byte {}: {}{remedy}", row.file, row.position, row.what)
        });
    }
}
