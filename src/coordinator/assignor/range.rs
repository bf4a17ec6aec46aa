//! The range assignor: each reader of a topic has a run of neighbours, and topics that the same members read are cut at the same places, so
//! that records of one key in several topics come to one member.
//!
//! Where a run may lie follows from the order of the members alone, so being sticky means to choose the order well: members stay in the order
//! in which they have their partitions, and newcomers step in where the others keep most.

use std::collections::BTreeMap;
use std::ops::Range;

use base::Uuid;

use super::{Partitions, Subscriber, TopicSizes, partitions_of};

/// Shares for the members, in their order.
pub fn assign(members: &[Subscriber<'_>], topics: &TopicSizes) -> Vec<Partitions> {
    let mut shares = vec![Partitions::new(); members.len()];
    for (readers, topics) in by_readers(members, topics) {
        // The others are cut as the largest is.
        let guide = topics.iter().max_by_key(|(topic, size)| (*size, std::cmp::Reverse(*topic)));
        let (guide, size) = guide.expect("readers are readers of something");
        let order = order(members, &readers, *guide, *size);
        for (topic, size) in &topics {
            for (place, member) in order.iter().enumerate() {
                let run = run(place, order.len(), *size);
                shares[*member].extend(partitions_of(*topic, run.end).skip(run.start as usize));
            }
        }
    }
    shares
}

/// The topics that the same members read, by those.
fn by_readers(members: &[Subscriber<'_>], topics: &TopicSizes) -> BTreeMap<Vec<usize>, Vec<(Uuid, i32)>> {
    let mut readers: BTreeMap<Uuid, Vec<usize>> = BTreeMap::new();
    for (place, member) in members.iter().enumerate() {
        for topic in member.topics.iter().filter(|topic| topics.contains_key(topic)) {
            readers.entry(*topic).or_default().push(place);
        }
    }
    let mut sets: BTreeMap<Vec<usize>, Vec<(Uuid, i32)>> = BTreeMap::new();
    for (topic, readers) in readers {
        sets.entry(readers).or_default().push((topic, topics[&topic]));
    }
    sets
}

/// The partitions of a topic that are one member's, at its place among so many: all have as many, the first ones one more.
pub(super) fn run(place: usize, members: usize, size: i32) -> Range<i32> {
    let (place, members) = (place as i32, members as i32);
    let (quotient, extras) = (size / members, size % members);
    let start = place * quotient + place.min(extras);
    start..start + quotient + i32::from(place < extras)
}

/// The order of the readers in which most partitions of the guide stay where they are.
///
/// `best[known][new]` is how many stay with the first so many of either kind in their places, whichever way they are mixed: the last of them is
/// of one kind or the other.
fn order(members: &[Subscriber<'_>], readers: &[usize], guide: Uuid, size: i32) -> Vec<usize> {
    let of_guide = |member: usize| {
        let is_guide = |id: &&storage::LogId| id.topic_id == guide && id.partition.0 < size;
        members[member].target.iter().filter(is_guide).map(|id| id.partition.0).collect::<Vec<_>>()
    };
    let (mut known, mut new) = (Vec::new(), Vec::new());
    for member in readers {
        let owned = of_guide(*member);
        if owned.is_empty() { new.push(*member) } else { known.push((owned, *member)) }
    }
    known.sort();
    let stays = |owned: &[i32], place: usize| {
        let run = run(place, readers.len(), size);
        owned.partition_point(|index| *index < run.end) - owned.partition_point(|index| *index < run.start)
    };
    let mut best = vec![vec![0; new.len() + 1]; known.len() + 1];
    for count in 1..=known.len() {
        for newcomers in 0..=new.len() {
            let known_last = best[count - 1][newcomers] + stays(&known[count - 1].0, count - 1 + newcomers);
            let new_last = if newcomers == 0 { 0 } else { best[count][newcomers - 1] };
            best[count][newcomers] = known_last.max(new_last);
        }
    }
    let (mut count, mut newcomers) = (known.len(), new.len());
    let mut order = Vec::with_capacity(readers.len());
    while count + newcomers > 0 {
        // Newcomers are behind where that is as good.
        if newcomers > 0 && (count == 0 || best[count][newcomers - 1] == best[count][newcomers]) {
            newcomers -= 1;
            order.push(new[newcomers]);
        } else {
            count -= 1;
            order.push(known[count].1);
        }
    }
    order.reverse();
    order
}
