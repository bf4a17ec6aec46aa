use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use base::Random;

use super::{DeclaredTopic, LiveSetting, LiveTopic, POLICY_BYTES_MAX, Step, Syntax, TopicPlan, parse, plan};

/// Declared topics as a line each: `name partitions=… copies=… setting=value … reset …`.
fn shown(topics: &[DeclaredTopic]) -> Vec<String> {
    topics
        .iter()
        .map(|topic| {
            let mut line = topic.name.clone();
            topic.partitions.iter().for_each(|count| write!(line, " partitions={count}").unwrap());
            topic.replication_factor.iter().for_each(|count| write!(line, " copies={count}").unwrap());
            topic.settings.iter().for_each(|(name, value)| write!(line, " {name}={value}").unwrap());
            topic.reset.iter().for_each(|name| write!(line, " reset {name}").unwrap());
            line
        })
        .collect()
}

/// What a text declares, or what is wrong with it.
fn read(syntax: Syntax, text: &str) -> Result<Vec<String>, String> {
    parse(syntax, text).map(|topics| shown(&topics)).map_err(|error| error.to_string())
}

fn refused(syntax: Syntax, text: &str, line: Option<usize>, word: &str) {
    let start: String = text.chars().take(60).collect();
    let error = parse(syntax, text).expect_err(&start);
    assert_eq!(error.line, line, "{start}: {error}");
    assert!(error.what.contains(word), "{start}: {error}");
    assert!(error.what.len() < 1000, "{start}: a message of {} bytes", error.what.len());
}

const EVERYTHING: &str = "orders partitions=6 copies=3 cleanup.policy=delete compression.type=producer \
                          delivery.contract=at least once, in order of the key key.schema=orders-key:1 min.insync.replicas=2 \
                          preallocate=false retention.ms=604800000 retention.topic.bytes=-1 value.schema=orders-value:3 \
                          reset segment.bytes reset segment.ms";

const YAML: &str = r#"
# Orders, as the shop places them.
name: orders
partitions: 6
replication_factor: 3
min_insync_replicas: 2
cleanup_policy: [delete]
retention_ms: 604800000
retention_topic_bytes: -1
compression: producer
preallocate: False
key_schema: orders-key:1
value_schema: "orders-value:3"
delivery_contract: >-
  at least once,
  in order of the key
reset: [segment_ms, segment_bytes]
"#;

const TOML: &str = r#"
name = "orders"
partitions = 6
replication_factor = 3
min_insync_replicas = 2
cleanup_policy = ["delete"]
retention_ms = 604_800_000
retention_topic_bytes = -1
compression = "producer"
preallocate = false
key_schema = "orders-key:1"
value_schema = 'orders-value:3'
delivery_contract = """at least once, \
    in order of the key"""
reset = ["segment_ms", "segment_bytes"]
"#;

#[test]
fn one_topic_stands_by_itself() {
    assert_eq!(read(Syntax::Yaml, YAML), Ok(vec![EVERYTHING.to_owned()]));
    assert_eq!(read(Syntax::Toml, TOML), Ok(vec![EVERYTHING.to_owned()]));
}

#[test]
fn many_topics_are_a_list() {
    let expected = Ok(vec!["b partitions=2".to_owned(), "a compression.type=producer".to_owned(), "c".to_owned()]);
    let yaml = "topics:\n  - name: b\n    partitions: 2\n  - {name: a, compression_type: producer}\n  - name: 'c'\n";
    assert_eq!(read(Syntax::Yaml, yaml), expected);
    let toml = "[[topics]]\nname = 'b'\npartitions = 2\n[[topics]]\nname = 'a'\ncompression_type = 'producer'\n[[topics]]\nname = 'c'";
    assert_eq!(read(Syntax::Toml, toml), expected);
    let inline = "topics = [{name = 'b', partitions = 2}, {name = 'a', compression = 'producer'}, {name = 'c'}]";
    assert_eq!(read(Syntax::Toml, inline), expected);
}

#[test]
fn values_are_taken_in_any_friendly_form() {
    for (yaml, expected) in [
        ("partitions: '6'", "t partitions=6"),
        ("retention_ms: ' 05 '", "t retention.ms=05"),
        ("reset: segment_ms", "t reset segment.ms"),
        ("reset: []", "t"),
        ("cleanup_policy: delete", "t cleanup.policy=delete"),
        ("key_schema: 1.0", "t key.schema=1.0"),
        ("key_schema: 'null'", "t key.schema=null"),
        ("key_schema: 鍵", "t key.schema=鍵"),
        ("flush_messages: 1", "t flush.messages=1"),
    ] {
        assert_eq!(read(Syntax::Yaml, &format!("name: t\n{yaml}\n")), Ok(vec![expected.to_owned()]), "{yaml}");
        assert_eq!(
            read(Syntax::Yaml, &format!("\u{feff}name: t\r\n{yaml}\r\n")),
            Ok(vec![expected.to_owned()]),
            "{yaml}"
        );
    }
    for (toml, expected) in [
        ("partitions = 0x10", "t partitions=16"),
        ("partitions = '6'", "t partitions=6"),
        ("key_schema = 1.0", "t key.schema=1.0"),
        ("key_schema = 1979-05-27", "t key.schema=1979-05-27"),
        ("flush_ms = 1", "t flush.ms=1"),
    ] {
        assert_eq!(read(Syntax::Toml, &format!("name = 't'\n{toml}\n")), Ok(vec![expected.to_owned()]), "{toml}");
    }
}

#[test]
fn a_policy_is_a_topic_or_a_list_of_topics() {
    for (text, line, word) in [
        ("", None, "no topic"),
        ("# nothing\n", None, "no topic"),
        ("topics: []", None, "no topic"),
        ("{}", None, "no topic"),
        ("- name: t", Some(1), "a list of `topics`, not a list"),
        ("orders", Some(1), "not a single value"),
        ("topics:\n  name: t", Some(1), "takes a list, not a table"),
        ("topics:\n", Some(1), "takes a list, not nothing"),
        ("topics:\n  - orders", Some(2), "a table with its `name`"),
        ("partitions: 3\ntopics:\n  - name: t", Some(1), "`partitions` beside `topics`"),
        ("topics:\n  - name: t\ntopics:\n  - name: u", Some(3), "must stand alone"),
        ("topics:\n  - partitions: 3\n", Some(2), "without `name`"),
    ] {
        refused(Syntax::Yaml, text, line, word);
    }
}

#[test]
fn values_are_checked() {
    for (text, line, word) in [
        ("name: t\npartitions: 0", Some(2), "from 1 up, not `0`"),
        ("name: t\npartitions: many", Some(2), "from 1 up, not `many`"),
        ("name: t\npartitions: [3]", Some(2), "takes a single value, not a list"),
        ("name: t\npartitions: 99999999999", Some(2), "from 1 up"),
        ("name: t\nreplication_factor: 40000", Some(2), "from 1 up"),
        ("name: t\nreplication_factor: 1.5", Some(2), "from 1 up"),
        ("name: t\nretention_ms:", Some(2), "under `reset`"),
        ("name: t\nretention_ms: ~", Some(2), "without the line"),
        ("name: t\nretention_ms: -2", Some(2), "at least -1"),
        ("name: t\nretention_ms: 7d", Some(2), "whole number"),
        ("name: t\nretention_ms: {days: 7}", Some(2), "not a table"),
        ("name: t\ncleanup_policy: [[delete]]", Some(2), "lists a list"),
        ("name: t\npreallocate: true", Some(2), "preallocate"),
        ("name: t\nkey_schema: ''", Some(2), "not be empty"),
        ("name: t\nkey_schema: |\n  two\n  lines", Some(2), "one line"),
    ] {
        refused(Syntax::Yaml, text, line, word);
    }
}

#[test]
fn keys_are_known_and_given_once() {
    for (text, line, word) in [
        ("name: t\nretention_m: 5", Some(2), "is `retention_ms` meant?"),
        ("name: t\nretention.ms: 5", Some(2), "is `retention_ms` meant?"),
        ("name: t\npartition: 5", Some(2), "is `partitions` meant?"),
        ("name: t\ntopic: 5", Some(2), "is `topics` meant?"),
        ("name: t\nno_such_thing_at_all: 5", Some(2), "by Kafka's names"),
        ("name: t\nlocal_retention_ms: 5", Some(2), "not served"),
        ("name: t\nreset: [no_such_thing_at_all]", Some(2), "not known"),
        ("name: t\nreset: [partitions]", Some(2), "`partitions` is not known here"),
        ("name: t\nreset:\n  - [retention_ms]", Some(3), "lists a list"),
        ("name: t\nretention_ms: 5\nreset: [retention_ms]", Some(3), "both"),
        ("name: t\nretention_ms: 5\nretention_ms: 6", Some(3), "in line 2 already"),
        ("name: t\ncompression: producer\ncompression_type: producer", Some(3), "in line 2 already"),
        ("name: t\nname: u", Some(2), "in line 1 already"),
        ("name: a/b", Some(1), "contains '/'"),
        ("name: ''", Some(1), "name"),
        ("name: [t]", Some(1), "not a list"),
        ("topics:\n- name: t\n- name: u\n- name: t", Some(4), "declared in line 2"),
        ("topics:\n- name: a.b\n- name: a_b", Some(3), "collides with topic a.b of line 2"),
        ("topics:\n- name: t\n  topics: u", Some(3), "`topics` is not known here"),
    ] {
        refused(Syntax::Yaml, text, line, word);
    }
}

#[test]
fn what_a_policy_must_not_have_of_yaml() {
    for (text, line, word) in [
        ("name: t\n  partitions: 3", Some(2), "not allowed"),
        ("name: [t", Some(2), "expected"),
        ("name: 'orders", Some(1), "unexpected end"),
        ("name: t\n[retention_ms]: 5", Some(2), "a key is a list"),
        ("name: t\n---\nname: u", Some(2), "second document"),
        ("name: !!str t", Some(1), "tag"),
        ("!topic\nname: t", Some(1), "tag"),
        ("name: &name t\nkey_schema: *name", Some(1), "anchor"),
        ("defaults: &d {retention_ms: 5}\ntopics:\n- {<<: *d, name: t}", Some(1), "anchor"),
        ("name: *name", Some(1), "anchor"),
    ] {
        refused(Syntax::Yaml, text, line, word);
    }
}

#[test]
fn toml_is_checked_alike() {
    for (text, line, word) in [
        ("", None, "no topic"),
        ("topics = []", None, "no topic"),
        ("topics = ['orders']", Some(1), "a table with its `name`"),
        ("[topics]\nname = 't'", Some(1), "takes a list, not a table"),
        ("name = 't'\nretention.ms = 5", Some(2), "is `retention_ms` meant?"),
        ("name = 't'\nretention_ms = 5\nretention_ms = 6", Some(3), "duplicate"),
        ("name = 't'\nretention_ms = ", Some(2), "expected"),
        ("name = 't'\nretention_ms = 1e3", Some(2), "whole number"),
        ("name = 't'\nretention_ms = 99999999999999999999", Some(2), "in range"),
        ("name = t", Some(1), "invalid"),
        ("[[topics]]\nname = 't'\n[[topics]]\npartitions = 3", Some(3), "without `name`"),
        ("[[topics]]\nname = 't'\n[topics.inner]\nretention_ms = 3", Some(3), "`inner` is not known"),
        ("[[topics]]\nname = 't'\n[[topics]]\n\nname = 't'", Some(3), "declared in line 1"),
    ] {
        refused(Syntax::Toml, text, line, word);
    }
}

/// Every hostile text is refused, soon and in few words; most before the whole of it is read.
#[test]
fn hostile_files_are_refused() {
    let n = POLICY_BYTES_MAX / 8;
    let (yaml, toml) = (Syntax::Yaml, Syntax::Toml);
    let laughs: String = (1..30).map(|n| format!("a{n}: &a{n} [*a{}, *a{}]\n", n - 1, n - 1)).collect();
    for (syntax, text, line, word) in [
        (yaml, format!("a0: &a0 ha\n{laughs}name: t"), Some(1), "anchor"),
        (yaml, "[".repeat(n), Some(1), "recursion"),
        (yaml, "{a: ".repeat(n), Some(1), "recursion"),
        (yaml, "- ".repeat(n), Some(1), "deeper"),
        (yaml, "? ".repeat(n), Some(1), "deeper"),
        (yaml, "name: [[[[[[t]]]]]]".to_owned(), Some(1), "deeper"),
        (yaml, format!("name: {}", "x".repeat(n)), Some(1), "249 is the most"),
        (yaml, format!("name: t\n{}: 1", "y".repeat(900)), Some(2), "not known"),
        (yaml, format!("name: t\nkey_schema: {}", "x".repeat(n)), Some(2), "bytes"),
        (yaml, format!("name: t\nretention_ms: {}", "9".repeat(n)), Some(2), "bytes"),
        (yaml, format!("name: t\npartitions: {}", "9".repeat(n)), Some(2), "…"),
        (yaml, format!("name: t\ncleanup_policy: [{}]", "a,".repeat(n)), Some(2), "bytes"),
        (yaml, format!("name: t\nreset: [{}]", "retention_mS,".repeat(n / 8)), Some(2), "meant?"),
        (yaml, format!("topics:\n{}", "- name: t\n".repeat(n / 2)), Some(3), "in line 2"),
        (yaml, "---\n".repeat(n), Some(2), "second document"),
        (yaml, "\u{1b}[2J: 1".to_owned(), Some(1), r"`\u{1b}[2J` is not known"),
        (toml, format!("name = {}", "[".repeat(n)), Some(1), "recursion"),
        (toml, format!("name = {}", "{a=".repeat(n)), Some(1), "recursion"),
        (toml, format!("{}a = 1", "a.".repeat(n)), None, "recursion"),
        (toml, format!("[{}a]", "a.".repeat(n)), None, "recursion"),
        (toml, format!("[{}a]", "a.".repeat(20)), Some(1), "deeper"),
        (toml, "topics = [[[[[1]]]]]".to_owned(), Some(1), "deeper"),
        (toml, format!("name = 't'\n{} = 1", "y".repeat(n)), Some(2), "not known"),
        (toml, "[[topics]]\nname = 't'\n".repeat(n / 4), Some(3), "in line 1"),
        (toml, "\0\u{1b}[2J".to_owned(), Some(1), "expected"),
    ] {
        refused(syntax, &text, line, word);
    }
}

/// Whatever becomes of a policy's bytes: reading them ends, and what is refused is refused in few words.
#[test]
fn damaged_files_are_read_to_an_end() {
    const MARKS: &[u8] = b"[]{}:-,#&*!|>'\"%@`?~\n\t =.\\\0";
    let mut random = Random::new(7);
    let mut taken = 0;
    for (syntax, text) in [(Syntax::Yaml, YAML), (Syntax::Toml, TOML)] {
        for _ in 0..3000 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..=random.below(4) {
                let at = usize::try_from(random.below(bytes.len() as u64)).expect("small");
                let other = usize::try_from(random.below(bytes.len() as u64)).expect("small");
                match random.below(4) {
                    0 => bytes[at] = MARKS[other % MARKS.len()],
                    1 => bytes.insert(at, bytes[other]),
                    2 => drop(bytes.drain(at.min(other)..at.max(other))),
                    _ => bytes.rotate_left(at),
                }
                bytes.push(b'\n');
            }
            let text = String::from_utf8(bytes).expect("nothing here is more than ASCII");
            match parse(syntax, &text) {
                Ok(topics) => taken += topics.len(),
                Err(error) => assert!(!error.what.is_empty() && error.what.len() < 1000, "{text}: {error}"),
            }
        }
    }
    assert!(taken > 100, "some damage does no harm: {taken}");
}

#[test]
fn the_extension_tells_the_syntax() {
    for (path, syntax) in [
        ("orders.yaml", Some(Syntax::Yaml)),
        ("dir.toml/orders.yml", Some(Syntax::Yaml)),
        ("orders.toml", Some(Syntax::Toml)),
        ("orders.json", None),
        ("orders", None),
        (".yaml", None),
    ] {
        assert_eq!(Syntax::of(Path::new(path)), syntax, "{path}");
    }
}

/// A topic with 3 partitions, 2 copies, and of its own a retention and a label.
fn live() -> BTreeMap<String, LiveTopic> {
    let setting =
        |name: &str, value: &str, is_own| (name.to_owned(), LiveSetting { value: Some(value.to_owned()), is_own });
    let settings = BTreeMap::from([
        setting("retention.ms", "5", true),
        setting("key.schema", "k:1", true),
        setting("segment.ms", "604800000", false),
        setting("cleanup.policy", "delete", false),
        setting("flush.ms", "9223372036854775807", false),
    ]);
    BTreeMap::from([("t".to_owned(), LiveTopic { partitions: 3, replication_factor: 2, settings })])
}

/// The steps of a plan, each in a few words.
fn steps(plans: &[TopicPlan]) -> Vec<String> {
    let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
    let words = |topic: &str, step: &Step| match step {
        Step::Create { partitions, replication_factor, settings } => {
            format!("{topic}: create {partitions:?} {replication_factor:?} {settings:?}")
        }
        Step::AddPartitions { from, to } => format!("{topic}: partitions {from} -> {to}"),
        Step::Set { setting, from, to } => format!("{topic}: {setting} {} -> {to}", or_none(from)),
        Step::Reset { setting, from, to } => format!("{topic}: reset {setting} {} -> {}", or_none(from), or_none(to)),
        Step::Impossible { what, from, to, reason } => {
            format!("{topic}: impossible {what} {} -> {}, {reason}", or_none(from), or_none(to))
        }
    };
    plans.iter().flat_map(|plan| plan.steps.iter().map(|step| words(&plan.topic, step))).collect()
}

#[test]
fn plans_take_what_is_to_what_is_declared() {
    for (yaml, expected) in [
        ("name: t", &[][..]),
        ("{name: t, partitions: 3, replication_factor: 2, retention_ms: 5, key_schema: 'k:1'}", &[]),
        // Declared as it is by default: nothing to do.
        ("{name: t, segment_ms: 604800000, cleanup_policy: delete}", &[]),
        ("{name: t, reset: [segment_ms, value_schema]}", &[]),
        // Other words for the same.
        ("{name: t, retention_ms: 05, cleanup_policy: [delete], flush_ms: 1}", &[]),
        ("{name: t, partitions: 5}", &["t: partitions 3 -> 5"]),
        ("{name: t, retention_ms: 6}", &["t: retention.ms 5 -> 6"]),
        ("{name: t, segment_ms: 7}", &["t: segment.ms 604800000 -> 7"]),
        ("{name: t, value_schema: 'v:1'}", &["t: value.schema none -> v:1"]),
        ("{name: t, reset: [retention_ms]}", &["t: reset retention.ms 5 -> 604800000"]),
        ("{name: t, reset: [key_schema]}", &["t: reset key.schema k:1 -> none"]),
        ("{name: t, partitions: 2}", &["t: impossible partitions 3 -> 2, their number only grows"]),
        (
            "{name: t, replication_factor: 3, partitions: 4, retention_ms: 6}",
            &[
                "t: impossible replication factor 2 -> 3, the copies of an existing topic can't be changed by a policy",
                "t: partitions 3 -> 4",
                "t: retention.ms 5 -> 6",
            ],
        ),
        ("{name: new, reset: [retention_ms]}", &["new: create None None {}"]),
        (
            "topics: [{name: z, partitions: 6, replication_factor: 1, value_schema: 'v:1'}, {name: t}, {name: a}]",
            &[r#"z: create Some(6) Some(1) {"value.schema": "v:1"}"#, "a: create None None {}"],
        ),
    ] {
        let declared = parse(Syntax::Yaml, yaml).expect(yaml);
        assert_eq!(steps(&plan(&declared, &live())), expected, "{yaml}");
    }
}

/// Whatever is declared: once a plan is carried out there is nothing left to do, and what was not named is as it was.
#[test]
fn a_plan_that_was_carried_out_leaves_nothing_to_do() {
    for yaml in [
        "{name: t, partitions: 9, retention_ms: 6, segment_ms: 7, value_schema: 'v:1', reset: [key_schema]}",
        "{name: new, partitions: 2, replication_factor: 1, retention_ms: 6, reset: [segment_ms]}",
        "topics: [{name: t, reset: [retention_ms]}, {name: new, flush_ms: 3, compression: producer}]",
    ] {
        let declared = parse(Syntax::Yaml, yaml).expect(yaml);
        let mut after = live();
        let plans = plan(&declared, &after);
        assert!(!plans.is_empty(), "{yaml}");
        plans.iter().for_each(|plan| carry_out(&mut after, plan));
        assert_eq!(plan(&declared, &after), [], "{yaml}");
        let named: BTreeSet<&str> = declared[0].settings.keys().chain(&declared[0].reset).copied().collect();
        let untouched = |topics: &BTreeMap<String, LiveTopic>| {
            let mut settings = topics["t"].settings.clone();
            settings.retain(|name, _| !named.contains(name.as_str()));
            settings
        };
        assert_eq!(untouched(&after), untouched(&live()), "{yaml}");
    }
}

fn carry_out(topics: &mut BTreeMap<String, LiveTopic>, plan: &TopicPlan) {
    let topic = topics.entry(plan.topic.clone()).or_default();
    let own = |value: &String| LiveSetting { value: Some(value.clone()), is_own: true };
    for step in &plan.steps {
        match step {
            Step::Create { partitions, replication_factor, settings } => {
                topic.partitions = usize::try_from(partitions.unwrap_or(1)).expect("declared from 1 up");
                topic.replication_factor =
                    usize::try_from(replication_factor.unwrap_or(1)).expect("declared from 1 up");
                topic.settings = settings.iter().map(|(name, value)| ((*name).to_owned(), own(value))).collect();
            }
            Step::AddPartitions { to, .. } => topic.partitions = usize::try_from(*to).expect("declared from 1 up"),
            Step::Set { setting, to, .. } => drop(topic.settings.insert((*setting).to_owned(), own(to))),
            Step::Reset { setting, to, .. } => {
                topic.settings.insert((*setting).to_owned(), LiveSetting { value: to.clone(), is_own: false });
            }
            Step::Impossible { .. } => panic!("nothing here is impossible"),
        }
    }
}
