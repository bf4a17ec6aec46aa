//! Compares two recordings field by field against the list of differences that are known and have a reason.
//!
//! Pure. A difference that no entry covers is a finding, and so is an entry, or one of its patterns, that covers none: the list says what
//! is so, no more and no less. Where fields of an answer differ its length does too, and is not told again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;

use crate::recording::{Answers, BYTES, Recording, by_value, read_versions, shown_versions};

/// Shown for a field that an answer does not have.
pub const ABSENT: &str = "absent";

/// The file of the differences that are known.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Differences {
    #[serde(default)]
    pub difference: Vec<Entry>,
}

/// Differences with one reason. In a pattern `*` stands for any text.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Patterns of names of steps.
    pub steps: Vec<String>,
    /// Patterns of paths of fields.
    pub fields: Vec<String>,
    /// As `0-3,5`; all, if it is not there.
    pub versions: Option<String>,
    /// A pattern of the value.
    pub kafka: String,
    /// A pattern of the value.
    pub tidemill: String,
    pub reason: String,
}

/// A field that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    pub step: String,
    pub field: String,
    pub versions: Vec<i16>,
    pub kafka: String,
    pub tidemill: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, field, versions, kafka, tidemill } = self;
        let versions = shown_versions(versions);
        write!(f, "{step}: {field} @{versions}\n    kafka:    {kafka}\n    tidemill: {tidemill}")
    }
}

/// Whether `text` is `pattern`, in which each `*` stands for any text.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or("");
    for part in parts {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(end)
}

impl Entry {
    fn covers(&self, difference: &Difference) -> bool {
        let any = |patterns: &[String], text: &str| patterns.iter().any(|pattern| matches(pattern, text));
        let versions = self.versions.as_deref().and_then(read_versions);
        any(&self.steps, &difference.step)
            && any(&self.fields, &difference.field)
            && versions.is_none_or(|versions| difference.versions.iter().all(|version| versions.contains(version)))
            && matches(&self.kafka, &difference.kafka)
            && matches(&self.tidemill, &difference.tidemill)
    }
}

/// Every field that differs, at the versions at which it does so in the same way.
#[must_use]
pub fn differences(kafka: &Recording, tidemill: &Recording) -> Vec<Difference> {
    let mut found = Vec::new();
    for answers in &kafka.steps {
        match tidemill.step(&answers.name) {
            Some(other) => compare(answers, other, &mut found),
            None => found.push(lone_step(answers, true)),
        }
    }
    let lone = tidemill.steps.iter().filter(|answers| kafka.step(&answers.name).is_none());
    found.extend(lone.map(|answers| lone_step(answers, false)));
    found
}

fn lone_step(answers: &Answers, is_kafkas: bool) -> Difference {
    let (here, absent) = ("the step".to_owned(), ABSENT.to_owned());
    let (kafka, tidemill) = if is_kafkas { (here, absent) } else { (absent, here) };
    let (step, versions) = (answers.name.clone(), answers.versions.clone().collect());
    Difference { step, field: String::new(), versions, kafka, tidemill }
}

fn compare(kafka: &Answers, tidemill: &Answers, found: &mut Vec<Difference>) {
    let mut paths: Vec<&str> = kafka.fields.iter().map(|(path, _)| path.as_str()).collect();
    let known: BTreeSet<&str> = paths.iter().copied().collect();
    paths.extend(tidemill.fields.iter().map(|(path, _)| path.as_str()).filter(|path| !known.contains(path)));
    let versions: BTreeSet<i16> = kafka.versions.clone().chain(tidemill.versions.clone()).collect();
    let mut differ_at: BTreeSet<i16> = BTreeSet::new();
    let mut lengths = None;
    for path in paths {
        let value = |of: &Answers, version| of.value(path, version).unwrap_or(ABSENT).to_owned();
        let differing: BTreeMap<i16, (String, String)> = versions
            .iter()
            .map(|&version| (version, (value(kafka, version), value(tidemill, version))))
            .filter(|(_, (kafka, tidemill))| kafka != tidemill)
            .collect();
        if path == BYTES {
            lengths = Some(differing);
            continue;
        }
        differ_at.extend(differing.keys());
        push(&kafka.name, path, &differing, found);
    }
    let mut lengths = lengths.unwrap_or_default();
    lengths.retain(|version, _| !differ_at.contains(version));
    push(&kafka.name, BYTES, &lengths, found);
}

fn push(step: &str, field: &str, differing: &BTreeMap<i16, (String, String)>, found: &mut Vec<Difference>) {
    found.extend(by_value(differing).into_iter().map(|((kafka, tidemill), versions)| Difference {
        step: step.to_owned(),
        field: field.to_owned(),
        versions,
        kafka,
        tidemill,
    }));
}

impl Differences {
    /// # Errors
    /// Text that is not the file's format, with the place in it.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// What of `found` no entry covers, and what of the entries covers nothing, in words.
    #[must_use]
    pub fn judge(&self, found: &[Difference]) -> Vec<String> {
        let mut findings: Vec<String> = found
            .iter()
            .filter(|difference| !self.difference.iter().any(|entry| entry.covers(difference)))
            .map(|difference| format!("not listed: {difference}"))
            .collect();
        for entry in &self.difference {
            let covered: Vec<&Difference> = found.iter().filter(|difference| entry.covers(difference)).collect();
            let unused = |patterns: &[String], text: fn(&Difference) -> &str| -> Vec<String> {
                let used = |pattern: &String| covered.iter().any(|difference| matches(pattern, text(difference)));
                patterns.iter().filter(|pattern| !used(pattern)).cloned().collect()
            };
            let mut stale = unused(&entry.steps, |difference| &difference.step);
            stale.extend(unused(&entry.fields, |difference| &difference.field));
            findings.extend(stale.iter().map(|pattern| format!("nothing differs: `{pattern}` of {entry:?}")));
            if entry.reason.trim().is_empty() {
                findings.push(format!("no reason: {entry:?}"));
            }
            if entry.versions.as_deref().is_some_and(|versions| read_versions(versions).is_none()) {
                findings.push(format!("no versions: {entry:?}"));
            }
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::{Differences, differences, matches};
    use crate::recording::Recording;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*", "ab", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*a", "a", false),
            ("*.error_message", "topics[a].error_message", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("\"*\"", "null", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    fn check(kafka: &str, tidemill: &str, list: &str, expected: &[&str]) {
        let read = |lines: &str| Recording::parse(&format!("== s (Fetch 0-1)\n{lines}")).expect("a recording");
        let found = differences(&read(kafka), &read(tidemill));
        let findings = Differences::parse(list).expect("a list").judge(&found);
        assert_eq!(findings.len(), expected.len(), "{findings:#?}");
        for (finding, words) in findings.iter().zip(expected) {
            assert!(finding.contains(words), "{words:?} is not in {finding:?}");
        }
    }

    #[test]
    fn every_difference_needs_an_entry_and_every_entry_a_difference() {
        let entry = |fields: &str, versions: &str, kafka: &str, tidemill: &str| {
            format!(
                "[[difference]]\nsteps = [\"s\"]\nfields = [{fields}]\n{versions}\nkafka = '{kafka}'\n\
                 tidemill = '{tidemill}'\nreason = \"r\"\n"
            )
        };
        check("a = 1\n", "a = 1\n", "", &[]);
        check("a = 1\n", "a @0 = 1\na @1 = 2\n", "", &["s: a @1\n    kafka:    1\n    tidemill: 2"]);
        check("a = 1\n", "", "", &["tidemill: absent"]);
        check("a = 1\n", "a = 2\n", &entry("'a'", "", "1", "2"), &[]);
        check("a = 1\n", "a = 2\n", &entry("'a'", "", "1", "3"), &["not listed", "nothing differs", "nothing differs"]);
        check("a = 1\n", "a = 2\n", &entry("'a', 'b'", "", "*", "*"), &["nothing differs: `b`"]);
        check("a = 1\n", "a = 2\n", &entry("'a'", "versions = \"1\"", "1", "2"), &["not listed", "nothing", "nothing"]);
        check("a = 1\nbytes = 4\n", "a @0 = 2\na @1 = 1\nbytes = 5\n", &entry("'a'", "", "1", "2"), &["bytes @1"]);
    }
}
