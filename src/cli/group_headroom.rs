//! How long retention lets be what a group has not read, by what any broker of the protocol tells: settings, offsets, sizes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{Offset, PartitionIndex, WallTime};
use client::{Client, Error, OffsetSpec, TopicSetting};

type Place = (String, PartitionIndex);

/// Appends of so long tell how fast a partition grows.
const RECENT: Duration = Duration::from_secs(600);

/// What retention goes by in one topic; `None` is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Limits {
    age: Option<Duration>,
    /// Of each partition.
    bytes: Option<u64>,
}

impl Limits {
    fn of(settings: &[TopicSetting], partitions: usize) -> Self {
        let value = |name: &str| settings.iter().find(|setting| setting.name == name)?.value.as_deref();
        if !value("cleanup.policy").unwrap_or("delete").contains("delete") {
            return Self::default();
        }
        let number = |name| value(name)?.parse::<u64>().ok();
        let share = number("retention.topic.bytes").map(|bytes| bytes / partitions.max(1) as u64);
        let own = number("retention.bytes");
        let bytes = own.zip(share).map(|(own, share)| own.min(share)).or(own).or(share);
        Self { age: number("retention.ms").map(Duration::from_millis), bytes }
    }
}

/// What is known of a partition whose group is behind.
#[derive(Clone, Copy, Debug)]
struct Facts {
    committed: Offset,
    start: Offset,
    end: Offset,
    limits: Limits,
    /// Of the next record that the group reads.
    age: Option<Duration>,
    bytes: Option<u64>,
    /// Records appended within [`RECENT`].
    recent: Option<i64>,
}

/// The shorter of two bounds, none of which counts on more than is sure: by age, a segment goes with its newest record, and the one in question may
/// be older; by size, it may have more in its segment before it.
fn headroom(facts: &Facts) -> Option<Duration> {
    let Facts { committed, start, end, limits, age, bytes, recent } = *facts;
    if end <= committed {
        return None;
    }
    if committed < start {
        return Some(Duration::ZERO);
    }
    let by_age = limits.age.zip(age).map(|(limit, age)| limit.saturating_sub(age));
    let by_size = limits.bytes.zip(bytes).zip(recent).and_then(|((limit, bytes), recent)| {
        let record_bytes = bytes as f64 / (end.0 - start.0) as f64;
        let behind_bytes = record_bytes * (end.0 - committed.0) as f64;
        let to_go = (limit as f64 - behind_bytes).max(0.0);
        let a_second = recent as f64 * record_bytes / RECENT.as_secs_f64();
        // Nothing is being appended: that is never.
        Duration::try_from_secs_f64(to_go / a_second).ok()
    });
    by_age.into_iter().chain(by_size).min()
}

/// A time as people say it: its two largest units.
pub fn text(seconds: f64) -> String {
    // Saturates.
    let seconds = seconds.max(0.0) as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m {}s", seconds % 60),
        3600..86400 => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

/// Headroom of each partition of which a group has not read all; none where retention will delete nothing, or it can't be told.
pub async fn headrooms(
    client: &Client,
    now: WallTime,
    committed: &BTreeMap<Place, Offset>,
    ends: &BTreeMap<Place, Offset>,
    ages: &BTreeMap<Place, Duration>,
) -> Result<BTreeMap<Place, Duration>, Error> {
    let behind: Vec<(&Place, Offset, Offset)> = committed
        .iter()
        .filter_map(|(place, committed)| Some((place, *committed, *ends.get(place)?)))
        .filter(|(_, committed, end)| end > committed)
        .collect();
    let limits = limits(client, behind.iter().map(|(place, ..)| place.0.as_str()).collect()).await?;
    let since = OffsetSpec::Time(WallTime(now.0 - i64::try_from(RECENT.as_millis()).unwrap_or(0)));
    let ask = |spec| behind.iter().map(move |(place, ..)| (place.0.as_str(), place.1, spec)).collect::<Vec<_>>();
    let starts = client.list_offsets(&ask(OffsetSpec::Earliest)).await?;
    let recents = client.list_offsets(&ask(since)).await?;
    let places: Vec<_> = behind.iter().map(|(place, ..)| (place.0.as_str(), place.1)).collect();
    let sizes = client.partition_sizes(&places).await?;
    let facts = behind.iter().zip(starts).zip(recents).filter_map(|((&(place, committed, end), start), recent)| {
        let facts = Facts {
            committed,
            start: start.offset?,
            end,
            limits: limits.get(place.0.as_str()).copied()?,
            age: ages.get(place).copied(),
            bytes: sizes.get(place).copied(),
            recent: Some(recent.offset.map_or(0, |since| end.0 - since.0)),
        };
        Some((place, facts))
    });
    Ok(facts.filter_map(|(place, facts)| Some((place.clone(), headroom(&facts)?))).collect())
}

async fn limits(client: &Client, topics: BTreeSet<&str>) -> Result<BTreeMap<String, Limits>, Error> {
    let settings = client.topic_settings(topics.iter().copied()).await?;
    let mut limits = BTreeMap::new();
    for (topic, settings) in settings {
        let partitions = client.topic(&topic).await?.partitions.len();
        limits.insert(topic, Limits::of(&settings, partitions));
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(age_secs: Option<u64>, bytes: Option<u64>) -> Limits {
        Limits { age: age_secs.map(Duration::from_secs), bytes }
    }

    #[test]
    fn times_have_two_units() {
        for (seconds, shown) in [
            (-1.0, "0s"),
            (59.9, "59s"),
            (60.0, "1m 0s"),
            (3599.0, "59m 59s"),
            (3600.0, "1h 0m"),
            (86_399.0, "23h 59m"),
            (604_800.0, "7d 0h"),
            (90_061.0, "1d 1h"),
        ] {
            assert_eq!(text(seconds), shown);
        }
    }

    #[test]
    fn the_limits_of_a_topic() {
        for (settings, partitions, expected) in [
            (
                &[("retention.ms", "60000"), ("retention.bytes", "-1"), ("retention.topic.bytes", "-1")][..],
                1,
                limits(Some(60), None),
            ),
            (
                &[("retention.ms", "-1"), ("retention.bytes", "300"), ("retention.topic.bytes", "1000")],
                4,
                limits(None, Some(250)),
            ),
            (
                &[("retention.ms", "-1"), ("retention.bytes", "200"), ("retention.topic.bytes", "1000")],
                4,
                limits(None, Some(200)),
            ),
            (
                &[("cleanup.policy", "compact"), ("retention.ms", "60000"), ("retention.bytes", "300")],
                1,
                limits(None, None),
            ),
            (&[("cleanup.policy", "compact,delete"), ("retention.ms", "60000")], 1, limits(Some(60), None)),
            (&[], 1, limits(None, None)),
        ] {
            let setting = |(name, value): &(&str, &str)| TopicSetting {
                name: (*name).to_owned(),
                value: Some((*value).to_owned()),
                is_own: false,
            };
            let told: Vec<_> = settings.iter().map(setting).collect();
            assert_eq!(Limits::of(&told, partitions), expected, "{settings:?}");
        }
    }

    #[test]
    fn headroom_is_the_shorter_of_both() {
        // 100 records of 10 bytes from offset 100 on, of which the group has read 40; 60 of them came within ten minutes: a byte a second.
        let facts = Facts {
            committed: Offset(140),
            start: Offset(100),
            end: Offset(200),
            limits: limits(None, None),
            age: Some(Duration::from_secs(50)),
            bytes: Some(1000),
            recent: Some(60),
        };
        let of = |limits: Limits| headroom(&Facts { limits, ..facts }).map(|headroom| headroom.as_secs());
        assert_eq!(of(limits(None, None)), None);
        assert_eq!(of(limits(Some(60), None)), Some(10));
        assert_eq!(of(limits(Some(40), None)), Some(0), "overdue");
        assert_eq!(of(limits(None, Some(1500))), Some(900), "600 bytes of 1500 are behind");
        assert_eq!(of(limits(None, Some(500))), Some(0));
        assert_eq!(of(limits(Some(60), Some(1500))), Some(10));
        assert_eq!(of(limits(Some(5000), Some(1500))), Some(900));
        let limits = limits(Some(60), Some(1500));
        let with = |change: fn(&mut Facts)| {
            let mut facts = Facts { limits, ..facts };
            change(&mut facts);
            headroom(&facts).map(|headroom| headroom.as_secs())
        };
        assert_eq!(with(|facts| facts.committed = facts.end), None, "nothing is unread");
        assert_eq!(with(|facts| facts.committed = Offset(99)), Some(0), "deleted already");
        assert_eq!(with(|facts| (facts.age, facts.recent) = (None, Some(0))), None, "nothing is appended");
        assert_eq!(with(|facts| (facts.age, facts.bytes) = (None, None)), None, "nothing is known");
    }
}
