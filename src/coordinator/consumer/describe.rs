//! A group as administrators see it.

use storage::LogId;

use super::message::{DescribedConsumer, DescribedConsumerGroup};
use super::{ConsumerGroup, Member};

impl ConsumerGroup {
    /// As ListGroups and ConsumerGroupDescribe name it.
    #[must_use]
    pub fn state_name(&self) -> &'static str {
        if self.members.is_empty() {
            "Empty"
        } else if self.epoch.epoch > self.assignment.epoch {
            "Assigning"
        } else if self.members.values().all(|member| member.is_reconciled(self.assignment.epoch)) {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    /// The member that has a partition, or is to give it up.
    #[must_use]
    pub fn owner(&self, of: LogId) -> Option<&str> {
        self.owners.get(&of).map(String::as_str)
    }

    /// What a member calls itself, and where it is.
    #[must_use]
    pub fn client_of(&self, member_id: &str) -> Option<(&str, &str)> {
        self.members.get(member_id).map(|member| (member.said.client_id.as_str(), member.said.client_host.as_str()))
    }

    /// As ConsumerGroupDescribe shows it.
    #[must_use]
    pub fn describe(&self) -> DescribedConsumerGroup {
        let member = |(id, member): (&String, &Member)| DescribedConsumer {
            member_id: id.clone(),
            instance_id: member.said.instance_id.clone(),
            rack_id: member.said.rack_id.clone(),
            member_epoch: member.current.epoch,
            client_id: member.said.client_id.clone(),
            client_host: member.said.client_host.clone(),
            topics: member.said.topics.iter().cloned().collect(),
            regex: member.said.regex.clone(),
            assigned: member.current.assigned.keys().copied().collect(),
            target: member.target.iter().copied().collect(),
            is_classic: member.said.classic.is_some(),
        };
        DescribedConsumerGroup {
            state: self.state_name(),
            epoch: self.epoch.epoch,
            assignment_epoch: self.assignment.epoch,
            assignor: self.assignor().name(),
            members: self.members.iter().map(member).collect(),
        }
    }
}
