//! What a run knows of the broker it talks to, and how values that no two runs share are shown.
//!
//! Owner: the run. A value is replaced by a placeholder only where [`RULES`] say so by the name of its field, or where text repeats an
//! address of the run; every other value is shown as it is.

use std::collections::BTreeMap;

use base::{Uuid, WallTime};

use crate::tree::Tree;

/// How far behind the clock the timestamps lie that the script sends: what is newer was put there by the broker.
const RECORDS_AGE_MS: i64 = 3_600_000;
/// The script's timestamps count from its base by less than this.
const RECORDS_SPAN_MS: i64 = 1_000_000;

/// What the id begins with that a broker gives to a member of the script's.
const CLIENT_MEMBER: &str = "golden-";

/// How the values of a field are shown.
#[derive(Clone, Copy)]
enum Rule {
    /// By the topic's name.
    TopicId,
    /// The first that the run was given, or another that it was given.
    ProducerId,
    /// A time of the script counts from the script's base; one of the run is `<now>`.
    Time,
    /// Random, or different on every machine: only whether there is one.
    AnyPositive,
    AnyText,
    /// A member that the run was given the id of, or another that begins as those do.
    Member,
    Port,
    /// Words for people: long numbers in them are times and sizes of the run.
    Message,
}

const RULES: &[(&str, Rule)] = &[
    ("base_timestamp", Rule::Time),
    ("batch_index_error_message", Rule::Message),
    ("cluster_id", Rule::AnyText),
    ("documentation", Rule::AnyText),
    ("error_message", Rule::Message),
    ("finalized_features_epoch", Rule::AnyPositive),
    ("last_timestamp", Rule::Time),
    ("leader", Rule::Member),
    ("log_append_time_ms", Rule::Time),
    ("log_dir", Rule::AnyText),
    ("max_timestamp", Rule::Time),
    ("member_id", Rule::Member),
    ("port", Rule::Port),
    ("producer_id", Rule::ProducerId),
    ("session_id", Rule::AnyPositive),
    ("timestamp", Rule::Time),
    ("topic_id", Rule::TopicId),
    ("total_bytes", Rule::AnyPositive),
    ("usable_bytes", Rule::AnyPositive),
];

/// What a run has learnt so far.
pub struct Known {
    port: u16,
    base: WallTime,
    /// The version that the step is at; names made for it end in `-v` and its number.
    pub version: i16,
    topics: BTreeMap<Uuid, String>,
    producers: Vec<i64>,
    /// The newest fetch session of each version.
    sessions: BTreeMap<i16, i32>,
    /// The first member id that each version was given.
    members: BTreeMap<i16, String>,
    /// The newest member epoch of each version.
    epochs: BTreeMap<i16, i32>,
}

impl Known {
    /// Of a broker on `port`, in a run that starts `now`.
    #[must_use]
    pub fn new(port: u16, now: WallTime) -> Self {
        let base = WallTime(now.0 - RECORDS_AGE_MS);
        Self {
            port,
            base,
            version: 0,
            topics: BTreeMap::new(),
            producers: Vec::new(),
            sessions: BTreeMap::new(),
            members: BTreeMap::new(),
            epochs: BTreeMap::new(),
        }
    }

    /// The time that the script's timestamps count from.
    #[must_use]
    pub fn base(&self) -> WallTime {
        self.base
    }

    pub fn learn_topic(&mut self, id: Uuid, name: &str) {
        self.topics.insert(id, name.to_owned());
    }

    /// The id of a topic; the script uses no name twice.
    #[must_use]
    pub fn topic_id(&self, name: &str) -> Option<Uuid> {
        self.topics.iter().find(|(_, known)| *known == name).map(|(id, _)| *id)
    }

    #[must_use]
    pub fn producer(&self, index: usize) -> Option<i64> {
        self.producers.get(index).copied()
    }

    #[must_use]
    pub fn session(&self, version: i16) -> Option<i32> {
        self.sessions.get(&version).copied()
    }

    /// The member of a version's group.
    #[must_use]
    pub fn member(&self, version: i16) -> Option<&str> {
        self.members.get(&version).map(String::as_str)
    }

    /// The epoch of a version's member.
    #[must_use]
    pub fn epoch(&self, version: i16) -> Option<i32> {
        self.epochs.get(&version).copied()
    }

    /// Takes note of the ids that an answer brings.
    pub fn learn(&mut self, answer: &Tree) {
        let Tree::Struct(fields) = answer else { return };
        for (name, value) in fields {
            if let ("member_id", Tree::Text(id)) = (name.as_str(), value)
                && id.starts_with(CLIENT_MEMBER)
            {
                self.members.entry(self.version).or_insert_with(|| id.clone());
            }
            let Tree::Atom(atom) = value else { continue };
            match (name.as_str(), atom.parse::<i64>()) {
                ("producer_id", Ok(id @ 0..)) if !self.producers.contains(&id) => self.producers.push(id),
                ("member_epoch", Ok(epoch @ 1..)) => {
                    self.epochs.insert(self.version, i32::try_from(epoch).unwrap_or(i32::MAX));
                }
                ("session_id", Ok(id)) => {
                    if let Some(id) = i32::try_from(id).ok().filter(|id| *id != 0) {
                        self.sessions.insert(self.version, id);
                    }
                }
                _ => {}
            }
        }
    }

    /// A value of the field of this name, as text without line breaks.
    #[must_use]
    pub fn show(&self, field: &str, value: &Tree) -> String {
        let rule = RULES.iter().find(|(name, _)| *name == field).map(|(_, rule)| *rule);
        match (rule, value) {
            (_, Tree::Null) => "null".to_owned(),
            (Some(Rule::AnyText), Tree::Text(text)) if !text.is_empty() => format!("<{field}>"),
            (Some(Rule::Member), Tree::Text(text)) if self.member(self.version) == Some(text) => "<member>".to_owned(),
            (Some(Rule::Member), Tree::Text(text)) if has_random_tail(text) => "<another member>".to_owned(),
            (Some(Rule::Message), Tree::Text(text)) => format!("{:?}", without_long_numbers(&self.neutral(text))),
            (_, Tree::Text(text)) => format!("{:?}", self.neutral(text)),
            (Some(rule), Tree::Atom(atom)) => self.show_atom(field, rule, atom),
            (None, Tree::Atom(atom)) => atom.clone(),
            (_, Tree::Struct(_) | Tree::List(_)) => unreachable!("{field} is no single value: {value:?}"),
        }
    }

    fn show_atom(&self, field: &str, rule: Rule, atom: &str) -> String {
        let number = atom.parse::<i64>();
        match (rule, number) {
            (Rule::Time, Ok(time)) => self.show_time(time),
            (Rule::AnyPositive, Ok(1..)) => format!("<{field}>"),
            (Rule::Port, Ok(port)) if port == i64::from(self.port) => "<port>".to_owned(),
            (Rule::ProducerId, Ok(id)) => match self.producers.iter().position(|known| *known == id) {
                Some(0) => "<first producer>".to_owned(),
                Some(_) => "<another producer>".to_owned(),
                None => atom.to_owned(),
            },
            (Rule::TopicId, _) => match atom.parse::<Uuid>() {
                Ok(Uuid::ZERO) => "0".to_owned(),
                Ok(id) => match self.topics.get(&id) {
                    Some(name) => format!("<{}>", self.neutral(name)),
                    None => "<unknown>".to_owned(),
                },
                Err(_) => atom.to_owned(),
            },
            _ => atom.to_owned(),
        }
    }

    fn show_time(&self, time: i64) -> String {
        match time - self.base.0 {
            offset @ 0..RECORDS_SPAN_MS => format!("<T+{offset}>"),
            RECORDS_AGE_MS.. if time < self.base.0 + 24 * RECORDS_AGE_MS => "<now>".to_owned(),
            _ => time.to_string(),
        }
    }

    /// Text without the addresses of this run and without the number of the version in names.
    fn neutral(&self, text: &str) -> String {
        let mut neutral = text.replace(&format!(":{}", self.port), ":<port>");
        for (id, name) in &self.topics {
            neutral = neutral.replace(&id.to_string(), &format!("<{name}>"));
        }
        let own = format!("-v{}", self.version);
        let mut shown = String::with_capacity(neutral.len());
        let mut rest = neutral.as_str();
        while let Some(at) = rest.find(&own) {
            let (before, after) = (&rest[..at], &rest[at + own.len()..]);
            shown.push_str(before);
            shown.push_str(if after.starts_with(|c: char| c.is_ascii_digit()) { &own } else { "-v#" });
            rest = after;
        }
        shown + rest
    }
}

/// Ends as the ids do that brokers give to members: in a UUID.
fn has_random_tail(text: &str) -> bool {
    let tail = text.len().checked_sub(36).and_then(|at| text.get(at..));
    tail.is_some_and(|tail| tail.chars().all(|c| c.is_ascii_hexdigit() || c == '-') && tail.matches('-').count() == 4)
}

/// Numbers of ten digits and more in words for people.
fn without_long_numbers(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut digits = String::new();
    for c in text.chars().chain(std::iter::once('\0')) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        shown.push_str(if digits.len() >= 10 { "<n>" } else { &digits });
        digits.clear();
        if c != '\0' {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::Known;
    use crate::tree::Tree;
    use base::{Uuid, WallTime};

    #[test]
    fn what_no_two_runs_share_has_a_placeholder() {
        const NOW: i64 = 1_800_000_000_000;
        let mut known = Known::new(9099, WallTime(NOW));
        known.version = 7;
        let id = Uuid::from_random(1, 2);
        known.learn_topic(id, "made-v7");
        known.learn(&Tree::Struct(vec![("producer_id".to_owned(), Tree::Atom("4000".to_owned()))]));
        let atom = |value: &dyn std::fmt::Display| Tree::Atom(value.to_string());
        let text = |value: &str| Tree::Text(value.to_owned());
        for (field, value, shown) in [
            ("topic_id", atom(&id), "<made-v#>"),
            ("topic_id", atom(&Uuid::ZERO), "0"),
            ("topic_id", atom(&Uuid::from_random(3, 4)), "<unknown>"),
            ("port", atom(&9099), "<port>"),
            ("port", atom(&-1), "-1"),
            ("producer_id", atom(&4000), "<first producer>"),
            ("producer_id", atom(&-1), "-1"),
            ("timestamp", atom(&(NOW - 3_600_000 + 5)), "<T+5>"),
            ("timestamp", atom(&(NOW + 9)), "<now>"),
            ("timestamp", atom(&-1), "-1"),
            ("session_id", atom(&77), "<session_id>"),
            ("session_id", atom(&0), "0"),
            ("cluster_id", text("abc"), "<cluster_id>"),
            ("error_code", atom(&"None"), "None"),
            ("name", text("made-v7 made-v77"), "\"made-v# made-v77\""),
            ("value", text("PLAINTEXT://127.0.0.1:9099"), "\"PLAINTEXT://127.0.0.1:<port>\""),
            ("error_message", text("at 1800000000000, not 12"), "\"at <n>, not 12\""),
            ("error_message", Tree::Null, "null"),
        ] {
            assert_eq!(known.show(field, &value), shown, "{field}");
        }
    }
}
