//! The references in `docs/`, written from the tables that the broker itself reads, so that they can't say anything else.
//!
//! `tests/reference.rs` holds the files to this; `./verify fix` writes them anew.

use std::fmt::Write;

use crate::config::{KEYS, NodeConfig, SETTINGS};
use crate::observe::FAMILIES;

/// One file of the reference: where it lies, and what is to stand in it.
pub struct Page {
    pub path: &'static str,
    pub text: String,
}

/// Every generated page.
#[must_use]
pub fn pages() -> Vec<Page> {
    vec![
        Page { path: "docs/CONFIGURATION.md", text: configuration() },
        Page { path: "docs/METRICS.md", text: metrics() },
    ]
}

fn configuration() -> String {
    let mut text = String::from(
        "# Configuration\n\n\
         Written from the tables in the code by `./verify fix`; `tidemill config show` prints the same for a file of yours.\n\n\
         ## The node\n\n\
         One TOML file, given with `serve --config FILE` and read once; options of `serve` come on top. An unknown key or a value out of\n\
         bounds keeps the broker from starting; `tidemill config check --config FILE` tells before.\n\n\
         | key | default | bounds | meaning |\n| --- | --- | --- | --- |\n",
    );
    let defaults = NodeConfig::default();
    for key in KEYS {
        let value = key.value(&defaults);
        let value = if value.is_empty() { "unset".to_owned() } else { format!("`{value}`") };
        row(&mut text, &[&format!("`{}`", key.name), &value, key.bounds, key.doc]);
    }
    text.push_str(
        "\n## Topics\n\n\
         Kafka's names. They are given when a topic is created (`topic create --config KEY=VALUE`) and altered while it is used\n\
         (`topic alter`, or any Kafka client).\n\n\
         | setting | default | meaning |\n| --- | --- | --- |\n",
    );
    for setting in SETTINGS {
        let value = setting.default_value().filter(|value| !value.is_empty());
        let value = value.map_or_else(|| "unset".to_owned(), |value| format!("`{value}`"));
        row(&mut text, &[&format!("`{}`", setting.name), &value, setting.doc]);
    }
    text
}

fn metrics() -> String {
    let mut text = String::from(
        "# Metrics\n\n\
         Written from the table in the code by `./verify fix`. `GET /metrics` on the HTTP port tells them in Prometheus' text format 0.0.4.\n\
         Each shard counts its own, without a lock; sum over `shard` for the broker. Counters begin with the process. Buckets of\n\
         histograms are powers of two and one and a half times those.\n\n\
         | metric | kind | labels | meaning |\n| --- | --- | --- | --- |\n",
    );
    for family in FAMILIES {
        let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        row(&mut text, &[&format!("`{}`", family.name), family.kind.name(), &labels.join(", "), family.help]);
    }
    text
}

fn row(text: &mut String, cells: &[&str]) {
    for cell in cells {
        write!(text, "| {} ", cell.replace('|', "\\|")).expect("a String takes everything");
    }
    text.push_str("|\n");
}
