//! What a verb prints: a table for people or an object a line for programs.
//!
//! Owner: the verb. Standard output is written through here alone, so that a reader who has gone (`| head`) ends the program as it
//! ends any other on Unix: by SIGPIPE, without a word.

use std::io::{self, BufWriter, StdoutLock, Write};

use clap::ValueEnum;
use serde::Serialize;
use signal_hook::consts::SIGPIPE;

/// How a listing is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// One JSON object a line
    Json,
}

/// Standard output.
pub struct Output(BufWriter<StdoutLock<'static>>);

impl Output {
    #[must_use]
    pub fn stdout() -> Self {
        Self(BufWriter::new(io::stdout().lock()))
    }

    pub fn line(&mut self, text: &str) {
        let written = self.0.write_all(text.as_bytes()).and_then(|()| self.0.write_all(b"\n"));
        check(written);
    }

    pub fn json(&mut self, object: &impl Serialize) {
        let text = serde_json::to_string(object).expect("what is printed has text for keys");
        self.line(&text);
    }

    pub fn flush(&mut self) {
        let written = self.0.flush();
        check(written);
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Output that can't be written is output lost: the program ends.
fn check(written: io::Result<()>) {
    let Err(error) = written else { return };
    if error.kind() == io::ErrorKind::BrokenPipe {
        // Returns only where the signal could not be raised.
        let _ = signal_hook::low_level::emulate_default_handler(SIGPIPE);
    }
    eprintln!("tidemill: standard output can't be written: {error}");
    std::process::exit(i32::from(super::Exit::Failed as u8));
}

/// Rows under a heading, with columns as wide as their widest cell.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    #[must_use]
    pub fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|name| (*name).to_owned()).collect()] }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Whether it has no row but its heading.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    pub fn print(&self, output: &mut Output) {
        self.lines().iter().for_each(|line| output.line(line));
    }

    fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["NAME", "N", "REST"]);
        table.row(vec!["orders".into(), "3".into(), String::new()]);
        table.row(vec!["ü".into(), "10".into(), "x y".into()]);
        assert_eq!(table.lines(), ["NAME    N   REST", "orders  3", "ü       10  x y"]);
    }
}
