//! Topic policies: a file that declares topics, and the plan that takes a cluster's topics there.
//!
//! All of it is pure: text in, declared topics out; declared and live topics in, a plan out. `tidemill topic apply` is the shell around it.
//!
//! Invariants: whatever the text holds, reading it ends, with memory in proportion to its length and without deep recursion; a key that is
//! not known is refused, never passed over.

mod declared;
mod document;
mod plan;
#[cfg(test)]
mod tests;
mod toml;
mod yaml;

use std::path::Path;

pub use declared::{DeclaredTopic, parse};
pub use document::PolicyError;
pub use plan::{LiveSetting, LiveTopic, Step, TopicPlan, plan};

/// The longest policy file: thousands of topics.
pub const POLICY_BYTES_MAX: usize = 1 << 20;

/// What a policy file is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Syntax {
    /// YAML 1.2: one document, without anchors, aliases and tags.
    Yaml,
    Toml,
}

impl Syntax {
    /// By the file's extension.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "yaml" | "yml" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            _ => None,
        }
    }
}
