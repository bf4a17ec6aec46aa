//! The queue of a partition by tables: what leaves when, under which sequence, and what becomes of it.

use std::time::Duration;

use base::{BrokerId, Instant, Offset, PartitionIndex, ProducerEpoch, ProducerId, WallTime};
use record::BatchOptions;
use wire::ErrorCode;

use super::batch::{Acknowledged, Batch, Delivery, DeliveryError};
use super::queue::{Appending, PartitionQueue, QueueOptions, Verdict, Wants};
use crate::Error;
use crate::wait::RetryOptions;

const HERE: BrokerId = BrokerId(1);

struct Bench {
    queue: PartitionQueue,
    options: QueueOptions,
    now: Instant,
    next_id: u64,
    in_flight: Vec<Batch>,
    deliveries: Vec<Delivery>,
}

impl Bench {
    fn new(idempotent: bool) -> Self {
        let options = QueueOptions {
            batch: BatchOptions::default(),
            batch_bytes: 10_000,
            linger: Duration::from_millis(5),
            delivery_timeout: Duration::from_secs(10),
            idempotent,
            in_flight_max: 5,
            retries: true,
            retry: RetryOptions { delay_min: Duration::from_millis(100), delay_max: Duration::from_millis(100) },
        };
        let queue = PartitionQueue::new(PartitionIndex(0), &options);
        let (now, in_flight, deliveries) = (Instant(0), Vec::new(), Vec::new());
        let mut bench = Self { queue, options, now, next_id: 0, in_flight, deliveries };
        if idempotent {
            bench.queue.set_identity((ProducerId(7), ProducerEpoch(0)));
        }
        bench
    }

    /// One sealed batch of `records` records for each number.
    fn batches(mut self, records: &[usize]) -> Self {
        for count in records {
            for _ in 0..*count {
                let record =
                    Appending { timestamp: WallTime(0), key: None, value: None, headers: &[], reserved_bytes: 1 };
                let appended = self.queue.append(&record, self.next_id, self.now, &self.options);
                self.deliveries.push(appended.expect("small").0);
            }
            self.queue.seal();
            self.next_id += 1;
        }
        self
    }

    /// Takes all that may leave now; the ids and first sequences.
    fn take(&mut self) -> Vec<(u64, i32)> {
        let mut taken = Vec::new();
        while let Some(batch) = self.queue.take(HERE, self.now, false, &self.options) {
            taken.push((batch.id, batch.stamp.map_or(-1, |stamp| stamp.base_sequence)));
            self.in_flight.push(batch);
        }
        taken
    }

    /// Answers a batch that is on its way. True when it is resolved.
    fn answer(&mut self, id: u64, verdict: Verdict) -> bool {
        let place = self.in_flight.iter().position(|batch| batch.id == id).expect("on its way");
        let batch = self.in_flight.remove(place);
        // 200 is the middle of the random part: delays are exact.
        self.queue.answered(batch, verdict, self.now, 200, &self.options).is_some()
    }

    fn later(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
    }

    /// What became of the record, in a word.
    fn outcome(&self, record: usize) -> &'static str {
        match self.deliveries[record].try_outcome() {
            None => "open",
            Some(Ok(_)) => "acknowledged",
            Some(Err(DeliveryError::OutOfOrderSequence)) => "lost",
            Some(Err(DeliveryError::Refused { .. })) => "refused",
            Some(Err(DeliveryError::Unknown { .. })) => "unknown",
            Some(Err(DeliveryError::Expired { .. })) => "expired",
            Some(Err(DeliveryError::Fenced { .. })) => "fenced",
            Some(Err(other)) => panic!("{other}"),
        }
    }
}

fn acknowledged() -> Verdict {
    Verdict::Acknowledged(Acknowledged { base_offset: Some(Offset(0)), append_time: None })
}

fn refused(code: ErrorCode) -> Verdict {
    Verdict::Refused { code, message: None }
}

fn closed() -> Verdict {
    Verdict::Failed(Error::Closed { address: "a:1".into(), cause: "test".into() })
}

#[test]
fn batches_leave_in_order_with_sequences_that_follow_one_another() {
    let mut bench = Bench::new(true).batches(&[3, 1, 2, 1, 1, 1]);
    assert_eq!(bench.take(), [(0, 0), (1, 3), (2, 4), (3, 6), (4, 7)], "five are on their way");
    assert!(bench.answer(0, acknowledged()));
    assert_eq!(bench.take(), [(5, 8)]);
    let mut bench = Bench::new(false).batches(&[1, 1]);
    assert_eq!(bench.take(), [(0, -1), (1, -1)], "no sequences without an identity");
}

#[test]
fn after_a_failure_nothing_leaves_until_all_answers_are_in() {
    let mut bench = Bench::new(true).batches(&[1, 1, 1, 1]);
    assert_eq!(bench.take().len(), 4);
    assert!(!bench.answer(0, refused(ErrorCode::NotLeaderOrFollower)));
    bench.later(200);
    assert_eq!(bench.take(), [], "others are on their way");
    for id in [1, 2, 3] {
        assert!(!bench.answer(id, refused(ErrorCode::OutOfOrderSequenceNumber)));
    }
    assert_eq!(bench.take(), [(0, 0), (1, 1), (2, 2), (3, 3)]);
}

#[test]
fn tries_are_spaced_and_end() {
    let mut bench = Bench::new(true).batches(&[1]);
    for _ in 0..3 {
        assert_eq!(bench.take(), [(0, 0)]);
        assert!(!bench.answer(0, closed()));
        assert_eq!(bench.take(), []);
        bench.later(99);
        assert_eq!(bench.take(), []);
        bench.later(1);
    }
    bench.later(9_700);
    assert_eq!(bench.queue.expire(bench.now, &bench.options).len(), 1);
    assert_eq!(bench.outcome(0), "unknown");
    let mut fresh = Bench::new(true).batches(&[1]);
    fresh.later(10_000);
    assert_eq!(fresh.queue.expire(fresh.now, &fresh.options).len(), 1);
    assert_eq!((fresh.outcome(0), fresh.queue.wants_identity()), ("expired", Wants::Nothing), "no number was used");
}

#[test]
fn a_batch_that_is_given_up_breaks_the_sequence_and_the_rest_goes_on_under_another_identity() {
    // The first batch's end; what its records are told.
    let table = [
        (refused(ErrorCode::OutOfOrderSequenceNumber), "lost"),
        (refused(ErrorCode::MessageTooLarge), "refused"),
        (refused(ErrorCode::InvalidRecord), "refused"),
        (refused(ErrorCode::ProducerFenced), "fenced"),
    ];
    for (verdict, told) in table {
        let mut bench = Bench::new(true).batches(&[1, 1, 1, 1]);
        assert_eq!(bench.take().len(), 4);
        assert!(bench.answer(0, verdict));
        assert_eq!(bench.outcome(0), told);
        // The second was not written, for the first was not; of the third nobody knows.
        assert!(!bench.answer(1, refused(ErrorCode::OutOfOrderSequenceNumber)));
        assert!(!bench.answer(2, closed()));
        assert!(!bench.answer(3, refused(ErrorCode::OutOfOrderSequenceNumber)));
        let old = (ProducerId(7), ProducerEpoch(0));
        assert_eq!(bench.queue.wants_identity(), Wants::Nothing, "the third still has its number");
        bench.later(200);
        assert_eq!(bench.take(), [(2, 2)], "it is tried under it, though the second waits for another identity");
        assert!(!bench.answer(2, refused(ErrorCode::OutOfOrderSequenceNumber)));
        assert_eq!(bench.take(), []);
        assert_eq!(bench.queue.wants_identity(), Wants::OtherThan(old));
        bench.queue.set_identity((ProducerId(8), ProducerEpoch(0)));
        assert_eq!(bench.take(), [(1, 0), (2, 1), (3, 2)]);
        // A time-out breaks it too, and says that the batch may have been written.
        assert!(!bench.answer(1, closed()));
        bench.later(10_000);
        assert_eq!(bench.queue.expire(bench.now, &bench.options).len(), 1);
        assert_eq!(bench.outcome(1), "unknown");
    }
}

#[test]
fn a_number_that_the_broker_has_seen_counts_as_acknowledged() {
    let mut bench = Bench::new(true).batches(&[1, 1]);
    assert_eq!(bench.take().len(), 2);
    assert!(!bench.answer(0, closed()));
    assert!(bench.answer(1, acknowledged()), "so the first was written too");
    bench.later(200);
    assert_eq!(bench.take(), [(0, 0)]);
    assert!(bench.answer(0, refused(ErrorCode::OutOfOrderSequenceNumber)));
    assert_eq!(bench.outcome(0), "acknowledged");
    assert!(bench.queue.wants_identity() == Wants::Nothing);
    let mut bench = Bench::new(true).batches(&[1]);
    assert_eq!(bench.take().len(), 1);
    assert!(bench.answer(0, refused(ErrorCode::DuplicateSequenceNumber)));
    assert_eq!(bench.outcome(0), "acknowledged");
}

#[test]
fn the_broker_s_memory_of_five_batches_is_never_outrun() {
    let mut bench = Bench::new(true).batches(&[1; 12]);
    assert_eq!(bench.take().len(), 5);
    assert!(!bench.answer(0, refused(ErrorCode::NotEnoughReplicas)));
    (1..5).for_each(|id| assert!(bench.answer(id, acknowledged())));
    bench.later(200);
    assert_eq!(bench.take(), [(0, 0)], "four acknowledged ones follow it: a sixth would make the broker forget it");
    assert!(bench.answer(0, acknowledged()));
    assert_eq!(bench.take().len(), 5);
}

#[test]
fn an_unknown_producer_id_is_a_reason_to_begin_anew() {
    let mut bench = Bench::new(true).batches(&[1, 1]);
    assert_eq!(bench.take().len(), 2);
    assert!(!bench.answer(0, refused(ErrorCode::UnknownProducerId)));
    assert!(!bench.answer(1, refused(ErrorCode::UnknownProducerId)));
    assert_eq!(bench.take(), []);
    bench.queue.set_identity((ProducerId(8), ProducerEpoch(0)));
    assert_eq!(bench.take(), [(0, 0), (1, 1)]);
}

#[test]
fn a_new_leader_gets_nothing_while_the_old_one_owes_answers() {
    let mut bench = Bench::new(true).batches(&[1, 1]);
    let first = bench.queue.take(HERE, bench.now, false, &bench.options).expect("sealed");
    assert!(bench.queue.take(BrokerId(2), bench.now, false, &bench.options).is_none());
    bench.queue.answered(first, acknowledged(), bench.now, 0, &bench.options);
    assert!(bench.queue.take(BrokerId(2), bench.now, false, &bench.options).is_some());
}

#[test]
fn an_open_batch_lingers_unless_somebody_waits() {
    let mut bench = Bench::new(true);
    let record = Appending { timestamp: WallTime(0), key: None, value: None, headers: &[], reserved_bytes: 1 };
    let (delivery, opened) = bench.queue.append(&record, 0, bench.now, &bench.options).expect("small");
    assert!(opened);
    assert_eq!(bench.take(), []);
    assert_eq!(bench.queue.deadline(bench.now, &bench.options), Some(Instant(5_000_000)));
    bench.later(5);
    assert_eq!(bench.take(), [(0, 0)]);
    let (_, opened) = bench.queue.append(&record, 1, bench.now, &bench.options).expect("small");
    assert!(opened);
    assert!(bench.queue.take(HERE, bench.now, true, &bench.options).is_some(), "urgent");
    drop(delivery);
}
