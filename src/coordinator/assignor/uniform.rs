//! The uniform assignor: loads as equal as subscriptions allow, with as few partitions moved as that takes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::Uuid;
use storage::LogId;

use super::{Partitions, Subscriber, TopicSizes, partitions_of};

/// Shares for the members, in their order.
pub fn assign(members: &[Subscriber<'_>], topics: &TopicSizes) -> Vec<Partitions> {
    let Some(first) = members.first() else { return Vec::new() };
    if members.iter().all(|member| member.topics == first.topics) {
        share_evenly(members, topics)
    } else {
        Shares::kept(members, topics).handed_out(topics).balanced().of_each()
    }
}

/// All read the same: each has the quotient of partitions by members, and as many as the remainder says have one more. Members that have more
/// than the quotient are the first to have that one, so nobody gives up more than he must.
fn share_evenly(members: &[Subscriber<'_>], topics: &TopicSizes) -> Vec<Partitions> {
    let all: Partitions = members[0]
        .topics
        .iter()
        .filter_map(|topic| Some(partitions_of(*topic, *topics.get(topic)?)))
        .flatten()
        .collect();
    let quotient = all.len() / members.len();
    let mut extras = all.len() % members.len();
    let mut free = all.clone();
    let mut room = vec![0; members.len()];
    let mut shares: Vec<Partitions> = Vec::with_capacity(members.len());
    for (room, member) in room.iter_mut().zip(members) {
        let owned: Vec<LogId> = member.target.iter().filter(|id| free.contains(id)).copied().collect();
        let mut quota = quotient;
        if owned.len() > quotient && extras > 0 {
            quota += 1;
            extras -= 1;
        }
        let share = thinned(&owned, quota);
        share.iter().for_each(|id| _ = free.remove(id));
        *room = quota - share.len();
        shares.push(share);
    }
    // Who has one more by now has it from above: the others that get one had no more than the quotient.
    for (room, share) in room.iter_mut().zip(&shares) {
        if extras > 0 && share.len() + *room == quotient {
            *room += 1;
            extras -= 1;
        }
    }
    // In turn, so that the partitions of one topic spread.
    let mut next = 0;
    for id in free {
        while room[next] == 0 {
            next = (next + 1) % members.len();
        }
        room[next] -= 1;
        shares[next].insert(id);
        next = (next + 1) % members.len();
    }
    shares
}

/// At most so many, from all over, so that what is given up is not all of one topic.
fn thinned(owned: &[LogId], count: usize) -> Partitions {
    if owned.len() <= count {
        return owned.iter().copied().collect();
    }
    (0..count).map(|place| owned[place * owned.len() / count]).collect()
}

/// Shares while they are balanced among members that read different topics; members by their place.
struct Shares {
    readers: BTreeMap<Uuid, Vec<usize>>,
    owned: Vec<BTreeMap<Uuid, BTreeSet<LogId>>>,
    load: Vec<usize>,
}

/// How a partition comes from one member to another: over these members, with a partition of the topic at each step.
type Path = Vec<(usize, Uuid, usize)>;

impl Shares {
    /// What members have and still read.
    fn kept(members: &[Subscriber<'_>], topics: &TopicSizes) -> Self {
        let mut readers: BTreeMap<Uuid, Vec<usize>> = BTreeMap::new();
        for (place, member) in members.iter().enumerate() {
            for topic in member.topics.iter().filter(|topic| topics.contains_key(topic)) {
                readers.entry(*topic).or_default().push(place);
            }
        }
        let mut shares = Self { readers, owned: vec![BTreeMap::new(); members.len()], load: vec![0; members.len()] };
        let mut taken = Partitions::new();
        for (place, member) in members.iter().enumerate() {
            let is_kept = |id: &&LogId| {
                let size = topics.get(&id.topic_id).copied().unwrap_or(0);
                (0..size).contains(&id.partition.0) && member.topics.contains(&id.topic_id)
            };
            for id in member.target.iter().filter(is_kept) {
                if taken.insert(*id) {
                    shares.give(place, *id);
                }
            }
        }
        shares
    }

    fn give(&mut self, place: usize, id: LogId) {
        self.owned[place].entry(id.topic_id).or_default().insert(id);
        self.load[place] += 1;
    }

    /// What nobody has goes to the reader that has the least; topics that few read come first, as there is less choice.
    fn handed_out(mut self, topics: &TopicSizes) -> Self {
        let mut by_readers: Vec<(usize, Uuid)> =
            self.readers.iter().map(|(topic, readers)| (readers.len(), *topic)).collect();
        by_readers.sort_unstable();
        for (_, topic) in by_readers {
            let readers = self.readers[&topic].clone();
            let taken: Partitions =
                readers.iter().filter_map(|place| self.owned[*place].get(&topic)).flatten().copied().collect();
            for id in partitions_of(topic, topics[&topic]).filter(|id| !taken.contains(id)) {
                let least = readers.iter().min_by_key(|place| (self.load[**place], **place));
                self.give(*least.expect("a topic that is read has a reader"), id);
            }
        }
        self
    }

    /// Moves partitions until no chain of moves makes loads more equal. Then the loads are as equal as they can be: this is the semi-matching of
    /// Harvey, Ladner, Lovász and Tamir (2006), which is optimal if and only if it has no such chain.
    fn balanced(mut self) -> Self {
        loop {
            let mut has_moved = false;
            let mut heaviest_first: Vec<usize> = (0..self.load.len()).collect();
            heaviest_first.sort_by_key(|place| (std::cmp::Reverse(self.load[*place]), *place));
            let mut is_done = vec![false; self.load.len()];
            for place in heaviest_first {
                while !is_done[place] {
                    match self.relief(place) {
                        Ok(path) => {
                            self.pass_along(&path);
                            has_moved = true;
                        }
                        // Whom a member can't relieve itself to can't either, unless it is heavier.
                        Err(reached) => {
                            let load = self.load[place];
                            reached.into_iter().filter(|other| self.load[*other] <= load).for_each(|other| {
                                is_done[other] = true;
                            });
                        }
                    }
                }
            }
            if !has_moved {
                return self;
            }
        }
    }

    /// The shortest way from a member to one that has at least two partitions less; without one, all members there is a way to.
    fn relief(&self, from: usize) -> Result<Path, Vec<usize>> {
        let mut came_by: BTreeMap<usize, (usize, Uuid)> = BTreeMap::new();
        let mut seen_topics: BTreeSet<Uuid> = BTreeSet::new();
        let mut queue = VecDeque::from([from]);
        let mut reached = vec![from];
        while let Some(giver) = queue.pop_front() {
            let mut lightest: Option<usize> = None;
            for topic in self.owned[giver].keys().filter(|topic| seen_topics.insert(**topic)) {
                for taker in &self.readers[topic] {
                    if *taker == from || came_by.contains_key(taker) {
                        continue;
                    }
                    came_by.insert(*taker, (giver, *topic));
                    queue.push_back(*taker);
                    reached.push(*taker);
                    if lightest.is_none_or(|lightest| self.load[*taker] < self.load[lightest]) {
                        lightest = Some(*taker);
                    }
                }
            }
            if let Some(mut taker) = lightest.filter(|lightest| self.load[*lightest] + 2 <= self.load[from]) {
                let mut path = Path::new();
                while let Some((giver, topic)) = came_by.get(&taker) {
                    path.push((*giver, *topic, taker));
                    taker = *giver;
                }
                return Ok(path);
            }
        }
        Err(reached)
    }

    fn pass_along(&mut self, path: &Path) {
        for (giver, topic, taker) in path {
            let of_topic = self.owned[*giver].get_mut(topic).expect("a giver has a partition of the topic");
            let id = of_topic.pop_last().expect("a topic is there only with its partitions");
            if of_topic.is_empty() {
                self.owned[*giver].remove(topic);
            }
            self.load[*giver] -= 1;
            self.give(*taker, id);
        }
    }

    fn of_each(self) -> Vec<Partitions> {
        self.owned.into_iter().map(|topics| topics.into_values().flatten().collect()).collect()
    }
}
