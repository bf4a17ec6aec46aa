//! A document into declared topics: every key known, every value checked as the broker will check it.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use replication::metadata::check_topic_name;

use super::document::{Entry, Node, PolicyError, Value};
use super::{Syntax, toml, yaml};
use crate::config::keys;
use crate::config::topic::{SETTINGS, Setting, TopicConfig, ValueType};

/// A topic as a policy wants it. What it does not say stays as it is.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct DeclaredTopic {
    pub name: String,
    pub partitions: Option<i32>,
    pub replication_factor: Option<i16>,
    /// By Kafka's names.
    pub settings: BTreeMap<&'static str, String>,
    /// Settings that go back to their defaults.
    pub reset: BTreeSet<&'static str>,
}

const NAME: &str = "name";
const PARTITIONS: &str = "partitions";
const REPLICATION_FACTOR: &str = "replication_factor";
const RESET: &str = "reset";
const TOPICS: &str = "topics";
/// Short for `compression_type`.
const COMPRESSION: &str = "compression";

/// The keys that are not settings, or short for one.
const KEYS: &[&str] = &[NAME, PARTITIONS, REPLICATION_FACTOR, RESET, TOPICS, COMPRESSION];

/// No setting takes a longer value, and no message has room for it.
const VALUE_BYTES_MAX: usize = 2048;

/// Reads a policy: one topic, or a list of `topics`.
///
/// # Errors
/// The first thing that is wrong with it, and its line.
pub fn parse(syntax: Syntax, text: &str) -> Result<Vec<DeclaredTopic>, PolicyError> {
    let document = match syntax {
        Syntax::Yaml => yaml::read(text)?,
        Syntax::Toml => toml::read(text)?,
    };
    let nothing = || PolicyError { line: None, what: "no topic is declared".to_owned() };
    let line = document.line;
    let mut entries = match document.value {
        Value::Table(entries) if !entries.is_empty() => entries,
        Value::Table(_) | Value::Null => return Err(nothing()),
        other => {
            let what = format!("a policy is one topic or a list of `topics`, not {}", other.kind());
            return Err(PolicyError::at(line, what));
        }
    };
    let topics = match entries.iter().position(|entry| entry.key == TOPICS) {
        None => vec![Node { line, value: Value::Table(entries) }],
        Some(at) => {
            let topics = entries.remove(at);
            if let Some(other) = entries.first() {
                let what = format!("`{}` beside `{TOPICS}`, which must stand alone", shown(&other.key));
                return Err(PolicyError::at(other.line, what));
            }
            match topics.value {
                Value::List(topics) if topics.is_empty() => return Err(nothing()),
                Value::List(topics) => topics,
                other => return Err(wrong(topics.line, TOPICS, "a list", &other)),
            }
        }
    };
    let mut declared = Vec::with_capacity(topics.len());
    let mut lines = BTreeMap::new();
    for node in topics {
        let line = node.line;
        let topic = topic(node)?;
        // As in the cluster's metadata, where '.' and '_' count as the same.
        if let Some((before, name)) = lines.insert(topic.name.replace('.', "_"), (line, topic.name.clone())) {
            let what = if name == topic.name {
                format!("topic {name} is declared in line {before} already")
            } else {
                format!(
                    "topic {} collides with topic {name} of line {before}: '.' and '_' count as the same",
                    topic.name
                )
            };
            return Err(PolicyError::at(line, what));
        }
        declared.push(topic);
    }
    Ok(declared)
}

fn topic(node: Node) -> Result<DeclaredTopic, PolicyError> {
    let Value::Table(entries) = node.value else {
        return Err(PolicyError::at(
            node.line,
            format!("a topic is a table with its `{NAME}`, not {}", node.value.kind()),
        ));
    };
    let mut topic = DeclaredTopic::default();
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in &entries {
        let given = match entry.key.as_str() {
            NAME => {
                topic.name = scalar(entry)?.to_owned();
                check_topic_name(&topic.name).map_err(|error| PolicyError::at(entry.line, error.to_string()))?;
                NAME
            }
            PARTITIONS => {
                topic.partitions = Some(count(entry)?);
                PARTITIONS
            }
            REPLICATION_FACTOR => {
                topic.replication_factor = Some(count(entry)?);
                REPLICATION_FACTOR
            }
            RESET => {
                topic.reset = names(entry)?;
                RESET
            }
            key => {
                let setting = setting(key, entry.line, KEYS)?;
                topic.settings.insert(setting.name, value(entry, setting)?);
                setting.name
            }
        };
        if let Some(before) = lines.insert(given, entry.line) {
            return Err(PolicyError::at(entry.line, format!("`{}` is given in line {before} already", entry.key)));
        }
    }
    if !lines.contains_key(NAME) {
        return Err(PolicyError::at(node.line, format!("a topic without `{NAME}`")));
    }
    if let Some(name) = topic.reset.iter().find(|name| topic.settings.contains_key(*name)) {
        let what = format!("`{}` is both given a value and under `{RESET}`", name.replace('.', "_"));
        return Err(PolicyError::at(lines[RESET], what));
    }
    Ok(topic)
}

fn wrong(line: usize, key: &str, wanted: &str, found: &Value) -> PolicyError {
    PolicyError::at(line, format!("`{key}` takes {wanted}, not {}", found.kind()))
}

/// A value that is one, and there.
fn scalar(entry: &Entry) -> Result<&str, PolicyError> {
    match &entry.value {
        Value::Scalar(text) => Ok(text),
        Value::Null => {
            let what = format!("`{}` has no value; without the line it stays as it is", entry.key);
            Err(PolicyError::at(entry.line, format!("{what}, under `{RESET}` it goes back to its default")))
        }
        other => Err(wrong(entry.line, &entry.key, "a single value", other)),
    }
}

/// Each of a list's values, or the one that stands for a list.
fn scalars(entry: &Entry) -> Result<Vec<&str>, PolicyError> {
    let Value::List(items) = &entry.value else { return Ok(vec![scalar(entry)?]) };
    let texts = items.iter().map(|item| match &item.value {
        Value::Scalar(text) => Ok(text.as_str()),
        other => Err(PolicyError::at(item.line, format!("`{}` lists {}, not text", entry.key, other.kind()))),
    });
    texts.collect()
}

fn count<T: FromStr + PartialOrd + From<u8>>(entry: &Entry) -> Result<T, PolicyError> {
    let text = scalar(entry)?.trim();
    text.parse().ok().filter(|count| *count >= T::from(1)).ok_or_else(|| {
        PolicyError::at(entry.line, format!("`{}` takes a whole number from 1 up, not `{}`", entry.key, shown(text)))
    })
}

/// Settings that are named as in a policy.
fn names(entry: &Entry) -> Result<BTreeSet<&'static str>, PolicyError> {
    scalars(entry)?.into_iter().map(|name| Ok(setting(name, entry.line, &[COMPRESSION])?.name)).collect()
}

/// A setting's value, which is one that it may have.
fn value(entry: &Entry, setting: &Setting) -> Result<String, PolicyError> {
    let text = match setting.value_type() {
        ValueType::List => scalars(entry)?.join(","),
        _ => scalar(entry)?.to_owned(),
    };
    if text.len() > VALUE_BYTES_MAX {
        let what = format!("`{}` has a value of {} bytes, longer than that of any setting", entry.key, text.len());
        return Err(PolicyError::at(entry.line, what));
    }
    TopicConfig::from_settings([(setting.name, text.as_str())])
        .map_err(|error| PolicyError::at(entry.line, error.to_string()))?;
    Ok(text.trim().to_owned())
}

/// The setting that a policy calls `key`. Beside settings, `others` could be meant.
fn setting(key: &str, line: usize, others: &[&str]) -> Result<&'static Setting, PolicyError> {
    let name = if key == COMPRESSION { "compression.type".to_owned() } else { key.replace('_', ".") };
    match Setting::named(&name) {
        Ok(setting) if !key.contains('.') => Ok(setting),
        Err(error) if Setting::is_not_served(&name) => Err(PolicyError::at(line, error.to_string())),
        _ => Err(PolicyError::at(line, unknown(key, others))),
    }
}

fn unknown(key: &str, others: &[&str]) -> String {
    let settings: Vec<String> = SETTINGS.iter().map(|setting| setting.name.replace('.', "_")).collect();
    let known = settings.iter().map(String::as_str).chain(others.iter().copied());
    let key = shown(key);
    match keys::nearest(&key, known).filter(|meant| *meant != key) {
        Some(meant) => format!("`{key}` is not known; is `{meant}` meant?"),
        None => format!("`{key}` is not known here; topic settings go by Kafka's names with `_` for `.`"),
    }
}

/// As much of a text from a file as a message has room for, on one line.
fn shown(text: &str) -> String {
    const CHARACTERS_MAX: usize = 80;
    let mut shown: String = text.chars().take(CHARACTERS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        shown.push('…');
    }
    shown
}
