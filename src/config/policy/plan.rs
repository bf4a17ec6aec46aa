//! What takes the topics of a cluster to what a policy declares: a pure comparison.
//!
//! What a policy does not name is left alone, and a setting that already has the declared value, its own or by default, needs nothing: a plan
//! that was carried out leaves an empty one.

use std::collections::BTreeMap;

use super::declared::DeclaredTopic;
use crate::config::topic::Setting;

/// A topic as it is.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct LiveTopic {
    pub partitions: usize,
    pub replication_factor: usize,
    /// By Kafka's names.
    pub settings: BTreeMap<String, LiveSetting>,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct LiveSetting {
    pub value: Option<String>,
    /// Given to the topic, not a default.
    pub is_own: bool,
}

/// One change of a topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    Create {
        /// `None`: the broker's default, as for the next.
        partitions: Option<i32>,
        replication_factor: Option<i16>,
        settings: BTreeMap<&'static str, String>,
    },
    /// From then on records of a key may go to another partition than its earlier ones.
    AddPartitions {
        from: usize,
        to: i32,
    },
    Set {
        setting: &'static str,
        from: Option<String>,
        to: String,
    },
    /// `to` is the default, where there is one.
    Reset {
        setting: &'static str,
        from: Option<String>,
        to: Option<String>,
    },
    /// What is declared can't be had; nothing of the plan is to be carried out.
    Impossible {
        what: String,
        from: Option<String>,
        to: Option<String>,
        reason: String,
    },
}

/// The changes of one topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicPlan {
    pub topic: String,
    pub steps: Vec<Step>,
}

/// The topics that need changes, in the order in which they are declared, with all of their changes.
#[must_use]
pub fn plan(declared: &[DeclaredTopic], live: &BTreeMap<String, LiveTopic>) -> Vec<TopicPlan> {
    let steps = |topic: &DeclaredTopic| match live.get(&topic.name) {
        Some(live) => steps(topic, live),
        None => vec![Step::Create {
            partitions: topic.partitions,
            replication_factor: topic.replication_factor,
            settings: topic.settings.clone(),
        }],
    };
    let plans = declared.iter().map(|topic| TopicPlan { topic: topic.name.clone(), steps: steps(topic) });
    plans.filter(|plan| !plan.steps.is_empty()).collect()
}

fn steps(declared: &DeclaredTopic, live: &LiveTopic) -> Vec<Step> {
    let mut steps = Vec::new();
    let impossible = |what: &str, from: usize, to: String, reason: &str| Step::Impossible {
        what: what.to_owned(),
        from: Some(from.to_string()),
        to: Some(to),
        reason: reason.to_owned(),
    };
    if let Some(to) = declared.replication_factor
        && usize::try_from(to) != Ok(live.replication_factor)
    {
        let reason = "the copies of an existing topic can't be changed by a policy";
        steps.push(impossible("replication factor", live.replication_factor, to.to_string(), reason));
    }
    if let Some(to) = declared.partitions {
        let (from, wanted) = (live.partitions, usize::try_from(to).unwrap_or(0));
        if wanted < from {
            steps.push(impossible("partitions", from, to.to_string(), "their number only grows"));
        } else if wanted > from {
            steps.push(Step::AddPartitions { from, to });
        }
    }
    for (&setting, to) in &declared.settings {
        let from = live.settings.get(setting).and_then(|live| live.value.clone());
        let is_same = |from: &String| Setting::named(setting).is_ok_and(|setting| setting.is_same(from, to));
        if !from.as_ref().is_some_and(is_same) {
            steps.push(Step::Set { setting, from, to: to.clone() });
        }
    }
    for &setting in &declared.reset {
        if let Some(own) = live.settings.get(setting).filter(|live| live.is_own) {
            let to = Setting::named(setting).ok().and_then(Setting::default_value);
            steps.push(Step::Reset { setting, from: own.value.clone(), to });
        }
    }
    steps
}
