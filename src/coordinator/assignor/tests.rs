//! Both assignors against what must hold whoever reads what, and against optima that are found in another way.

use std::collections::{BTreeMap, BTreeSet};

use base::{PartitionIndex, Random, Uuid};
use storage::LogId;

use super::{Assignor, Partitions, Subscriber, TopicSizes};

fn topic(number: u8) -> Uuid {
    Uuid([number; 16])
}

fn partition(number: u8, index: i32) -> LogId {
    LogId { topic_id: topic(number), partition: PartitionIndex(index) }
}

/// Members that come and go, with what they read and have.
#[derive(Clone, Default)]
struct Group {
    topics: TopicSizes,
    members: BTreeMap<String, (BTreeSet<Uuid>, Partitions)>,
}

impl Group {
    fn with_topics(sizes: &[i32]) -> Self {
        let topics = sizes.iter().enumerate().map(|(number, size)| (topic(number as u8), *size)).collect();
        Self { topics, members: BTreeMap::new() }
    }

    fn join(&mut self, id: impl Into<String>, topics: impl IntoIterator<Item = u8>) {
        self.members.insert(id.into(), (topics.into_iter().map(topic).collect(), Partitions::new()));
    }

    /// The next target of each.
    fn assigned(&self, assignor: Assignor) -> BTreeMap<String, Partitions> {
        let subscribers: Vec<_> =
            self.members.iter().map(|(id, (topics, target))| Subscriber { member_id: id, topics, target }).collect();
        let shares = assignor.assign(&subscribers, &self.topics);
        let turned: Vec<_> = subscribers.into_iter().rev().collect();
        assert_eq!(assignor.assign(&turned, &self.topics), shares, "whatever the order of the members");
        shares.into_iter().map(|(id, share)| (id.to_owned(), share)).collect()
    }

    /// Takes the next targets; how many partitions stay where they were.
    fn assign(&mut self, assignor: Assignor) -> usize {
        let shares = self.assigned(assignor);
        self.check(&shares);
        let mut stayed = 0;
        for (id, share) in shares {
            let (_, target) = self.members.get_mut(&id).expect("a member");
            stayed += target.intersection(&share).count();
            *target = share;
        }
        stayed
    }

    /// Each partition of a topic that is read has one reader, who reads it.
    fn check(&self, shares: &BTreeMap<String, Partitions>) {
        let mut given = Partitions::new();
        for (id, share) in shares {
            for partition in share {
                assert!(self.members[id].0.contains(&partition.topic_id), "{id} does not read {partition}");
                assert!(given.insert(*partition), "{partition} is given twice");
            }
        }
        assert_eq!(given, self.readable());
    }

    /// All partitions that somebody reads.
    fn readable(&self) -> Partitions {
        let read: BTreeSet<Uuid> = self.members.values().flat_map(|(topics, _)| topics).copied().collect();
        let of = |topic: &Uuid| super::partitions_of(*topic, self.topics.get(topic).copied().unwrap_or(0));
        read.iter().flat_map(of).collect()
    }

    fn loads(&self) -> Vec<usize> {
        self.members.values().map(|(_, target)| target.len()).collect()
    }

    /// Somebody comes or goes, or a topic grows or is gone.
    fn change(&mut self, random: &mut Random, next_id: &mut u32, reads: impl Fn(&mut Random) -> Vec<u8>) {
        match random.below(6) {
            0 | 1 => {
                *next_id += 1;
                // Not in the order in which they come.
                let id = format!("{}-{next_id}", random.below(100));
                let topics = reads(random);
                self.join(id, topics);
            }
            2 if self.members.len() > 1 => {
                let place = random.below(self.members.len() as u64) as usize;
                let id = self.members.keys().nth(place).expect("there are that many").clone();
                self.members.remove(&id);
            }
            3 => {
                let number = random.below(self.topics.len() as u64) as u8;
                *self.topics.entry(topic(number)).or_default() += random.below(3) as i32;
            }
            _ => {}
        }
    }
}

/// How many partitions can stay where all read the same: with loads of q or q + 1, r of the latter, a member keeps at most q, and at most r of
/// those that have more keep one more.
fn can_stay(group: &Group) -> usize {
    let (all, members) = (group.readable().len(), group.members.len());
    let (quotient, extras) = (all / members, all % members);
    let have: Vec<usize> =
        group.members.values().map(|(_, target)| target.intersection(&group.readable()).count()).collect();
    let above = have.iter().filter(|count| **count > quotient).count();
    have.iter().map(|count| (*count).min(quotient)).sum::<usize>() + above.min(extras)
}

#[test]
fn uniform_moves_the_fewest_among_equals() {
    for seed in 0..300 {
        let random = &mut Random::new(seed);
        let sizes: Vec<i32> = (0..1 + random.below(4)).map(|_| random.below(12) as i32).collect();
        let mut group = Group::with_topics(&sizes);
        let mut next_id = 0;
        group.join("first", 0..sizes.len() as u8);
        for _ in 0..30 {
            let can_stay = can_stay(&group);
            assert_eq!(group.assign(Assignor::Uniform), can_stay, "seed {seed}");
            let loads = group.loads();
            let (least, most) = (loads.iter().min().expect("not empty"), loads.iter().max().expect("not empty"));
            assert!(most - least <= 1, "seed {seed}: {loads:?}");
            group.change(random, &mut next_id, |_| (0..sizes.len() as u8).collect());
        }
    }
}

/// The count of the test above, found by trying all ways to share out.
#[test]
fn what_can_stay_is_what_trying_all_finds() {
    fn most(
        group: &Group,
        partitions: &[LogId],
        loads: &mut Vec<usize>,
        limits: (usize, usize, usize),
    ) -> Option<usize> {
        let (quotient, extras, members) = limits;
        let Some((next, rest)) = partitions.split_first() else {
            let fair = loads.iter().filter(|load| **load == quotient + 1).count() == extras
                && loads.iter().all(|load| [quotient, quotient + 1].contains(load));
            return fair.then_some(0);
        };
        (0..members)
            .filter_map(|place| {
                loads[place] += 1;
                let stays = usize::from(group.members.values().nth(place)?.1.contains(next));
                let found = most(group, rest, loads, limits).map(|more| more + stays);
                loads[place] -= 1;
                found
            })
            .max()
    }
    for seed in 0..60 {
        let random = &mut Random::new(seed);
        let mut group = Group::with_topics(&[1 + random.below(4) as i32, random.below(3) as i32]);
        for id in 0..1 + random.below(4) {
            group.join(id.to_string(), [0, 1]);
        }
        let members = group.members.len();
        let all: Vec<LogId> = group.readable().into_iter().collect();
        for id in &all {
            if random.chance(3, 4) {
                let place = random.below(members as u64) as usize;
                group.members.values_mut().nth(place).expect("there are that many").1.insert(*id);
            }
        }
        let limits = (all.len() / members, all.len() % members, members);
        assert_eq!(most(&group, &all, &mut vec![0; members], limits), Some(can_stay(&group)), "seed {seed}");
    }
}

/// The sum of the squares of the loads is the least there is, found by trying all ways to share out.
#[test]
fn uniform_is_as_even_as_subscriptions_allow() {
    fn least(readers: &[Vec<usize>], loads: &mut Vec<usize>) -> usize {
        let Some((next, rest)) = readers.split_first() else { return loads.iter().map(|load| load * load).sum() };
        let try_one = |place: &usize| {
            loads[*place] += 1;
            let found = least(rest, loads);
            loads[*place] -= 1;
            found
        };
        next.iter().map(try_one).min().expect("a topic that is read has a reader")
    }
    for seed in 0..200 {
        let random = &mut Random::new(seed);
        let mut group = Group::with_topics(&[2, 1, 2, 1, 1]);
        let reads = |random: &mut Random| (0..5).filter(|_| random.chance(1, 2)).collect::<Vec<u8>>();
        let mut next_id = 0;
        for _ in 0..8 {
            while group.members.len() > 4 {
                group.members.pop_first();
            }
            if !group.members.is_empty() {
                group.assign(Assignor::Uniform);
                let readers = |id: &LogId| {
                    let members = group.members.values().enumerate();
                    members.filter(|(_, (topics, _))| topics.contains(&id.topic_id)).map(|(place, _)| place).collect()
                };
                let readers: Vec<Vec<usize>> = group.readable().iter().map(readers).collect();
                if readers.len() <= 8 {
                    let squares = group.loads().iter().map(|load| load * load).sum::<usize>();
                    let least = least(&readers, &mut vec![0; group.members.len()]);
                    assert_eq!(squares, least, "seed {seed}: {:?}", group.loads());
                }
                let before = group.assigned(Assignor::Uniform);
                let kept = before.iter().all(|(id, share)| group.members[id].1 == *share);
                assert!(kept, "seed {seed}: nothing has changed, and something moves");
            }
            group.change(random, &mut next_id, reads);
        }
    }
}

#[test]
fn range_gives_runs_and_cuts_alike() {
    for seed in 0..200 {
        let random = &mut Random::new(seed);
        let mut group = Group::with_topics(&[9, 9, 4, 0]);
        let mut next_id = 0;
        group.join("first", 0..4);
        for _ in 0..20 {
            group.assign(Assignor::Range);
            for (topics, target) in group.members.values() {
                for topic in topics {
                    let indexes: Vec<i32> =
                        target.iter().filter(|id| id.topic_id == *topic).map(|id| id.partition.0).collect();
                    assert!(indexes.windows(2).all(|pair| pair[0] + 1 == pair[1]), "seed {seed}: {indexes:?}");
                }
            }
            let of = |target: &Partitions, number: u8| -> Vec<i32> {
                target.iter().filter(|id| id.topic_id == topic(number)).map(|id| id.partition.0).collect()
            };
            let same_readers =
                group.members.values().all(|(topics, _)| topics.contains(&topic(0)) == topics.contains(&topic(1)));
            if same_readers && group.topics[&topic(0)] == group.topics[&topic(1)] {
                assert!(group.members.values().all(|(_, target)| of(target, 0) == of(target, 1)), "seed {seed}");
            }
            group.change(random, &mut next_id, |random| if random.chance(3, 4) { vec![0, 1, 2, 3] } else { vec![2] });
        }
    }
}

/// As many partitions stay as in the best of all orders that leave those who have some in theirs.
#[test]
fn range_moves_as_few_as_runs_allow() {
    fn orders(ids: &[String]) -> Vec<Vec<String>> {
        if ids.is_empty() {
            return vec![Vec::new()];
        }
        let with_first = |first: usize| {
            let mut rest = ids.to_vec();
            let first = rest.remove(first);
            orders(&rest).into_iter().map(move |mut order| {
                order.insert(0, first.clone());
                order
            })
        };
        (0..ids.len()).flat_map(with_first).collect()
    }
    for seed in 0..150 {
        let random = &mut Random::new(seed);
        let size = 1 + random.below(12) as i32;
        let mut group = Group::with_topics(&[size]);
        let mut next_id = 0;
        group.join("first", [0]);
        for _ in 0..12 {
            while group.members.len() > 5 {
                let place = random.below(group.members.len() as u64) as usize;
                let id = group.members.keys().nth(place).expect("there are that many").clone();
                group.members.remove(&id);
            }
            let ids: Vec<String> = group.members.keys().cloned().collect();
            let stays = |order: Vec<String>| {
                let size = group.topics[&topic(0)];
                let of = |(place, id): (usize, &String)| {
                    super::range::run(place, ids.len(), size)
                        .filter(|index| group.members[id].1.contains(&partition(0, *index)))
                        .count()
                };
                order.iter().enumerate().map(of).sum::<usize>()
            };
            let first = |id: &String| group.members[id].1.first().map(|id| id.partition.0);
            let is_kept = |order: &Vec<String>| {
                order.iter().filter_map(first).collect::<Vec<_>>().windows(2).all(|pair| pair[0] < pair[1])
            };
            let most = orders(&ids).into_iter().filter(is_kept).map(stays).max().expect("there is an order");
            assert_eq!(group.assign(Assignor::Range), most, "seed {seed}");
            group.change(random, &mut next_id, |_| vec![0]);
        }
    }
}

#[test]
fn shares_that_a_person_can_read() {
    let mut group = Group::with_topics(&[4, 2]);
    group.join("a", [0, 1]);
    group.join("b", [0, 1]);
    group.assign(Assignor::Uniform);
    let share = |group: &Group, id: &str| -> Vec<(u8, i32)> {
        group.members[id].1.iter().map(|id| (id.topic_id.0[0], id.partition.0)).collect()
    };
    assert_eq!(share(&group, "a"), [(0, 0), (0, 2), (1, 0)]);
    assert_eq!(share(&group, "b"), [(0, 1), (0, 3), (1, 1)]);
    group.join("c", [0, 1]);
    assert_eq!(group.assign(Assignor::Uniform), 4, "each gives one up");
    group.assign(Assignor::Range);
    let all: Vec<_> = ["a", "b", "c"].iter().map(|id| share(&group, id)).collect();
    assert_eq!(all.concat().len(), 6);
    let mut group = Group::with_topics(&[4, 2]);
    group.join("a", [0, 1]);
    group.join("b", [0, 1]);
    group.assign(Assignor::Range);
    assert_eq!(share(&group, "a"), [(0, 0), (0, 1), (1, 0)]);
    assert_eq!(share(&group, "b"), [(0, 2), (0, 3), (1, 1)]);
}
