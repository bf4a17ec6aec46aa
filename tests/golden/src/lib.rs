//! Golden answers: one script of requests, put to Apache Kafka 4.4 and to Tidemill, and their answers compared field by field.
//!
//! [`script`] sends every API that Tidemill serves at every version, and what a client can do wrong. [`run`] puts it to a broker, [`tree`]
//! and [`fields`] turn each answer into lines, [`known`] shows what no two runs share as placeholders, [`recording`] is the text of it
//! all, and [`differences`] holds that two recordings differ by exactly what `differences.toml` lists, each with its reason.
//!
//! `kafka-4.4.txt` is what Kafka answered, `tidemill.txt` what Tidemill answers: a change of an answer is a change of that file, made by
//!
//! ```text
//! cargo run -p golden -- record kafka      # needs Java: see scripts/peers/kafka
//! cargo run -p golden -- record tidemill   # the release binary, or the one that TIDEMILL names
//! cargo run -p golden -- compare           # what differs and is not listed, or is listed and does not differ
//! ```

use std::path::PathBuf;

pub mod connection;
pub mod differences;
pub mod fields;
pub mod known;
pub mod peers;
pub mod recording;
pub mod run;
pub mod script;
pub mod step;
pub mod tree;

/// A file beside this crate's manifest.
#[must_use]
pub fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

pub const KAFKA: &str = "kafka-4.4.txt";
pub const TIDEMILL: &str = "tidemill.txt";
pub const DIFFERENCES: &str = "differences.toml";
