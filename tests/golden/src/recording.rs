//! What a broker answered to the script, and its text form.
//!
//! Pure. A line for each field: its value at every version of the step, or several lines with the versions that each value is for:
//!
//! ```text
//! == metadata/known (Metadata 0-13)
//! topics[log].name = "log"
//! topics[log].topic_id @0-9 = 0
//! topics[log].topic_id @10-13 = <log>
//! ```
//!
//! A field that a version does not carry shows its default there, as a client that reads it would.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::ops::RangeInclusive;

use crate::fields::Field;

/// The field that says how an exchange ended other than with an answer.
pub const OUTCOME: &str = "outcome";
/// The length of the whole frame.
pub const BYTES: &str = "bytes";

/// The answers to one step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answers {
    pub name: String,
    /// As `Metadata`.
    pub api: String,
    pub versions: RangeInclusive<i16>,
    /// In the order of the message: each field, and its value at the versions that have it.
    pub fields: Vec<(String, BTreeMap<i16, String>)>,
}

impl Answers {
    #[must_use]
    pub fn new(name: &str, api: &str, versions: RangeInclusive<i16>) -> Self {
        Self { name: name.to_owned(), api: api.to_owned(), versions, fields: Vec::new() }
    }

    /// Adds the answer at one version.
    pub fn add(&mut self, version: i16, answer: Vec<Field>) {
        // New fields stand behind the one that they follow in this answer.
        let mut place = 0;
        for (path, value) in answer {
            let known = self.fields.iter().position(|(known, _)| *known == path);
            let at = known.unwrap_or_else(|| {
                self.fields.insert(place, (path, BTreeMap::new()));
                place
            });
            self.fields[at].1.insert(version, value);
            place = at + 1;
        }
    }

    /// The value of a field at a version.
    #[must_use]
    pub fn value(&self, path: &str, version: i16) -> Option<&str> {
        let (_, values) = self.fields.iter().find(|(known, _)| known == path)?;
        values.get(&version).map(String::as_str)
    }
}

/// The answers of one broker to the script, in its order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    pub steps: Vec<Answers>,
}

/// A line that is none of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadLine {
    pub number: usize,
    pub line: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} is none of a recording: {}", self.number, self.line)
    }
}

impl std::error::Error for BadLine {}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            if index > 0 {
                f.write_char('\n')?;
            }
            let Answers { name, api, versions, fields } = step;
            writeln!(f, "== {name} ({api} {})", shown_versions(&versions.clone().collect::<Vec<_>>()))?;
            for (path, values) in fields {
                for (value, at) in by_value(values) {
                    let all = at.len() == versions.clone().count();
                    let suffix = if all { String::new() } else { format!(" @{}", shown_versions(&at)) };
                    writeln!(f, "{path}{suffix} = {value}")?;
                }
            }
        }
        Ok(())
    }
}

/// Each value with the versions that have it, in the order of their first.
#[must_use]
pub fn by_value<V: Clone + PartialEq>(values: &BTreeMap<i16, V>) -> Vec<(V, Vec<i16>)> {
    let mut grouped: Vec<(V, Vec<i16>)> = Vec::new();
    for (version, value) in values {
        match grouped.iter_mut().find(|(known, _)| known == value) {
            Some((_, at)) => at.push(*version),
            None => grouped.push((value.clone(), vec![*version])),
        }
    }
    grouped
}

/// As `0-3,5`.
#[must_use]
pub fn shown_versions(versions: &[i16]) -> String {
    let mut ranges: Vec<(i16, i16)> = Vec::new();
    for &version in versions {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(version) => *last = version,
            _ => ranges.push((version, version)),
        }
    }
    let shown = |(first, last): &(i16, i16)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(shown).collect::<Vec<_>>().join(",")
}

/// Reads `0-3,5`; negative versions do not occur in ranges.
#[must_use]
pub fn read_versions(text: &str) -> Option<Vec<i16>> {
    let mut versions = Vec::new();
    for range in text.split(',') {
        match (range.parse::<i16>(), range.split_once('-')) {
            (Ok(one), _) => versions.push(one),
            (Err(_), Some((first, last))) => versions.extend(first.parse::<i16>().ok()?..=last.parse().ok()?),
            (Err(_), None) => return None,
        }
    }
    Some(versions)
}

impl Recording {
    /// Reads what `Display` writes; lines that start with `#` are comments.
    ///
    /// # Errors
    /// The first line that is neither.
    pub fn parse(text: &str) -> Result<Self, BadLine> {
        let mut recording = Self::default();
        for (index, line) in text.lines().enumerate() {
            let bad = || BadLine { number: index + 1, line: line.to_owned() };
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(head) = line.strip_prefix("== ") {
                recording.steps.push(head_line(head).ok_or_else(bad)?);
                continue;
            }
            let step = recording.steps.last_mut().ok_or_else(bad)?;
            let (path, value) = line.split_once(" = ").ok_or_else(bad)?;
            let (path, versions) = match path.split_once(" @") {
                Some((path, versions)) => (path, read_versions(versions).ok_or_else(bad)?),
                None => (path, step.versions.clone().collect()),
            };
            let at = step.fields.iter().position(|(known, _)| known == path).unwrap_or_else(|| {
                step.fields.push((path.to_owned(), BTreeMap::new()));
                step.fields.len() - 1
            });
            step.fields[at].1.extend(versions.into_iter().map(|version| (version, value.to_owned())));
        }
        Ok(recording)
    }

    #[must_use]
    pub fn step(&self, name: &str) -> Option<&Answers> {
        self.steps.iter().find(|step| step.name == name)
    }
}

fn head_line(head: &str) -> Option<Answers> {
    let (name, rest) = head.strip_suffix(')')?.split_once(" (")?;
    let (api, versions) = rest.split_once(' ')?;
    let versions = read_versions(versions)?;
    Some(Answers::new(name, api, *versions.first()?..=*versions.last()?))
}

#[cfg(test)]
mod tests {
    use super::{Answers, Recording, read_versions, shown_versions};

    fn answer(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        fields.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let mut step = Answers::new("a/b", "Metadata", 0..=2);
        step.add(0, answer(&[("error_code", "None"), ("last", "1")]));
        step.add(1, answer(&[("error_code", "None"), ("topics[a].name", "\"a = b @1\""), ("last", "1")]));
        step.add(2, answer(&[("error_code", "None"), ("last", "2")]));
        let mut negative = Answers::new("c", "Fetch", -1..=-1);
        negative.add(-1, answer(&[("outcome", "closed")]));
        let recording = Recording { steps: vec![step, negative] };
        let text = "== a/b (Metadata 0-2)\nerror_code = None\ntopics[a].name @1 = \"a = b @1\"\nlast @0-1 = 1\nlast @2 = 2\n\n\
                    == c (Fetch -1)\noutcome = closed\n";
        assert_eq!(recording.to_string(), text);
        assert_eq!(Recording::parse(&format!("# heard\n{text}")), Ok(recording));
    }

    #[test]
    fn versions_are_ranges() {
        for (versions, text) in [(&[1][..], "1"), (&[0, 1, 2, 5], "0-2,5"), (&[3, 5], "3,5"), (&[-1], "-1")] {
            assert_eq!(shown_versions(versions), text);
            assert_eq!(read_versions(text).as_deref(), Some(versions));
        }
        for bad in ["", "a", "1-", "1,,2"] {
            assert_eq!(read_versions(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn what_is_no_recording_names_its_line() {
        for (text, number) in [("x = 1\n", 1), ("== a (Fetch 1)\nnothing\n", 2), ("== a\n", 1)] {
            assert_eq!(Recording::parse(text).unwrap_err().number, number, "{text:?}");
        }
    }
}
