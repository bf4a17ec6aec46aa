//! A member of a group whose coordinator assigns the partitions (KIP-848): says what it has, takes what it is told, gives up what it must;
//! and misbehaves in every way that a member can.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::PartitionIndex;
use sim::groups::Place;
use sim::groups::commits::Speaker;
use wire::ErrorCode;
use wire::messages::consumer_group_heartbeat::{
    Assignment, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};

use crate::model::{Share, TOPICS_READ};
use crate::seat::{Committed, HEARTBEAT_MS, REBALANCE, SESSION, Seat, commit};

const JOINS: i32 = 0;
const LEAVES: i32 = -1;
const LEAVES_FOR_A_WHILE: i32 = -2;

/// One life of a member.
struct Life {
    member_id: String,
    epoch: i32,
    /// What it may read, and says that it has.
    owned: BTreeSet<Place>,
    /// An answer was lost: it says all of itself again.
    says_all: bool,
    /// What it had in epochs before, to be committed when it is another's.
    had: BTreeMap<Place, (i32, i64)>,
}

/// How a life goes on.
enum Next {
    On,
    End,
    /// Another stands for its instance.
    Fenced,
}

impl Seat {
    /// One life after another, until all is over.
    pub async fn consumer_loop(mut self) {
        while !self.link.is_over() {
            let member_id = {
                let mut model = self.link.model.borrow_mut();
                format!("{}-{}-{:08x}", self.group, self.number, model.below(1 << 32))
            };
            let mut life =
                Life { member_id, epoch: JOINS, owned: BTreeSet::new(), says_all: true, had: BTreeMap::new() };
            let next = loop {
                match self.consumer_turn(&mut life).await {
                    Next::On => self.link.pause(HEARTBEAT_MS).await,
                    end => break end,
                }
            };
            self.lose_all();
            self.link.model.borrow_mut().groups[self.group].holders.ended(&life.member_id);
            if let Next::Fenced = next {
                if self.link.is_calm() {
                    break;
                }
                // Its twin has its time first.
                self.link.pause(4000).await;
            }
            self.link.pause(50).await;
        }
        self.lose_all();
        self.link.model.borrow_mut().working -= 1;
    }

    /// One round of what a member does.
    async fn consumer_turn(&mut self, life: &mut Life) -> Next {
        if self.link.is_over() {
            return Next::End;
        }
        if self.link.mischief(60) {
            self.link.hit("member stalled");
            self.link.pause(2 * SESSION.as_millis() as u64).await;
        }
        if self.link.mischief(90) {
            self.link.hit("member crashed");
            self.link.hang_up();
            self.link.pause(4000).await;
            return Next::End;
        }
        if self.link.mischief(90) && life.epoch > JOINS {
            return self.say_goodbye(life).await;
        }
        if life.epoch > JOINS
            && let Err(next) = self.use_turn(life).await
        {
            return next;
        }
        self.beat(life).await
    }

    /// Reads and commits.
    async fn use_turn(&mut self, life: &mut Life) -> Result<(), Next> {
        let speaker = Speaker { member: life.member_id.clone(), epoch: life.epoch };
        let to_begin: Vec<Place> =
            life.owned.iter().filter(|place| !self.reading.contains_key(place)).copied().collect();
        if let Err(code) = self.begin(&to_begin, Some(&speaker)).await {
            return Err(self.shown_out(code, life, "its offsets"));
        }
        self.read_on().await;
        if self.link.mischief(20) {
            self.link.pause(1500).await;
        }
        if !self.link.mischief(3)
            && let Committed::Refused(code) = self.commit(&speaker).await
        {
            return Err(self.shown_out(code, life, "a commit"));
        }
        if self.link.mischief(12) {
            self.commit_what_was(life).await;
        }
        Ok(())
    }

    /// Commits what it had in an epoch before its own: never taken once it has given it up. What it says in its own epoch is taken
    /// of any partition, as by Kafka, so the judge learns nothing from that.
    async fn commit_what_was(&mut self, life: &mut Life) {
        let of_before = |(_, (epoch, _)): &(&Place, &(i32, i64))| *epoch < life.epoch;
        let Some((&place, &(epoch, offset))) = life.had.iter().find(of_before) else { return };
        life.had.remove(&place);
        if life.owned.contains(&place) {
            return;
        }
        let speaker = Speaker { member: life.member_id.clone(), epoch };
        if let Committed::Refused(_) =
            commit(&mut self.link, self.group, self.instance, &speaker, &[(place, offset)]).await
        {
            self.link.hit("commit of an old epoch refused");
        }
    }

    fn partitions<'a>(&self, places: &BTreeSet<Place>) -> Vec<TopicPartitions<'a>> {
        let mut by_topic: BTreeMap<usize, Vec<PartitionIndex>> = BTreeMap::new();
        for (topic, index) in places {
            by_topic.entry(*topic).or_default().push(PartitionIndex(*index));
        }
        let model = self.link.model.borrow();
        let of = |(topic, run): (usize, Vec<PartitionIndex>)| TopicPartitions {
            topic_id: model.topics[topic].id,
            partitions: run.into(),
        };
        by_topic.into_iter().map(of).collect()
    }

    /// A heartbeat, and what comes of it.
    async fn beat(&mut self, life: &mut Life) -> Next {
        let joins = life.epoch == JOINS;
        let says_all = joins || life.says_all;
        if joins {
            life.owned.clear();
            self.reading.clear();
        }
        let asked = {
            let mut model = self.link.model.borrow_mut();
            model.groups[self.group].holders.keeps(&life.member_id, &life.owned);
            model.now()
        };
        let topics: Vec<&str> = crate::model::TOPICS[..TOPICS_READ].iter().map(|(name, _)| *name).collect();
        let request = ConsumerGroupHeartbeatRequest {
            group_id: self.name(),
            member_id: &life.member_id,
            member_epoch: life.epoch,
            instance_id: self.instance,
            rack_id: None,
            rebalance_timeout_ms: if says_all { REBALANCE.as_millis() as i32 } else { -1 },
            subscribed_topic_names: says_all.then(|| topics.into()),
            subscribed_topic_regex: None,
            server_assignor: (joins && self.number == 1).then_some("range"),
            topic_partitions: Some(self.partitions(&life.owned).into()),
        };
        let Some(reply) = self.link.call(&request, Duration::ZERO).await else {
            life.says_all = true;
            return Next::On;
        };
        let response: ConsumerGroupHeartbeatResponse<'_> = reply.decode().expect("an answer of the protocol");
        if response.error_code.is_error() {
            return self.shown_out(response.error_code, life, "a heartbeat");
        }
        {
            let mut model = self.link.model.borrow_mut();
            let finding = model.groups[self.group].holders.confirmed(&life.member_id, asked);
            model.judge(self.group, finding);
        }
        life.says_all = false;
        if joins {
            self.link.hit("member joined its coordinator's group");
        }
        life.epoch = response.member_epoch;
        match response.assignment {
            Some(assignment) => self.assigned(life, &assignment, asked).await,
            None => {
                self.note_share(life);
                Next::On
            }
        }
    }

    fn note_share(&self, life: &Life) {
        let share = Share { epoch: life.epoch, places: life.owned.clone() };
        self.link.model.borrow_mut().groups[self.group].shares.insert(self.number, share);
    }

    /// Gives up what it is not to read any more, and takes what is new.
    async fn assigned(&mut self, life: &mut Life, assignment: &Assignment<'_>, asked: u64) -> Next {
        let places = {
            let model = self.link.model.borrow();
            let of = |topic: TopicPartitions<'_>| -> Vec<Place> {
                let number = model.topic_of(topic.topic_id).expect("one of those that are read");
                topic.partitions.iter().map(|index| (number, index.0)).collect()
            };
            assignment.topic_partitions.iter().flat_map(of).collect::<BTreeSet<Place>>()
        };
        let speaker = Speaker { member: life.member_id.clone(), epoch: life.epoch };
        {
            let mut model = self.link.model.borrow_mut();
            let told = model.now();
            let group = &mut model.groups[self.group];
            for place in group.holders.told(&life.member_id, &places, asked, told) {
                group.commits.granted(place, speaker.clone(), asked, told);
            }
        }
        let given_up: Vec<Place> = self.reading.keys().filter(|place| !places.contains(place)).copied().collect();
        if !given_up.is_empty() {
            self.link.hit("partitions given up");
            if self.link.mischief(6) {
                self.link.hit("member that gives up late");
                self.link.pause(2 * REBALANCE.as_millis() as u64).await;
            }
            if let Committed::Refused(code) = self.commit(&speaker).await {
                return self.shown_out(code, life, "a commit");
            }
        }
        for place in given_up {
            if let Some(reading) = self.reading.remove(&place) {
                life.had.insert(place, (life.epoch, reading.position));
            }
        }
        life.owned = places;
        self.note_share(life);
        Next::On
    }

    /// What a member does that was refused something.
    fn shown_out(&mut self, code: ErrorCode, life: &mut Life, what: &str) -> Next {
        match code {
            ErrorCode::CoordinatorLoadInProgress | ErrorCode::NotCoordinator => Next::On,
            ErrorCode::UnknownMemberId => {
                self.link.hit("consumer that was taken for dead");
                Next::End
            }
            ErrorCode::FencedMemberEpoch => {
                self.link.hit("consumer of a fenced epoch");
                life.epoch = JOINS;
                self.lose_all();
                Next::On
            }
            // It learns where it is with its next heartbeat.
            ErrorCode::StaleMemberEpoch => {
                self.link.hit("consumer of a stale epoch");
                Next::On
            }
            ErrorCode::FencedInstanceId => {
                self.link.hit("consumer fenced by its twin");
                Next::Fenced
            }
            ErrorCode::UnreleasedInstanceId => {
                self.link.hit("instance that is another's still");
                Next::Fenced
            }
            code => {
                self.link.model.borrow_mut().fail(format!("{} was refused {what}: {code:?}", self.name()));
                Next::End
            }
        }
    }

    async fn say_goodbye(&mut self, life: &mut Life) -> Next {
        let for_a_while = self.instance.is_some() && self.link.mischief(2);
        let request = ConsumerGroupHeartbeatRequest {
            group_id: self.name(),
            member_id: &life.member_id,
            member_epoch: if for_a_while { LEAVES_FOR_A_WHILE } else { LEAVES },
            instance_id: self.instance,
            rebalance_timeout_ms: -1,
            ..Default::default()
        };
        {
            let mut model = self.link.model.borrow_mut();
            model.groups[self.group].holders.keeps(&life.member_id, &BTreeSet::new());
        }
        if let Some(reply) = self.link.call(&request, Duration::ZERO).await {
            let response: ConsumerGroupHeartbeatResponse<'_> = reply.decode().expect("an answer of the protocol");
            if !response.error_code.is_error() {
                self.link.hit(if for_a_while { "instance left for a while" } else { "consumer left" });
            }
        }
        self.lose_all();
        self.link.pause(4000).await;
        Next::End
    }
}
