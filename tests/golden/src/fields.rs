//! A decoded answer as lines: a path and a value for each of its fields, none left out.
//!
//! Pure. An array whose order says nothing is a set: its elements go by what names them (`topics[orders]`), so that two answers compare
//! field by field in whatever order they came. Record batches are opened to their last record.

use base::WallTime;
use record::{BatchHeader, BatchView, decode_records};

use crate::known::Known;
use crate::tree::Tree;

/// A field of an answer.
pub type Field = (String, String);

/// What names an element of a set: the first of these that the element has and that is not empty.
const KEYS: &[&[&str]] = &[
    &["resource_type", "resource_name"],
    &["key"],
    &["api_key"],
    &["name"],
    &["topic"],
    &["topic_id"],
    &["partition_index"],
    &["partition"],
    &["partition_id"],
    &["index"],
    &["node_id"],
    &["broker_id"],
    &["producer_id"],
    &["log_dir"],
    &["group_id"],
    &["member_id"],
];

/// Arrays whose order is part of the answer.
const ORDERED: &[&str] = &["synonyms", "record_errors", "batches", "contents", "headers"];

/// The most bytes that a record may decompress to here.
const DECODED_BYTES_LIMIT: usize = 16 << 20;
/// A key or value that is longer is told by its length and its first byte.
const TEXT_BYTES_MAX: usize = 64;

/// Every field of `tree`, in the order of the message, with the values as `known` shows them.
#[must_use]
pub fn fields(tree: &Tree, known: &Known) -> Vec<Field> {
    let mut walk = Walk { known, fields: Vec::new() };
    walk.value("", "", tree);
    walk.fields
}

struct Walk<'k> {
    known: &'k Known,
    fields: Vec<Field>,
}

impl Walk<'_> {
    fn value(&mut self, path: &str, name: &str, tree: &Tree) {
        match tree {
            Tree::Struct(fields) => {
                for (field, value) in fields {
                    let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
                    self.value(&path, field, value);
                }
            }
            Tree::List(bytes) if name == "records" && bytes.iter().all(|byte| matches!(byte, Tree::Atom(_))) => {
                self.list(path, "batches", &batches(&bytes_of(bytes)));
            }
            Tree::List(items) => self.list(path, name, items),
            scalar => self.fields.push((path.to_owned(), self.known.show(name, scalar))),
        }
    }

    fn list(&mut self, path: &str, name: &str, items: &[Tree]) {
        if !items.iter().any(|item| matches!(item, Tree::Struct(_))) {
            let shown: Vec<String> = items.iter().map(|item| self.known.show(name, item)).collect();
            self.fields.push((path.to_owned(), format!("[{}]", shown.join(", "))));
            return;
        }
        let mut keyed: Vec<(String, &Tree)> =
            items.iter().enumerate().map(|(at, item)| (self.key(name, at, item), item)).collect();
        if !ORDERED.contains(&name) {
            keyed.sort_by_key(|(key, _)| (key.parse::<i64>().unwrap_or(i64::MAX), key.clone()));
        }
        let mut before: Option<(String, usize)> = None;
        for (key, item) in keyed {
            let times = before.filter(|(last, _)| *last == key).map_or(1, |(_, times)| times + 1);
            let suffix = if times > 1 { format!("#{times}") } else { String::new() };
            self.value(&format!("{path}[{key}{suffix}]"), "", item);
            before = Some((key, times));
        }
    }

    fn key(&self, list: &str, at: usize, item: &Tree) -> String {
        let Tree::Struct(fields) = item else { return at.to_string() };
        if ORDERED.contains(&list) {
            return at.to_string();
        }
        let find = |name: &&str| fields.iter().find(|(field, _)| field == name);
        let shown = |name: &&str| {
            let (field, value) = find(name).filter(|(_, value)| *value != Tree::Text(String::new()))?;
            let shown = (*value != Tree::Null).then(|| self.known.show(field, value))?;
            Some(bare(&shown))
        };
        let key = KEYS.iter().find_map(|names| names.iter().map(shown).collect::<Option<Vec<_>>>());
        // An empty name is a name where there is nothing else to go by.
        let empty = || KEYS.iter().find_map(|names| names.iter().map(find).collect::<Option<Vec<_>>>());
        let empty = || empty().map(|of| of.iter().map(|(name, value)| bare(&self.known.show(name, value))).collect());
        key.or_else(empty).map_or_else(|| at.to_string(), |parts| parts.join(":"))
    }
}

/// A shown value as a part of a path: without quotes where it needs none, and without what separates paths from values.
fn bare(shown: &str) -> String {
    let inner = shown.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "._-#<>".contains(c));
    match inner {
        Some(inner) if !inner.is_empty() && plain(inner) => inner.to_owned(),
        _ => shown.replace(' ', "\\u{20}").replace('@', "\\u{40}"),
    }
}

fn bytes_of(bytes: &[Tree]) -> Vec<u8> {
    let byte = |tree: &Tree| match tree {
        Tree::Atom(atom) => atom.parse().expect("records are bytes"),
        other => unreachable!("records are bytes, not {other:?}"),
    };
    bytes.iter().map(byte).collect()
}

fn atom(value: impl std::fmt::Display) -> Tree {
    Tree::Atom(value.to_string())
}

fn structure(fields: Vec<(&str, Tree)>) -> Tree {
    Tree::Struct(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// The batches of a run; its last may be cut off, as a limit in bytes cuts it.
fn batches(mut bytes: &[u8]) -> Vec<Tree> {
    let mut batches = Vec::new();
    while !bytes.is_empty() {
        let Ok(batch) = BatchView::parse(bytes) else {
            batches.push(structure(vec![("cut_off_after_bytes", atom(bytes.len()))]));
            break;
        };
        bytes = &bytes[batch.bytes().len()..];
        batches.push(batch_tree(&batch));
    }
    batches
}

fn batch_tree(batch: &BatchView<'_>) -> Tree {
    let BatchHeader { base_offset, batch_length, leader_epoch, attributes, last_offset_delta, .. } = *batch.header();
    let BatchHeader { base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, .. } = *batch.header();
    let checksum = if batch.has_valid_crc() { "right" } else { "WRONG" };
    structure(vec![
        ("base_offset", atom(base_offset)),
        ("batch_length", atom(batch_length)),
        ("partition_leader_epoch", atom(leader_epoch)),
        ("crc", atom(checksum)),
        ("attributes", atom(attributes.0)),
        ("last_offset_delta", atom(last_offset_delta)),
        ("base_timestamp", atom(base_timestamp.0)),
        ("max_timestamp", atom(max_timestamp.0)),
        ("producer_id", atom(producer_id)),
        ("producer_epoch", atom(producer_epoch)),
        ("base_sequence", atom(base_sequence)),
        ("records_count", atom(batch.header().record_count)),
        ("contents", record_trees(batch)),
    ])
}

fn record_trees(batch: &BatchView<'_>) -> Tree {
    let decoded = match decode_records(batch, DECODED_BYTES_LIMIT) {
        Ok(decoded) => decoded,
        Err(error) => return Tree::Text(error.to_string()),
    };
    let records = decoded.records().map(|record| match record {
        Ok(record) => {
            let headers = record
                .headers
                .map(|header| structure(vec![("header", text(Some(header.key))), ("value", text(header.value))]));
            let WallTime(timestamp) = record.timestamp;
            structure(vec![
                ("offset", atom(record.offset)),
                ("timestamp", atom(timestamp)),
                ("record_key", text(record.key)),
                ("value", text(record.value)),
                ("headers", Tree::List(headers.collect())),
            ])
        }
        Err(error) => structure(vec![("damage", Tree::Text(error.to_string()))]),
    });
    Tree::List(records.collect())
}

fn text(bytes: Option<&[u8]>) -> Tree {
    let Some(bytes) = bytes else { return Tree::Null };
    match (bytes.len(), bytes.first()) {
        (TEXT_BYTES_MAX.., Some(first)) => atom(format_args!("<{} bytes from {first}>", bytes.len())),
        _ => Tree::Text(String::from_utf8_lossy(bytes).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::fields;
    use crate::known::Known;
    use crate::tree::Tree;
    use record::{BatchBuilder, BatchOptions, Header};

    fn check(debug: &str, expected: &[(&str, &str)]) {
        let known = Known::new(9092, base::WallTime(4_600_000));
        let tree = Tree::parse(debug).expect("Debug text");
        let found = fields(&tree, &known);
        let found: Vec<(&str, &str)> = found.iter().map(|(path, value)| (path.as_str(), value.as_str())).collect();
        assert_eq!(found, expected, "{debug}");
    }

    #[test]
    fn sets_go_by_their_names_and_lists_by_their_order() {
        check("A { topics: [] }", &[("topics", "[]")]);
        check("A { isr_nodes: [3, 1] }", &[("isr_nodes", "[3, 1]")]);
        check(
            r#"A { topics: [T { name: "b", x: 1 }, T { name: "a b", x: 2 }, T { name: "b", x: 3 }] }"#,
            &[
                (r#"topics["a\u{20}b"].name"#, r#""a b""#),
                (r#"topics["a\u{20}b"].x"#, "2"),
                ("topics[b].name", r#""b""#),
                ("topics[b].x", "1"),
                ("topics[b#2].name", r#""b""#),
                ("topics[b#2].x", "3"),
            ],
        );
        check(
            r#"A { r: [R { resource_type: 4, resource_name: "" }] }"#,
            &[("r[4:\"\"].resource_type", "4"), ("r[4:\"\"].resource_name", "\"\"")],
        );
        check(
            "A { p: [P { partition_index: 10 }, P { partition_index: 9 }] }",
            &[("p[9].partition_index", "9"), ("p[10].partition_index", "10")],
        );
        check(
            r#"A { synonyms: [S { name: "b" }, S { name: "a" }] }"#,
            &[("synonyms[0].name", r#""b""#), ("synonyms[1].name", r#""a""#)],
        );
    }

    #[test]
    fn batches_are_opened() {
        let mut builder = BatchBuilder::new(BatchOptions::default());
        let headers = [Header { key: b"h", value: None }];
        builder.add(base::WallTime(1_000_001), Some(b"k"), None, &headers).expect("it fits");
        let batch = builder.finish().expect("it has a record");
        let known = Known::new(9092, base::WallTime(4_600_000));
        let mut run = batch.clone();
        run.extend_from_slice(&batch[..20]);
        let tree = Tree::parse(&format!("A {{ records: Bytes({run:?}) }}")).expect("Debug text");
        let found = fields(&tree, &known);
        let find = |path: &str| found.iter().find(|(found, _)| found == path).map(|(_, value)| value.as_str());
        assert_eq!(find("records[0].crc"), Some("right"));
        assert_eq!(find("records[0].base_timestamp"), Some("<T+1>"));
        assert_eq!(find("records[0].contents[0].record_key"), Some("\"k\""));
        assert_eq!(find("records[0].contents[0].value"), Some("null"));
        assert_eq!(find("records[0].contents[0].headers[0].value"), Some("null"));
        assert_eq!(find("records[1].cut_off_after_bytes"), Some("20"));
    }
}
