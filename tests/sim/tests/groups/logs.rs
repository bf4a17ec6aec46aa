//! The logs that are compacted: the one of the topic that has a writer, whose every record is known, and those that groups are kept in,
//! which somebody reads along from their beginning.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Offset, PartitionIndex, Uuid};
use sim::compacted::{Remains, Row, Rules, check, split};
use wire::messages::fetch::FetchPartition;
use wire::messages::metadata::{MetadataRequest, MetadataResponse};

use crate::model::KEYED;
use crate::seat::{Link, fetch_of};

pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// What was read along of one log.
#[derive(Clone, Default)]
pub struct Trail {
    next: i64,
    /// Of each key the last record, and where it is.
    last: BTreeMap<Vec<u8>, (i64, Row)>,
    /// Below it something was gone before it was read: tombstones perhaps.
    blind_below: i64,
}

impl Trail {
    fn follow(&mut self, remains: &Remains) {
        let is_whole = remains.base == self.next && remains.rows.len() as i64 == remains.last + 1 - remains.base;
        if !is_whole {
            self.blind_below = remains.last + 1;
        }
        for (offset, row) in remains.rows.range(self.next..) {
            self.last.insert(row.key.clone(), (*offset, row.clone()));
        }
        self.next = remains.last + 1;
    }

    /// Holds a log as it is now, up to where the trail goes, to what was read along.
    ///
    /// # Errors
    /// The last value of a key is gone, or an older one is back.
    fn compare(&self, now: &Self) -> Result<(), String> {
        // What was written since the trail ends is none of its business.
        for (key, (offset, row)) in now.last.iter().filter(|(_, (offset, _))| *offset < self.next) {
            match self.last.get(key) {
                Some((known, same)) if (known, same) == (offset, row) => {}
                Some((known, _)) if *known > *offset => {
                    return Err(format!("{row:?} at offset {offset} is back, which offset {known} had replaced"));
                }
                known => return Err(format!("{row:?} is at offset {offset}, where {known:?} was read")),
            }
        }
        let is_gone = |(key, (offset, row)): &(&Vec<u8>, &(i64, Row))| {
            !now.last.contains_key(*key) && row.value.is_some() && *offset >= self.blind_below
        };
        match self.last.iter().find(is_gone) {
            Some((_, (offset, row))) => Err(format!("the last record of its key is gone: {row:?} at offset {offset}")),
            None => Ok(()),
        }
    }
}

/// The id of the topic that groups are kept in, and how many partitions it has.
pub async fn find_offsets_topic(link: &mut Link) -> Option<(Uuid, usize)> {
    while !link.is_over() {
        let request = MetadataRequest { topics: None, allow_auto_topic_creation: false, ..Default::default() };
        let Some(reply) = link.call(&request, Duration::ZERO).await else { continue };
        let response: MetadataResponse<'_> = reply.decode().expect("an answer of the protocol");
        if let Some(topic) = response.topics.iter().find(|topic| topic.name == Some(OFFSETS_TOPIC)) {
            return Some((topic.topic_id, topic.partitions.len()));
        }
        link.pause(200).await;
    }
    None
}

/// Reads a partition from where a trail is to its end; the batches too.
async fn read_to_end(link: &mut Link, topic: (&str, Uuid), index: i32, trail: &mut Trail) -> Vec<Remains> {
    let mut found = Vec::new();
    while !link.is_over() {
        let partitions = [FetchPartition {
            partition: PartitionIndex(index),
            fetch_offset: Offset(trail.next),
            partition_max_bytes: 1 << 20,
            ..Default::default()
        }];
        let Some((high_watermark, records)) = fetch_of(link, topic.0, topic.1, &partitions).await else { continue };
        match split(&records) {
            Ok(remains) => {
                for remains in remains {
                    trail.follow(&remains);
                    found.push(remains);
                }
            }
            Err(why) => link.model.borrow_mut().fail(format!("{}-{index}: {why}", topic.0)),
        }
        if trail.next >= high_watermark {
            break;
        }
    }
    found
}

/// Reads the logs of groups along.
pub async fn follow_loop(mut link: Link, trails: std::rc::Rc<std::cell::RefCell<Vec<Trail>>>) {
    if let Some((id, count)) = find_offsets_topic(&mut link).await {
        trails.borrow_mut().resize(count, Trail::default());
        while !link.is_over() {
            for index in 0..count {
                let mut trail = trails.borrow()[index].clone();
                read_to_end(&mut link, (OFFSETS_TOPIC, id), index as i32, &mut trail).await;
                trails.borrow_mut()[index] = trail;
            }
            link.pause(4000).await;
        }
    }
    link.model.borrow_mut().working -= 1;
}

/// Holds all logs, as they are in the end, to what is known of them.
pub async fn check_logs(link: &mut Link, trails: &mut [Trail]) {
    let Some((id, _)) = find_offsets_topic(link).await else { return };
    for (index, trail) in trails.iter_mut().enumerate() {
        let topic = (OFFSETS_TOPIC, id);
        read_to_end(link, topic, index as i32, trail).await;
        let mut now = Trail::default();
        read_to_end(link, topic, index as i32, &mut now).await;
        if now.blind_below > 0 {
            link.hit("log of groups was compacted");
        }
        if let Err(why) = trail.compare(&now) {
            link.model.borrow_mut().fail(format!("{OFFSETS_TOPIC}-{index}: {why}"));
        }
    }
    check_written(link).await;
}

/// What a reader from the beginning ends up with: the last value of each key.
fn values<'a>(rows: impl Iterator<Item = &'a Row>) -> BTreeMap<&'a [u8], (usize, [u8; 8])> {
    let mut values = BTreeMap::new();
    for row in rows {
        match row.value {
            Some(value) => _ = values.insert(&row.key[..], value),
            None => _ = values.remove(&row.key[..]),
        }
    }
    values
}

/// Holds the logs that have a writer to what was written.
async fn check_written(link: &mut Link) {
    let topics: Vec<_> = {
        let model = link.model.borrow();
        model.topics.iter().map(|topic| (topic.name, topic.id, topic.partitions.len())).collect()
    };
    for (number, (name, id, count)) in topics.into_iter().enumerate() {
        for index in 0..count {
            let mut trail = Trail::default();
            let mut found = read_to_end(link, (name, id), index as i32, &mut trail).await;
            // Starts raise it, and no answer says it.
            found.iter_mut().for_each(|remains| remains.epoch = 0);
            let mut model = link.model.borrow_mut();
            let rules = Rules { tombstones_go: number == KEYED, producers_stay: true };
            let model = &mut *model;
            let partition = &model.topics[number].partitions[index];
            let end = partition.end();
            if values(partition.written.iter().flat_map(|written| &written.rows))
                != values(found.iter().flat_map(|remains| remains.rows.values()))
            {
                model.fail(format!("{name}-{index}: the log does not come to the last value of each key"));
                return;
            }
            match check(&partition.written, 0, end, &found, rules) {
                Ok(missing) if number == KEYED => {
                    if missing.records > 0 {
                        model.register.hit("topic with keys was compacted");
                    }
                    if missing.tombstones > 0 {
                        model.register.hit("tombstone went");
                    }
                }
                Ok(missing) if missing.records > 0 => model.fail(format!("{name}-{index}: {missing:?}")),
                Ok(_) => {}
                Err(why) => model.fail(format!("{name}-{index}: {why}")),
            }
        }
    }
}
