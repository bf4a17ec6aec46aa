//! The range assignor, as every Kafka client has it: of each topic, members in the order of their ids get runs of partitions of almost equal
//! length. Pure.

use std::collections::{BTreeMap, BTreeSet};

use base::PartitionIndex;

/// What a member says that it reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscriber {
    pub member_id: String,
    /// Static members keep their order, whatever ids they get.
    pub instance_id: Option<String>,
    pub topics: BTreeSet<String>,
}

/// Of each member, by its id: the partitions of each topic.
pub type Shares = BTreeMap<String, BTreeMap<String, Vec<PartitionIndex>>>;

/// Shares the partitions of all topics out; a topic that is not in `counts` has none.
#[must_use]
pub fn range(subscribers: &[Subscriber], counts: &BTreeMap<String, usize>) -> Shares {
    let mut shares: Shares =
        subscribers.iter().map(|subscriber| (subscriber.member_id.clone(), BTreeMap::new())).collect();
    for (topic, count) in counts {
        let mut readers: Vec<&Subscriber> =
            subscribers.iter().filter(|subscriber| subscriber.topics.contains(topic)).collect();
        // Static members first, by instance, then the others by id.
        readers.sort_by_key(|reader| (reader.instance_id.is_none(), reader.instance_id.as_ref(), &reader.member_id));
        let mut partitions = (0..).map(PartitionIndex).take(*count);
        for (place, reader) in readers.iter().enumerate() {
            let run = count / readers.len() + usize::from(place < count % readers.len());
            let run: Vec<_> = partitions.by_ref().take(run).collect();
            if !run.is_empty() {
                shares.entry(reader.member_id.clone()).or_default().insert(topic.clone(), run);
            }
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Subscriber, range};

    #[test]
    fn runs_of_each_topic_differ_by_one_at_most() {
        let subscriber = |id: &str, instance: Option<&str>, topics: &[&str]| Subscriber {
            member_id: id.into(),
            instance_id: instance.map(str::to_owned),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        };
        let members = [
            subscriber("c", None, &["t", "u"]),
            subscriber("a", None, &["t"]),
            subscriber("b", None, &["t", "none"]),
            subscriber("z", Some("first"), &["u"]),
        ];
        let counts = BTreeMap::from([("t".to_owned(), 7), ("u".to_owned(), 1)]);
        let shares = range(&members, &counts);
        let of = |member: &str| -> Vec<(&str, Vec<i32>)> {
            let topics = shares[member].iter();
            topics.map(|(topic, run)| (topic.as_str(), run.iter().map(|index| index.0).collect())).collect()
        };
        assert_eq!(of("a"), [("t", vec![0, 1, 2])]);
        assert_eq!(of("b"), [("t", vec![3, 4])]);
        assert_eq!(of("c"), [("t", vec![5, 6])]);
        assert_eq!(of("z"), [("u", vec![0])], "it has an instance's name");
    }
}
