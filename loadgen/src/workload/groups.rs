//! Consumer groups of a workload: how many members they have, and how those come and go.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use client::GroupProtocol;

use super::{Invalid, Keys, count, span};
use crate::units::{NotAValue, Span, as_text};

/// Who shares the partitions out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupKind(pub GroupProtocol);

impl FromStr for GroupKind {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        match text {
            "classic" => Ok(Self(GroupProtocol::Classic)),
            "consumer" => Ok(Self(GroupProtocol::Consumer)),
            _ => Err(NotAValue::new(text, "classic or consumer")),
        }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            GroupProtocol::Classic => "classic",
            GroupProtocol::Consumer => "consumer",
        })
    }
}

/// How a member goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Churn {
    /// It commits, and says that it leaves.
    Leave,
    /// It is cut off, and says nothing.
    Kill,
    /// A static member stops, and comes back by its name.
    Restart,
}

const CHURNS: [(&str, Churn); 3] = [("leave", Churn::Leave), ("kill", Churn::Kill), ("restart", Churn::Restart)];

/// Ways to go, which take turns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChurnShape(Vec<Churn>);

impl ChurnShape {
    /// The way of the member that goes as number `turn`, from 0.
    #[must_use]
    pub fn of_turn(&self, turn: usize) -> Churn {
        self.0[turn % self.0.len()]
    }

    fn has(&self, churn: Churn) -> bool {
        self.0.contains(&churn)
    }
}

impl FromStr for ChurnShape {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let one = |name: &str| CHURNS.iter().find(|(known, _)| *known == name.trim()).map(|(_, churn)| *churn);
        let all: Option<Vec<Churn>> = text.split(',').map(one).collect();
        all.map(Self).ok_or_else(|| NotAValue::new(text, "leave, kill or restart, or several with commas between them"))
    }
}

impl fmt::Display for ChurnShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |churn: &Churn| CHURNS.iter().find(|(_, known)| known == churn).map_or("", |(name, _)| name);
        f.write_str(&self.0.iter().map(name).collect::<Vec<_>>().join(","))
    }
}

as_text!(GroupKind, ChurnShape);

/// The groups of a workload in force.
#[derive(Clone, Debug)]
pub struct Groups {
    pub count: u32,
    /// Of one group its name, of several what their names begin with.
    pub name: String,
    /// Of each group.
    pub members: u32,
    pub kind: GroupKind,
    pub static_members: bool,
    pub session: Duration,
    pub heartbeat: Duration,
    pub commit_interval: Duration,
    pub churn: Option<ChurnShape>,
    pub churn_interval: Duration,
    pub churn_away: Duration,
}

/// Members, or groups, that make sense.
const COUNT_MAX: u32 = 10_000;
/// How long a broker takes a member of the `consumer` protocol for alive, unless it is set otherwise.
const BROKER_SESSION: Duration = Duration::from_secs(45);

impl Groups {
    /// The groups that these keys ask for, if they do.
    pub(super) fn new(keys: &Keys) -> Result<Option<Self>, Invalid> {
        let number = count("groups", keys.groups, 0, 0, COUNT_MAX)?;
        if number == 0 {
            let given = [
                ("group", keys.group.is_some()),
                ("members", keys.members.is_some()),
                ("group-protocol", keys.group_protocol.is_some()),
                ("static-members", keys.static_members.is_some()),
                ("churn", keys.churn.is_some()),
            ];
            return match given.iter().find(|(_, given)| *given) {
                Some((key, _)) => Err(Invalid(format!("{key}: there are no groups: groups = 1 has one"))),
                None => Ok(None),
            };
        }
        let groups = Self {
            count: number,
            name: keys.group.clone().or_else(|| keys.topic.clone()).unwrap_or_else(|| "loadgen".into()),
            members: count("members", keys.members, 1, 1, COUNT_MAX)?,
            kind: keys.group_protocol.unwrap_or_default(),
            static_members: keys.static_members.unwrap_or(false),
            session: span(keys.session_timeout, Duration::from_secs(45)),
            heartbeat: span(keys.heartbeat_interval, Duration::from_secs(3)),
            commit_interval: span(keys.commit_interval, Duration::from_secs(5)),
            churn: keys.churn.clone(),
            churn_interval: span(keys.churn_interval, Duration::from_secs(5)),
            churn_away: span(keys.churn_away, Duration::from_millis(500)),
        };
        groups.check().map(Some)
    }

    fn check(self) -> Result<Self, Invalid> {
        let has = |churn: Churn| self.churn.as_ref().is_some_and(|shape| shape.has(churn));
        let refused = if self.heartbeat >= self.session {
            "heartbeat-interval must be shorter than session-timeout"
        } else if self.commit_interval.is_zero() || self.heartbeat.is_zero() || self.churn_interval.is_zero() {
            "commit-interval, heartbeat-interval and churn-interval must be longer than nothing"
        } else if has(Churn::Restart) && !self.static_members {
            "churn = restart wants static-members = true: others are not known again"
        } else if has(Churn::Leave) && self.static_members {
            "churn = leave wants static-members = false: a static member does not say that it leaves"
        } else if has(Churn::Kill) && self.static_members && self.kind.0 == GroupProtocol::Consumer {
            "churn = kill wants static-members = false with the protocol consumer: the name is not free before the session's end"
        } else {
            return Ok(self);
        };
        Err(Invalid(refused.into()))
    }

    /// How long nobody may notice that a member is gone.
    pub(super) fn unnoticed(&self) -> Duration {
        let is_silent = self.churn.as_ref().is_some_and(|shape| shape.has(Churn::Kill));
        match self.kind.0 {
            _ if !is_silent => Duration::ZERO,
            GroupProtocol::Classic => self.session,
            GroupProtocol::Consumer => BROKER_SESSION,
        }
    }

    /// The name of a group, by its number.
    #[must_use]
    pub fn group_name(&self, group: u32) -> String {
        if self.count == 1 { self.name.clone() } else { format!("{}-{group}", self.name) }
    }

    /// The keys as they are in force.
    pub(super) fn described(&self) -> Keys {
        Keys {
            groups: Some(self.count),
            group: Some(self.name.clone()),
            members: Some(self.members),
            group_protocol: Some(self.kind),
            static_members: Some(self.static_members),
            session_timeout: Some(Span(self.session)),
            heartbeat_interval: Some(Span(self.heartbeat)),
            commit_interval: Some(Span(self.commit_interval)),
            churn: self.churn.clone(),
            churn_interval: Some(Span(self.churn_interval)),
            churn_away: Some(Span(self.churn_away)),
            ..Keys::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_go_take_turns() {
        let shape: ChurnShape = "leave,kill".parse().expect("a shape");
        assert_eq!([0, 1, 2].map(|turn| shape.of_turn(turn)), [Churn::Leave, Churn::Kill, Churn::Leave]);
        assert_eq!(shape.to_string(), "leave,kill");
        assert!("leave,".parse::<ChurnShape>().is_err() && "new".parse::<GroupKind>().is_err());
    }

    #[test]
    fn what_is_waited_for_at_the_end_grows_with_the_session_of_who_was_killed() {
        let drain = |text: &str| {
            let keys = Keys::parse(text).expect("keys");
            crate::workload::Workload::new(&keys).expect("valid").drain.as_secs()
        };
        for (text, seconds) in [
            ("groups = 1", 30),
            ("groups = 1\nchurn = \"leave\"", 30),
            ("groups = 1\nchurn = \"kill\"\nsession-timeout = \"10s\"", 40),
            ("groups = 1\nchurn = \"leave,kill\"\ngroup-protocol = \"consumer\"", 75),
            ("groups = 1\nchurn = \"kill\"\ndrain = \"5s\"", 5),
        ] {
            assert_eq!(drain(text), seconds, "{text}");
        }
    }
}
