//! The topics of the cluster, as coordinators that assign partitions see them.

use base::Uuid;

/// A topic that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopicInfo {
    pub id: Uuid,
    pub partitions: i32,
}

/// All topics at one moment.
pub trait Topics {
    /// Another one whenever a topic has come, gone or grown; maybe also when none has.
    fn version(&self) -> u64;

    fn topic(&self, name: &str) -> Option<TopicInfo>;

    fn name(&self, id: Uuid) -> Option<&str>;

    /// In order.
    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_>;
}
