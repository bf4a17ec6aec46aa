//! The script: every served API at every version, and the errors that a client can provoke, on a state that it makes itself.
//!
//! The order matters. [`setup`] makes the topics and records; what lists all topics comes before steps make more; coordinators, which
//! bring topics of their own in Kafka, come last. A name is never used for two topics.

mod cluster;
mod configs;
mod consumer_groups;
mod coordinators;
mod fetch;
mod frames;
mod groups;
mod metadata;
mod offsets;
mod produce;
mod producers;
mod records;
mod setup;
mod topics;

use crate::step::Step;

/// The topic whose changes tell the run that earlier ones are applied.
pub const FENCE: &str = "fence";

/// Every step, in order.
#[must_use]
pub fn steps() -> Vec<Step> {
    let groups = [
        cluster::steps(),
        setup::steps(),
        metadata::all(),
        cluster::all(),
        fetch::steps(),
        offsets::steps(),
        metadata::steps(),
        topics::steps(),
        configs::steps(),
        produce::steps(),
        producers::steps(),
        frames::steps(),
        coordinators::steps(),
        groups::steps(),
        consumer_groups::steps(),
    ];
    groups.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::known::Known;
    use crate::step::At;
    use crate::tree::Tree;

    #[test]
    fn every_request_can_be_written_at_each_of_its_versions() {
        let mut known = Known::new(9092, base::WallTime(1_800_000_000_000));
        known.learn(&Tree::Struct(vec![("producer_id".to_owned(), Tree::Atom("0".to_owned()))]));
        for step in super::steps() {
            for version in step.versions.clone() {
                known.version = version;
                assert!(!step.encode(&At::new(&known)).is_empty(), "{} at version {version}", step.name);
            }
        }
    }

    #[test]
    fn every_step_has_a_name_of_its_own() {
        let names: Vec<&str> = super::steps().iter().map(|step| step.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
    }
}
