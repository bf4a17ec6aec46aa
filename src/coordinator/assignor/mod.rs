//! How partitions are shared out among the members of a group on the broker (KIP-848). Pure: members and topics in, a target for each member out.
//!
//! Invariants, for either assignor
//! - Each partition of a topic that somebody reads is in the target of exactly one of its readers; nothing else is in any.
//! - The same input has the same output, whatever the order of the members.
//! - What stays fair where it is stays there.

mod range;
#[cfg(test)]
mod tests;
mod uniform;

use std::collections::{BTreeMap, BTreeSet};

use base::{PartitionIndex, Uuid};
use storage::LogId;

/// Partitions, by topic id and index.
pub type Partitions = BTreeSet<LogId>;

/// How many partitions each topic has.
pub type TopicSizes = BTreeMap<Uuid, i32>;

/// A member as an assignor sees it.
#[derive(Clone, Copy, Debug)]
pub struct Subscriber<'a> {
    pub member_id: &'a str,
    /// What it reads. A topic without a size is passed over.
    pub topics: &'a BTreeSet<Uuid>,
    /// What it was to have so far.
    pub target: &'a Partitions,
}

/// The assignors that members may ask for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Assignor {
    /// As many partitions for each, over all topics; any partition may be with anybody.
    #[default]
    Uniform,
    /// Neighbours of a topic together, and the same indexes of topics that are read by the same members.
    Range,
}

impl Assignor {
    pub const ALL: [Self; 2] = [Self::Uniform, Self::Range];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|assignor| assignor.name() == name)
    }

    /// The target of each member, by its id.
    #[must_use]
    pub fn assign<'a>(self, members: &[Subscriber<'a>], topics: &TopicSizes) -> BTreeMap<&'a str, Partitions> {
        let mut members = members.to_vec();
        members.sort_by_key(|member| member.member_id);
        let shares = match self {
            Self::Uniform => uniform::assign(&members, topics),
            Self::Range => range::assign(&members, topics),
        };
        members.iter().map(|member| member.member_id).zip(shares).collect()
    }
}

/// The partitions of a topic.
fn partitions_of(topic_id: Uuid, size: i32) -> impl Iterator<Item = LogId> {
    (0..size).map(move |index| LogId { topic_id, partition: PartitionIndex(index) })
}
