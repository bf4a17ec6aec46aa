//! A group of whatever protocol, with its offsets.

use wire::ErrorCode;
use wire::consumer_protocol::{ConsumerProtocolSubscription, PROTOCOL_TYPE};

use super::classic::ClassicGroup;
use super::consumer::{ConsumerGroup, Rejection, Step};
use super::effects::{Effects, Record};
use super::lag::GroupLag;
use super::message::ListedGroup;
use super::offsets::{Idle, Offsets};
use super::table::Moment;

/// Who shares the partitions out.
#[derive(Debug)]
pub enum Members {
    /// One of them.
    Classic(ClassicGroup),
    /// The coordinator.
    Consumer(ConsumerGroup),
}

#[derive(Debug)]
pub struct Group {
    pub members: Members,
    pub offsets: Offsets,
    /// How far it was behind at the last look; `None` before there was one, and without offsets.
    pub lag: Option<GroupLag>,
    /// Its members are, or were, in its log: it is there even without offsets.
    pub is_recorded: bool,
    /// What its members come to on the heap, as the last step that changed them left them.
    pub members_bytes: usize,
}

impl Group {
    #[must_use]
    pub fn classic(name: &str, now: Moment) -> Self {
        Self::of(Members::Classic(ClassicGroup::new(name.to_owned(), now)))
    }

    #[must_use]
    pub fn consumer(name: &str) -> Self {
        Self::of(Members::Consumer(ConsumerGroup::new(name.to_owned())))
    }

    fn of(members: Members) -> Self {
        Self { members, offsets: Offsets::default(), lag: None, is_recorded: false, members_bytes: 0 }
    }

    /// What its members come to on the heap, about.
    #[must_use]
    pub fn members_bytes(&self) -> usize {
        match &self.members {
            Members::Classic(classic) => classic.members_bytes(),
            Members::Consumer(consumer) => consumer.members_bytes(),
        }
    }

    #[must_use]
    pub fn has_member(&self, member_id: &str) -> bool {
        match &self.members {
            Members::Classic(classic) => classic.has_member(member_id),
            Members::Consumer(consumer) => consumer.has_member(member_id),
        }
    }

    /// Without members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match &self.members {
            Members::Classic(classic) => classic.is_empty(),
            Members::Consumer(consumer) => consumer.is_empty(),
        }
    }

    /// Without members and nobody on the way.
    #[must_use]
    pub fn is_deserted(&self) -> bool {
        match &self.members {
            Members::Classic(classic) => classic.is_deserted(),
            Members::Consumer(consumer) => consumer.is_empty(),
        }
    }

    /// It has come to nothing: neither members, nor offsets, nor a record that says it is there.
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.is_deserted() && self.offsets.is_empty() && !self.is_recorded
    }

    /// What the members are; empty where there never were any.
    #[must_use]
    pub fn protocol_type(&self) -> &str {
        match &self.members {
            Members::Classic(classic) => classic.protocol_type().unwrap_or_default(),
            Members::Consumer(_) => PROTOCOL_TYPE,
        }
    }

    /// Whether a member says that it reads the topic. Of members whose word can't be read, all topics are.
    #[must_use]
    pub fn reads(&self, topic: &str) -> bool {
        let says = |said: &[u8]| match ConsumerProtocolSubscription::read(said) {
            Ok(subscription) => subscription.topics.iter().any(|known| known == topic),
            Err(_) => true,
        };
        match &self.members {
            Members::Classic(classic) => {
                classic.protocol_type() == Some(PROTOCOL_TYPE) && classic.subscriptions().any(says)
            }
            Members::Consumer(consumer) => consumer.reads(topic),
        }
    }

    /// From when on the offsets of a topic are idle; `None` while members keep them.
    #[must_use]
    pub fn idle(&self, topic: &str) -> Option<Idle> {
        let classic = match &self.members {
            Members::Classic(classic) => classic,
            Members::Consumer(consumer) => return (!consumer.reads(topic)).then_some(Idle::SinceCommit),
        };
        match (classic.empty_since(), classic.protocol_type()) {
            (Some(_), None) => Some(Idle::SinceCommit),
            (Some(since), Some(_)) => Some(Idle::Since(since)),
            (None, Some(PROTOCOL_TYPE)) if !self.reads(topic) => Some(Idle::SinceCommit),
            (None, _) => None,
        }
    }

    /// Makes an empty group one whose members share the partitions out themselves, if it is not: its offsets stay.
    pub fn become_classic(&mut self, name: &str, now: Moment, effects: &mut Effects) -> &mut ClassicGroup {
        if let Members::Consumer(_) = self.members {
            self.leave_log(name, effects);
            self.members = Members::Classic(ClassicGroup::new(name.to_owned(), now));
        }
        match &mut self.members {
            Members::Classic(classic) => classic,
            Members::Consumer(_) => unreachable!("just changed"),
        }
    }

    /// Makes a group one whose coordinator shares the partitions out, if it is not: its offsets stay, and its members if they are consumers.
    ///
    /// # Errors
    /// It has members that must go on as they are; nothing has changed then.
    pub fn become_consumer(&mut self, name: &str, step: &mut Step<'_>) -> Result<(), Rejection> {
        let Members::Classic(classic) = &mut self.members else { return Ok(()) };
        if classic.is_empty() {
            self.leave_log(name, step.effects);
            self.members = Members::Consumer(ConsumerGroup::new(name.to_owned()));
            return Ok(());
        }
        let config = &step.config.consumer;
        if !config.migration.may_upgrade
            || classic.protocol_type() != Some(PROTOCOL_TYPE)
            || classic.size() > config.size_max
        {
            let reason = format!("Group {name} is not a consumer group, and can't become one now.");
            return Err(Rejection::new(ErrorCode::GroupIdNotFound, reason));
        }
        let records_before = step.effects.records.len();
        let consumer = ConsumerGroup::upgraded(name, classic.generation(), &classic.members(), step)?;
        // Whoever waits is to join again.
        classic.disband(ErrorCode::RebalanceInProgress, step.effects);
        // What the log has of the group as it was goes first.
        let records = step.effects.records.split_off(records_before);
        self.leave_log(name, step.effects);
        step.effects.records.extend(records);
        self.members = Members::Consumer(consumer);
        Ok(())
    }

    /// Leaves a group whose members all speak the classic protocol to them.
    pub fn downgrade_if_due(&mut self, name: &str, step: &mut Step<'_>) {
        let Members::Consumer(consumer) = &self.members else { return };
        let Some(takeover) = consumer.left_to_classic(step.topics) else { return };
        if !step.config.consumer.migration.may_downgrade || takeover.members.len() > step.config.size_max {
            return;
        }
        step.effects.records.extend(self.tombstones(name));
        let classic = ClassicGroup::taken_over(name.to_owned(), takeover, step.config, step.now, step.effects);
        self.members = Members::Classic(classic);
    }

    /// Takes what the log has of its members out, as the first records of this step.
    fn leave_log(&mut self, name: &str, effects: &mut Effects) {
        if std::mem::take(&mut self.is_recorded) {
            effects.records.extend(self.tombstones(name));
            effects.is_membership = true;
        }
    }

    /// As ListGroups shows it.
    #[must_use]
    pub fn listed(&self, name: &str) -> ListedGroup {
        let (state, kind) = match &self.members {
            Members::Classic(classic) => (classic.state_name(), "classic"),
            Members::Consumer(consumer) => (consumer.state_name(), "consumer"),
        };
        ListedGroup { group: name.to_owned(), protocol_type: self.protocol_type().to_owned(), state, kind }
    }

    /// What takes its members, or that there were some, out of the log.
    #[must_use]
    pub fn tombstones(&self, name: &str) -> Vec<Record> {
        let group = name.to_owned();
        match &self.members {
            Members::Classic(_) => vec![Record::GroupRemoved { group }],
            Members::Consumer(consumer) => {
                let record = |change| Record::Consumer { group: group.clone(), change };
                consumer.tombstones().into_iter().map(record).collect()
            }
        }
    }
}
