//! Tables for people: aligned columns, text to the left, numbers to the right. With `--csv` in a program's arguments the same
//! rows come as comma-separated values.

use std::fmt::Write;

/// Rows under named columns.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    #[must_use]
    pub fn new(columns: &[&'static str]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// # Panics
    /// When the row has not one cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let row: Vec<String> = cells.into_iter().collect();
        assert_eq!(row.len(), self.columns.len(), "a cell for each column: {row:?}");
        self.rows.push(row);
    }

    /// The table as text.
    #[must_use]
    pub fn render(&self) -> String {
        let width = |index: usize| {
            let cells = self.rows.iter().map(|row| row[index].chars().count());
            cells.chain([self.columns[index].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut out = String::new();
        let header: Vec<String> = self.columns.iter().map(|&column| column.to_owned()).collect();
        for row in std::iter::once(&header).chain(&self.rows) {
            let mut line = String::new();
            for (index, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let gap = if index == 0 { "" } else { "  " };
                let is_number =
                    self.rows.iter().all(|row| row[index].starts_with(|c: char| c.is_ascii_digit() || c == '-'));
                let _ = if is_number && index > 0 {
                    write!(line, "{gap}{cell:>width$}")
                } else {
                    write!(line, "{gap}{cell:<width$}")
                };
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    pub fn print(&self) {
        println!("{}", self.render());
    }
}

/// A number in as many digits as it deserves; `-` for what was not measured.
#[must_use]
pub fn number(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "-".into(),
        _ if value == 0.0 => "0".into(),
        _ if value.abs() >= 100.0 => format!("{value:.0}"),
        _ if value.abs() >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// `number`, of what may be missing.
#[must_use]
pub fn number_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), number)
}

/// A size as people write it: `256 B`, `4 KiB`, `1 GiB`.
#[must_use]
pub fn bytes(count: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if count >= unit && count.is_multiple_of(unit) {
            return format!("{} {name}", count / unit);
        }
    }
    format!("{count} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sizes() {
        for (value, text) in
            [(0.0, "0"), (0.123, "0.12"), (12.34, "12.3"), (1234.5, "1234"), (f64::NAN, "-"), (f64::INFINITY, "-")]
        {
            assert_eq!(number(value), text);
        }
        for (count, text) in [(256, "256 B"), (4096, "4 KiB"), (1 << 30, "1 GiB"), (4097, "4097 B")] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["what", "ms"]);
        table.row(["long name".into(), "1.50".into()]);
        table.row(["b".into(), "12.0".into()]);
        assert_eq!(table.render(), "what         ms\nlong name  1.50\nb          12.0\n");
    }
}
