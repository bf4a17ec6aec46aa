//! What was sent, what was acknowledged, what was read: and the judge of every log that is read back.
//!
//! Owner: one test. Pure. A record counts as sent before it is handed to a producer and as acknowledged when its delivery says so.
//!
//! What a log must hold, whatever happened to the broker:
//! - offsets without gaps from 0;
//! - at each offset that was acknowledged for a record, or read before, that very record, byte for byte;
//! - of each stream its records in order from the first one on, none twice and none left out before a later one;
//! - nothing that was not sent to this very log.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use base::{Offset, PartitionIndex};

use crate::payload::{Payload, RecordId};

/// A promise that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation(pub String);

macro_rules! violation {
    ($($what:tt)*) => {
        return Err(Violation(format!($($what)*)))
    };
}

/// A partition of a topic; one that was created again under its old name is another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LogKey {
    pub topic: Rc<str>,
    pub generation: u32,
    pub partition: PartitionIndex,
}

impl std::fmt::Display for LogKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}#{}/{}", self.topic, self.generation, self.partition)
    }
}

/// Whether every record of a stream must be acknowledged in the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promise {
    /// Its producer carries on whatever happens to the broker, and none of its deliveries may fail.
    Settles,
    /// Its producer is dropped with the broker.
    Transient,
}

struct Stream {
    log: LogKey,
    promise: Promise,
    sent: u32,
    /// One more than the highest sequence that was acknowledged.
    acknowledged_end: u32,
}

#[derive(Default)]
struct LogFacts {
    acknowledged: BTreeMap<i64, RecordId>,
    /// What readers found, from offset 0 on.
    seen: Vec<RecordId>,
}

/// Everything that is known from outside the broker.
#[derive(Default)]
pub struct Ledger {
    streams: Vec<Stream>,
    logs: BTreeMap<LogKey, LogFacts>,
    acknowledged: u64,
    record_bytes: Option<usize>,
}

impl Ledger {
    /// A ledger of records that are all of one size.
    #[must_use]
    pub fn of_records(record_bytes: usize) -> Self {
        Self { record_bytes: Some(record_bytes), ..Self::default() }
    }

    /// What the record holds.
    #[must_use]
    pub fn payload(&self, id: RecordId) -> Payload {
        self.record_bytes.map_or_else(|| id.payload(), |bytes| id.payload_of(bytes))
    }

    /// A number for what one producer is going to send to one log.
    pub fn open_stream(&mut self, log: &LogKey, promise: Promise) -> u32 {
        self.logs.entry(log.clone()).or_default();
        self.streams.push(Stream { log: log.clone(), promise, sent: 0, acknowledged_end: 0 });
        u32::try_from(self.streams.len() - 1).expect("a test has fewer streams")
    }

    /// The next record of a stream, from now on counted as sent.
    pub fn send(&mut self, stream: u32) -> RecordId {
        let of = &mut self.streams[stream as usize];
        of.sent += 1;
        RecordId { stream, sequence: of.sent - 1 }
    }

    /// The broker has acknowledged a record.
    ///
    /// # Errors
    /// Two records were told the same offset, or another one was read there.
    pub fn acknowledge(&mut self, id: RecordId, offset: Option<Offset>) -> Result<(), Violation> {
        let stream = &mut self.streams[id.stream as usize];
        stream.acknowledged_end = stream.acknowledged_end.max(id.sequence + 1);
        self.acknowledged += 1;
        let Some(offset) = offset else { return Ok(()) };
        let facts = self.logs.entry(stream.log.clone()).or_default();
        if let Some(other) = facts.acknowledged.insert(offset.0, id).filter(|other| *other != id) {
            violation!("{} at {offset}: acknowledged for {other:?} and for {id:?}", stream.log);
        }
        let seen = usize::try_from(offset.0).ok().and_then(|at| facts.seen.get(at));
        if let Some(other) = seen.filter(|other| **other != id) {
            violation!("{} at {offset}: acknowledged for {id:?}, read was {other:?}", stream.log);
        }
        Ok(())
    }

    /// Records acknowledged so far.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Records sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.streams.iter().map(|stream| u64::from(stream.sent)).sum()
    }

    /// The log was deleted on purpose.
    pub fn forget(&mut self, topic: &str) {
        self.logs.retain(|log, _| &*log.topic != topic);
    }

    /// Whether all that was sent by streams that must settle was acknowledged.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let mut streams = self.streams.iter().filter(|stream| stream.promise == Promise::Settles);
        streams.all(|stream| stream.acknowledged_end == stream.sent)
    }
}

/// One reading of a log from its beginning.
pub struct LogReader {
    log: LogKey,
    next_offset: i64,
    /// Of each stream the sequence that must come next.
    next_sequence: HashMap<u32, u32>,
}

impl LogReader {
    #[must_use]
    pub fn new(log: LogKey) -> Self {
        Self { log, next_offset: 0, next_sequence: HashMap::new() }
    }

    /// The offset that must come next.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Judges one record, and holds the log to it from now on.
    ///
    /// # Errors
    /// A record that must not stand there.
    pub fn record(
        &mut self,
        ledger: &mut Ledger,
        offset: Offset,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<(), Violation> {
        let log = &self.log;
        if offset.0 != self.next_offset {
            violation!("{log}: offset {offset} where {} must be", self.next_offset);
        }
        let Some(id) = value.and_then(RecordId::of) else { violation!("{log} at {offset}: not a record of ours") };
        let Some(stream) = ledger.streams.get(id.stream as usize).filter(|stream| stream.log == *log) else {
            violation!("{log} at {offset}: {id:?} was never sent here");
        };
        if id.sequence >= stream.sent {
            violation!("{log} at {offset}: {id:?} was not sent, only {} were", stream.sent);
        }
        let payload = ledger.payload(id);
        if payload.key.as_deref() != key || Some(payload.value.as_slice()) != value {
            violation!("{log} at {offset}: the bytes of {id:?} have changed");
        }
        let due = self.next_sequence.entry(id.stream).or_default();
        if id.sequence < *due {
            violation!("{log} at {offset}: {id:?} stands there twice, or out of order");
        }
        if id.sequence > *due {
            violation!("{log} at {offset}: {id:?} where sequence {due} is due");
        }
        *due += 1;
        let facts = ledger.logs.entry(log.clone()).or_default();
        if let Some(other) = facts.acknowledged.get(&offset.0).filter(|other| **other != id) {
            violation!("{log} at {offset}: {id:?}, where {other:?} was acknowledged");
        }
        let at = usize::try_from(self.next_offset).expect("counts up from 0");
        match facts.seen.get(at) {
            None => facts.seen.push(id),
            Some(other) if *other == id => {}
            Some(other) => violation!("{log} at {offset}: {id:?}, where {other:?} was read before"),
        }
        self.next_offset += 1;
        Ok(())
    }
}

/// What a log must hold at least, by what was known at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Due {
    log: LogKey,
    /// The end that the log has at least.
    end: i64,
    /// Of each stream the number of records that are there at least.
    records: Vec<(u32, u32)>,
}

impl Ledger {
    /// What `log` must hold from now on, whatever happens.
    #[must_use]
    pub fn due(&self, log: &LogKey) -> Due {
        let facts = self.logs.get(log);
        let acknowledged =
            facts.and_then(|facts| facts.acknowledged.last_key_value()).map_or(0, |(offset, _)| offset + 1);
        let seen = facts.map_or(0, |facts| i64::try_from(facts.seen.len()).unwrap_or(i64::MAX));
        let streams = (0..).zip(&self.streams).filter(|(_, stream)| stream.log == *log);
        let records = streams.map(|(number, stream)| (number, stream.acknowledged_end)).collect();
        Due { log: log.clone(), end: acknowledged.max(seen), records }
    }
}

impl Due {
    /// Judges where the log says that it ends.
    ///
    /// # Errors
    /// Something that was acknowledged or read before lies beyond.
    pub fn check_end(&self, end: Offset) -> Result<(), Violation> {
        if end.0 < self.end {
            violation!("{} ends at {end}, and was acknowledged or read up to {}", self.log, self.end);
        }
        Ok(())
    }

    /// Judges what the reading of the whole log has found.
    ///
    /// # Errors
    /// Something that was acknowledged is missing.
    pub fn check_read(&self, reader: &LogReader) -> Result<(), Violation> {
        self.check_end(Offset(reader.next_offset))?;
        for (stream, due) in &self.records {
            let found = reader.next_sequence.get(stream).copied().unwrap_or(0);
            if found < *due {
                violation!("{}: {found} records of stream {stream}, of which {due} were acknowledged", self.log);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(generation: u32) -> LogKey {
        LogKey { topic: "t".into(), generation, partition: PartitionIndex(0) }
    }

    /// Two streams of four records each, sent in turn, the first six acknowledged where they stand; the log as it should be.
    fn world() -> (Ledger, Vec<RecordId>) {
        let mut ledger = Ledger::default();
        let streams = [ledger.open_stream(&log(0), Promise::Settles), ledger.open_stream(&log(0), Promise::Transient)];
        ledger.open_stream(&log(1), Promise::Settles);
        let ids: Vec<_> = (0..8).map(|n| ledger.send(streams[n % 2])).collect();
        for (offset, id) in (0..6).zip(&ids) {
            ledger.acknowledge(*id, Some(Offset(offset))).expect("as it should be");
        }
        (ledger, ids)
    }

    fn read(ledger: &mut Ledger, records: &[RecordId]) -> Result<(), Violation> {
        let (mut reader, due) = (LogReader::new(log(0)), ledger.due(&log(0)));
        for (offset, id) in (0..).zip(records) {
            let payload = id.payload();
            reader.record(ledger, Offset(offset), payload.key.as_deref(), Some(&payload.value))?;
        }
        due.check_read(&reader)
    }

    #[test]
    fn a_log_may_hold_or_lack_what_was_not_acknowledged() {
        for kept in 6..=8 {
            let (mut ledger, ids) = world();
            assert_eq!(read(&mut ledger, &ids[..kept]), Ok(()));
        }
    }

    #[test]
    fn every_broken_promise_is_seen() {
        type Tamper = fn(&mut Vec<RecordId>);
        let table: &[(&str, Tamper)] = &[
            ("acknowledged or read up to 6", |ids| ids.truncate(5)),
            ("where RecordId", |ids| _ = ids.remove(2)),
            ("where RecordId", |ids| ids.swap(4, 5)),
            ("is due", |ids| ids.swap(4, 6)),
            ("twice", |ids| ids.push(ids[7])),
            ("twice", |ids| ids.insert(2, RecordId { stream: 0, sequence: 1 })),
            ("was not sent", |ids| ids.push(RecordId { stream: 0, sequence: 4 })),
            ("never sent here", |ids| ids.push(RecordId { stream: 2, sequence: 0 })),
            ("never sent here", |ids| ids.push(RecordId { stream: 9, sequence: 0 })),
        ];
        for (word, tamper) in table {
            let (mut ledger, mut ids) = world();
            tamper(&mut ids);
            let violation = read(&mut ledger, &ids).expect_err(word).0;
            assert!(violation.contains(word), "{word}: {violation}");
        }
    }

    #[test]
    fn what_was_read_must_stay() {
        let (mut ledger, ids) = world();
        assert_eq!(read(&mut ledger, &ids), Ok(()));
        let gone = read(&mut ledger, &ids[..7]).expect_err("one is gone").0;
        assert!(gone.contains("acknowledged or read up to 8"), "{gone}");
        let swapped: Vec<_> = ids[..6].iter().chain([&ids[7], &ids[6]]).copied().collect();
        assert!(read(&mut ledger, &swapped).expect_err("swapped").0.contains("was read before"));
        assert!(ledger.acknowledge(ids[6], Some(Offset(7))).is_err());
        assert!(ledger.acknowledge(ids[6], Some(Offset(0))).is_err());
    }

    #[test]
    fn bytes_and_offsets_are_compared() {
        let (mut ledger, ids) = world();
        let payload = ids[0].payload();
        let mut reader = LogReader::new(log(0));
        let mut changed = payload.value.clone();
        *changed.last_mut().expect("has a byte") ^= 1;
        assert!(reader.record(&mut ledger, Offset(0), payload.key.as_deref(), Some(&changed)).is_err());
        assert!(reader.record(&mut ledger, Offset(0), Some(b"another key"), Some(&payload.value)).is_err());
        assert!(reader.record(&mut ledger, Offset(0), payload.key.as_deref(), None).is_err());
        assert!(reader.record(&mut ledger, Offset(1), payload.key.as_deref(), Some(&payload.value)).is_err());
        assert!(reader.record(&mut ledger, Offset(0), payload.key.as_deref(), Some(&payload.value)).is_ok());
    }

    #[test]
    fn an_acknowledgement_without_an_offset_counts_too() {
        let (mut ledger, ids) = world();
        ledger.acknowledge(ids[7], None).expect("no contradiction");
        assert!(read(&mut ledger, &ids[..7]).expect_err("missing").0.contains("were acknowledged"));
    }
}
