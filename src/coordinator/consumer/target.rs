//! What members are to have: which topics they read, whether these have changed, and the targets that follow.

use std::collections::{BTreeMap, BTreeSet};

use base::Uuid;

use super::changes::{Change, GroupEpoch, Resolved, TargetEpoch};
use super::{ConsumerGroup, Step, regex};
use crate::coordinator::assignor::{Assignor, Subscriber, TopicSizes};
use crate::coordinator::topics::Topics;

impl ConsumerGroup {
    /// Brings the targets up to date: where members or their subscriptions have changed, where topics have, or where somebody has left.
    pub(super) fn update_targets(&mut self, has_changed: bool, step: &mut Step<'_>) {
        let version = step.topics.version();
        if has_changed || self.topics_version != Some(version) {
            self.resolve_regexes(step);
            let topics_hash = self.topics_hash(step.topics);
            if has_changed || topics_hash != self.epoch.topics_hash {
                self.begin_epoch(topics_hash, step);
            }
            self.topics_version = Some(version);
        }
        if self.epoch.epoch > self.assignment.epoch {
            self.assign(step);
        }
    }

    fn begin_epoch(&mut self, topics_hash: i64, step: &mut Step<'_>) {
        let epoch = GroupEpoch { epoch: self.epoch.epoch + 1, topics_hash };
        self.change(Change::Epoch(Some(epoch)), step.effects);
    }

    /// A new epoch without targets: those who are left make them with their next heartbeat.
    pub(super) fn begin_epoch_of_the_others(&mut self, step: &mut Step<'_>) {
        self.resolve_regexes(step);
        let topics_hash = self.topics_hash(step.topics);
        self.begin_epoch(topics_hash, step);
        if self.members.is_empty() {
            self.end_assignment(step);
        }
    }

    /// The targets are those of this epoch.
    fn end_assignment(&mut self, step: &mut Step<'_>) {
        let epoch = TargetEpoch { epoch: self.epoch.epoch, since: step.now.wall };
        self.change(Change::TargetEpoch(Some(epoch)), step.effects);
    }

    /// Looks up the topics of the expressions that members have, and forgets those of others.
    fn resolve_regexes(&mut self, step: &mut Step<'_>) {
        let used: BTreeSet<String> = self.members.values().filter_map(|member| member.said.regex.clone()).collect();
        let is_current = self.topics_version == Some(step.topics.version());
        let unused: Vec<String> = self.regexes.keys().filter(|known| !used.contains(*known)).cloned().collect();
        for expression in unused {
            self.change(Change::Regex { expression, resolved: None }, step.effects);
        }
        for expression in used {
            let known = self.regexes.get(&expression);
            if is_current && known.is_some() {
                continue;
            }
            let topics = regex::matching(&expression, step.topics);
            if known.is_none_or(|known| known.topics != topics) {
                let version = i64::try_from(step.topics.version()).unwrap_or(i64::MAX);
                let resolved = Resolved { topics, version, at: step.now.wall };
                self.change(Change::Regex { expression, resolved: Some(resolved) }, step.effects);
            }
        }
    }

    /// The names that members read, whether or not there are such topics.
    fn topics_read(&self) -> BTreeSet<&str> {
        // Most members say the same.
        let said: BTreeSet<&BTreeSet<String>> = self.members.values().map(|member| &member.said.topics).collect();
        let found = self.regexes.values().map(|found| &found.topics);
        said.into_iter().chain(found).flatten().map(String::as_str).collect()
    }

    /// Another number for other topics, ids or sizes (KIP-1101); 0 for no topics. FNV-1a over what makes the difference.
    fn topics_hash(&self, topics: &dyn Topics) -> i64 {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let mut is_empty = true;
        for name in self.topics_read() {
            let Some(topic) = topics.topic(name) else { continue };
            is_empty = false;
            let parts = [&topic.id.0[..], &topic.partitions.to_be_bytes(), name.as_bytes(), &[0xff]];
            for byte in parts.into_iter().flatten() {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        if is_empty { 0 } else { hash.cast_signed() }
    }

    /// The assignor that most members ask for; without any wish, the first there is.
    pub(super) fn assignor(&self) -> Assignor {
        let mut votes: BTreeMap<Assignor, usize> = BTreeMap::new();
        for wish in self.members.values().filter_map(|member| Assignor::named(member.said.assignor.as_ref()?)) {
            *votes.entry(wish).or_default() += 1;
        }
        votes.into_iter().rev().max_by_key(|(_, votes)| *votes).map(|(wish, _)| wish).unwrap_or_default()
    }

    fn assign(&mut self, step: &mut Step<'_>) {
        // Most members say the same: their topics are looked up once.
        let mut reads: BTreeMap<(&BTreeSet<String>, Option<&String>), BTreeSet<Uuid>> = BTreeMap::new();
        let mut sizes = TopicSizes::new();
        for member in self.members.values() {
            let (names, regex) = (&member.said.topics, member.said.regex.as_ref());
            reads.entry((names, regex)).or_insert_with(|| {
                let found = regex.and_then(|regex| self.regexes.get(regex)).into_iter().flat_map(|found| &found.topics);
                let there = names.iter().chain(found).filter_map(|name| step.topics.topic(name));
                there.inspect(|topic| _ = sizes.insert(topic.id, topic.partitions)).map(|topic| topic.id).collect()
            });
        }
        let subscribers: Vec<Subscriber<'_>> = self
            .members
            .iter()
            .map(|(member_id, member)| Subscriber {
                member_id,
                topics: &reads[&(&member.said.topics, member.said.regex.as_ref())],
                target: &member.target,
            })
            .collect();
        let targets = self.assignor().assign(&subscribers, &sizes);
        let changes: Vec<Change> = targets
            .into_iter()
            .filter(|(member_id, share)| self.members[*member_id].target != *share)
            .map(|(member_id, share)| Change::Target { member_id: member_id.to_owned(), partitions: Some(share) })
            .collect();
        changes.into_iter().for_each(|change| self.change(change, step.effects));
        self.end_assignment(step);
    }
}
