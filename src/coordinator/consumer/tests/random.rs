//! Members that come, go, stall, miss answers and start again, topics that change, coordinators that read their log again, at random.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::Random;
use storage::LogId;
use wire::ErrorCode;

use super::{ConsumerHeartbeat, HeartbeatTold, World, beat, join, of_instance, owning};
use crate::coordinator::consumer::JOINS;
use crate::coordinator::topics::Topics;

const TOPICS: [&str; 4] = ["a-1", "a-2", "b-1", "b-2"];
const LEAVES: i32 = -1;
const LEAVES_FOR_A_WHILE: i32 = -2;

/// A client, as it sees itself.
#[derive(Clone, Default)]
struct Client {
    epoch: i32,
    instance: Option<String>,
    topics: Vec<&'static str>,
    regex: Option<&'static str>,
    /// What it reads.
    owned: BTreeSet<LogId>,
    /// What it was told last that it may read.
    told: BTreeSet<LogId>,
    /// It has said that it owns this, and the coordinator has heard.
    reported: Option<BTreeSet<LogId>>,
}

impl Client {
    fn beat(&self, id: &str, random: &mut Random) -> ConsumerHeartbeat {
        let full = ConsumerHeartbeat {
            regex: self.regex.map(str::to_owned),
            ..owning(join(id, &self.topics), self.owned.iter().copied())
        };
        let mut beat = if self.epoch == JOINS || random.chance(1, 6) {
            ConsumerHeartbeat { member_epoch: self.epoch, ..full }
        } else if self.reported.as_ref() != Some(&self.owned) || random.chance(1, 6) {
            owning(beat(id, self.epoch), self.owned.iter().copied())
        } else {
            beat(id, self.epoch)
        };
        beat.instance_id.clone_from(&self.instance);
        beat
    }
}

struct Play {
    world: World,
    clients: BTreeMap<String, Client>,
    /// Who may read a partition, as far as clients were told.
    owners: BTreeMap<LogId, String>,
    made: u32,
    seed: u64,
}

impl Play {
    /// A client gives up what it was told to, and says how it is.
    fn heartbeat(&mut self, id: &str, random: &mut Random, loses_answer: bool) {
        let client = self.clients.get_mut(id).expect("a client");
        if random.chance(2, 3) {
            client.owned = &client.owned & &client.told;
        }
        let beat = client.beat(id, random);
        match self.world.ask(&beat) {
            Ok(told) => {
                if beat.owned.is_some() {
                    let owned = client.owned.clone();
                    self.owners.retain(|of, owner| owner != id || owned.contains(of));
                }
                if loses_answer {
                    // It says all again with its next.
                    client.reported = None;
                } else {
                    if beat.owned.is_some() {
                        client.reported = Some(client.owned.clone());
                    }
                    self.take(id, told);
                }
            }
            Err(ErrorCode::FencedMemberEpoch | ErrorCode::UnknownMemberId) => {
                let Client { instance, topics, regex, .. } = client.clone();
                *client = Client { instance, topics, regex, ..Client::default() };
                self.owners.retain(|_, owner| owner != id);
            }
            Err(ErrorCode::UnreleasedInstanceId | ErrorCode::FencedInstanceId) => {
                self.clients.remove(id);
                self.owners.retain(|_, owner| owner != id);
            }
            Err(error) => panic!("seed {}: {error:?} for {beat:?}", self.seed),
        }
    }

    /// A client takes an answer up: it reads at once what it may.
    fn take(&mut self, id: &str, told: HeartbeatTold) {
        let client = self.clients.get_mut(id).expect("a client");
        client.epoch = told.member_epoch;
        let Some(assignment) = told.assignment else { return };
        for of in &assignment {
            let other = self.owners.insert(*of, id.to_owned()).filter(|owner| owner != id);
            assert_eq!(other, None, "seed {}: {of} is with two, one of them {id}", self.seed);
        }
        client.told = assignment.into_iter().collect();
        client.owned = &client.owned | &client.told;
    }

    /// Those that were fenced own nothing any more, whatever they believe.
    fn forget_fenced(&mut self) {
        self.owners.retain(|_, owner| self.world.group.members.contains_key(owner));
    }

    fn start(&mut self, random: &mut Random) {
        self.made += 1;
        let instance = random.chance(1, 3).then(|| format!("i{}", random.below(3)));
        let topics = TOPICS.into_iter().filter(|_| random.chance(1, 2)).collect();
        let regex = random.chance(1, 4).then_some(["a-.*", ".*-1", "b-2|a-1"][random.below(3) as usize]);
        let client = Client { instance, topics, regex, ..Client::default() };
        let id = format!("m{}-{}", random.below(100), self.made);
        self.clients.insert(id.clone(), client);
        self.heartbeat(&id, random, false);
    }

    fn leave(&mut self, id: &str) {
        let client = self.clients.remove(id).expect("a client");
        self.owners.retain(|_, owner| owner != id);
        match client.instance {
            None => _ = self.world.ask(&beat(id, LEAVES)),
            // Its instance starts again as another member, or does not.
            Some(instance) => _ = self.world.ask(&of_instance(beat(id, LEAVES_FOR_A_WHILE), &instance)),
        }
    }

    fn act(&mut self, random: &mut Random) {
        let count = self.clients.len() as u64;
        let any = (count > 0).then(|| self.clients.keys().nth(random.below(count) as usize).cloned()).flatten();
        match (random.below(20), any) {
            (0 | 1, _) | (_, None) => self.start(random),
            (2, Some(id)) => self.leave(&id),
            // Killed: its partitions are its own until the coordinator says otherwise.
            (3, Some(id)) => _ = self.clients.remove(&id),
            (4, Some(id)) => {
                let client = self.clients.get_mut(&id).expect("a client");
                client.topics = TOPICS.into_iter().filter(|_| random.chance(1, 2)).collect();
                client.reported = None;
            }
            (5, _) => {
                let topic = TOPICS[random.below(4) as usize];
                let size = self.world.cluster.topic(topic).map_or(0, |topic| topic.partitions);
                self.world.cluster.set(topic, size + 1 + random.below(3) as i32);
            }
            (6, _) if random.chance(1, 3) => self.world.cluster.remove(TOPICS[random.below(4) as usize]),
            (7, _) => self.world.restart(),
            (8, Some(id)) => self.heartbeat(&id, random, true),
            (_, Some(id)) => self.heartbeat(&id, random, false),
        }
        self.world.pass(Duration::from_millis(random.below(4000)));
        self.forget_fenced();
    }

    /// All that are left go on with their heartbeats, and come to their targets.
    fn converge(&mut self, random: &mut Random) {
        for _ in 0..120 {
            for id in self.clients.keys().cloned().collect::<Vec<_>>() {
                if self.clients.contains_key(&id) {
                    self.heartbeat(&id, random, false);
                }
            }
            self.world.pass(Duration::from_secs(1));
            self.forget_fenced();
        }
        let (seed, group) = (self.seed, &self.world.group);
        let state = if self.clients.is_empty() { "Empty" } else { "Stable" };
        assert_eq!(group.state_name(), state, "seed {seed}");
        assert!(self.clients.keys().eq(group.members.keys()), "seed {seed}");
        let mut read = BTreeSet::new();
        for (id, client) in &self.clients {
            assert_eq!(client.owned, group.members[id].target, "seed {seed}: {id}");
            read.extend(client.owned.iter().copied());
        }
        let topics = self.world.cluster.topics.iter().filter(|(name, _)| group.reads(name));
        assert_eq!(read.len() as i32, topics.map(|(_, topic)| topic.partitions).sum::<i32>(), "seed {seed}");
        self.world.restored();
    }
}

#[test]
fn whatever_members_do() {
    for seed in 0..300 {
        let random = &mut Random::new(seed);
        let world = World::with_topics(&[("a-1", 4), ("a-2", 3), ("b-1", 2)]);
        let mut play = Play { world, clients: BTreeMap::new(), owners: BTreeMap::new(), made: 0, seed };
        for _ in 0..250 {
            play.act(random);
        }
        play.converge(random);
    }
}
