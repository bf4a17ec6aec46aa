//! Settings of single groups, by Kafka's names (`ConfigResource.Type` 32): those of groups whose coordinator assigns the partitions (KIP-848).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::node::NodeConfig;
use super::topic::InvalidSetting;

/// What a group has of its own; what it has not is the node's.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GroupSettings {
    pub session_timeout_ms: Option<i32>,
    pub heartbeat_interval_ms: Option<i32>,
}

/// A group's own settings: as they were given, and what they come to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnSettings {
    pub given: BTreeMap<String, String>,
    pub settings: GroupSettings,
}

/// The groups that have settings of their own, by name.
pub type OwnSettingsOfGroups = BTreeMap<String, OwnSettings>;

/// One setting that a group may have of its own.
pub struct GroupSetting {
    pub name: &'static str,
    /// What the setting of all groups is called.
    pub broker_name: &'static str,
    pub doc: &'static str,
    /// Kafka's bounds (`group.consumer.min.…`, `group.consumer.max.…`), as far as the node's own value is within them.
    bounds: (i32, i32),
    node: fn(&NodeConfig) -> i32,
    own: fn(&mut GroupSettings) -> &mut Option<i32>,
}

/// In name order.
pub const GROUP_SETTINGS: [GroupSetting; 2] = [
    GroupSetting {
        name: "consumer.heartbeat.interval.ms",
        broker_name: "group.consumer.heartbeat.interval.ms",
        doc: "How often a member is asked to be heard of whose broker assigns it its partitions (KIP-848).",
        bounds: (5_000, 15_000),
        node: |node| node.group_consumer_heartbeat_interval_ms,
        own: |settings| &mut settings.heartbeat_interval_ms,
    },
    GroupSetting {
        name: "consumer.session.timeout.ms",
        broker_name: "group.consumer.session.timeout.ms",
        doc: "How long a member may be silent whose broker assigns it its partitions (KIP-848).",
        bounds: (45_000, 60_000),
        node: |node| node.group_consumer_session_timeout_ms,
        own: |settings| &mut settings.session_timeout_ms,
    },
];

impl GroupSetting {
    fn named(name: &str) -> Result<&'static Self, InvalidSetting> {
        let known = GROUP_SETTINGS.iter().find(|setting| setting.name == name);
        known.ok_or_else(|| InvalidSetting(format!("Unknown group config name: {name}")))
    }

    /// The value for all groups.
    #[must_use]
    pub fn of_node(&self, node: &NodeConfig) -> i32 {
        (self.node)(node)
    }

    /// What a group may have instead.
    fn bounds(&self, node: &NodeConfig) -> RangeInclusive<i32> {
        let (of_node, (min, max)) = (self.of_node(node), self.bounds);
        of_node.min(min)..=of_node.max(max)
    }
}

impl GroupSettings {
    /// Settings that a group is to have.
    ///
    /// # Errors
    /// The first that is unknown or out of bounds; or a heartbeat that would not come within the session.
    pub fn check<'a>(
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
        node: &NodeConfig,
    ) -> Result<Self, InvalidSetting> {
        let mut settings = Self::default();
        for (name, value) in given {
            let setting = GroupSetting::named(name)?;
            let bounds = setting.bounds(node);
            let value = value.trim();
            let number = value.parse().map_err(|_| {
                InvalidSetting(format!("Invalid value {value} for configuration {name}: Not a number of type INT"))
            })?;
            if !bounds.contains(&number) {
                let (min, max) = bounds.into_inner();
                return Err(InvalidSetting(format!("{name} must be in the range {min} to {max} inclusive.")));
            }
            *(setting.own)(&mut settings) = Some(number);
        }
        let (heartbeat, session) = settings.effective(node);
        if heartbeat >= session {
            let [heartbeat, session] = GROUP_SETTINGS.map(|setting| setting.name);
            return Err(InvalidSetting(format!("{session} must be greater than {heartbeat}.")));
        }
        Ok(settings)
    }

    /// Settings that a group was given once, under whatever bounds the node had then: the nearest that it may have now.
    #[must_use]
    pub fn kept(own: &BTreeMap<String, String>, node: &NodeConfig) -> Self {
        let mut settings = Self::default();
        for setting in &GROUP_SETTINGS {
            let number = own.get(setting.name).and_then(|value| value.trim().parse::<i32>().ok());
            let (min, max) = setting.bounds(node).into_inner();
            *(setting.own)(&mut settings) = number.map(|number| number.clamp(min, max));
        }
        let (heartbeat, session) = settings.effective(node);
        if heartbeat < session { settings } else { Self::default() }
    }

    /// The interval of heartbeats and the session's time-out, in milliseconds.
    fn effective(self, node: &NodeConfig) -> (i32, i32) {
        let heartbeat = self.heartbeat_interval_ms.unwrap_or(node.group_consumer_heartbeat_interval_ms);
        (heartbeat, self.session_timeout_ms.unwrap_or(node.group_consumer_session_timeout_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(session: i32, heartbeat: i32) -> NodeConfig {
        NodeConfig {
            group_consumer_session_timeout_ms: session,
            group_consumer_heartbeat_interval_ms: heartbeat,
            ..NodeConfig::default()
        }
    }

    #[test]
    fn a_groups_settings_are_within_bounds() {
        const SESSION: &str = "consumer.session.timeout.ms";
        const HEARTBEAT: &str = "consumer.heartbeat.interval.ms";
        let default = NodeConfig::default();
        let short = node(6_000, 1_000);
        for (node, given, expected) in [
            (&default, vec![], Ok((None, None))),
            (&default, vec![(SESSION, "50000")], Ok((Some(50_000), None))),
            (&default, vec![(SESSION, " 60000 "), (HEARTBEAT, "5000")], Ok((Some(60_000), Some(5_000)))),
            (
                &default,
                vec![(SESSION, "44999")],
                Err("consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive."),
            ),
            (
                &default,
                vec![(HEARTBEAT, "15001")],
                Err("consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive."),
            ),
            (
                &default,
                vec![(HEARTBEAT, "a")],
                Err("Invalid value a for configuration consumer.heartbeat.interval.ms: Not a number of type INT"),
            ),
            (
                &default,
                vec![("share.session.timeout.ms", "50000")],
                Err("Unknown group config name: share.session.timeout.ms"),
            ),
            (&short, vec![(SESSION, "7000"), (HEARTBEAT, "2000")], Ok((Some(7_000), Some(2_000)))),
            (
                &short,
                vec![(HEARTBEAT, "6000")],
                Err("consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms."),
            ),
        ] {
            let checked = GroupSettings::check(given.clone(), node);
            let found = checked.as_ref().map(|own| (own.session_timeout_ms, own.heartbeat_interval_ms));
            assert_eq!(found.map_err(|error| error.0.as_str()), expected, "{given:?}");
        }
    }

    #[test]
    fn what_was_kept_under_other_bounds_is_the_nearest_that_may_be() {
        let own = |session: &str, heartbeat: &str| {
            BTreeMap::from([
                ("consumer.session.timeout.ms".to_owned(), session.to_owned()),
                ("consumer.heartbeat.interval.ms".to_owned(), heartbeat.to_owned()),
                ("of.a.later.version".to_owned(), "1".to_owned()),
            ])
        };
        let kept = |own, node: &NodeConfig| {
            let kept = GroupSettings::kept(&own, node);
            (kept.session_timeout_ms, kept.heartbeat_interval_ms)
        };
        assert_eq!(kept(own("6000", "1000"), &NodeConfig::default()), (Some(45_000), Some(5_000)));
        assert_eq!(kept(own("7000", "2000"), &node(6_000, 1_000)), (Some(7_000), Some(2_000)));
        assert_eq!(kept(own("6000", "9000"), &node(6_000, 1_000)), (None, None), "not one within the other");
        assert_eq!(kept(own("", "x"), &NodeConfig::default()), (None, None));
    }
}
