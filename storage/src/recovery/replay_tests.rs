use super::*;
use crate::journal::codec::{AppendAt, FrameWriter, frame_at};
use crate::recovery::plan::recovery_plan;
use crate::segment::{SegmentMeta, SegmentName};
use crate::testing::batch;
use base::{LeaderEpoch, Offset, PartitionIndex, PlacementEpoch, ShardId, Uuid};

/// Bytes of every batch here: positions are multiples of it.
const BATCH: u64 = 100;
const NOW: WallTime = WallTime(1_000);

fn id(number: i32) -> LogId {
    LogId { topic_id: Uuid([5; 16]), partition: PartitionIndex(number) }
}

fn log() -> LogId {
    id(0)
}

/// One entry of a journal, as a test writes it down.
#[derive(Clone, Copy, Debug)]
enum Step {
    Create(u64),
    Remove,
    /// Segment, position in batches, first offset, batches of one record each.
    Append(i64, u64, i64, i64),
    /// Segment, block position.
    Prefix(i64, u64),
    /// End, segment, its bytes in batches.
    Truncate(i64, i64, u64),
    Start(i64),
    Epoch(i32, i64),
    /// Segment, batches in the one before.
    Roll(i64, u64),
    Placed(u64, i64),
    Released(u64),
    /// Segment, revision, end, its bytes in batches.
    Compacted(i64, u8, i64, u64),
}
use Step::*;

fn put(writer: &mut FrameWriter<'_>, step: Step) {
    let log = log();
    let control = |writer: &mut FrameWriter<'_>, control: Control<'_>| writer.control(&control.encode());
    match step {
        Create(placement) => {
            let placement = PlacementEpoch(placement);
            control(writer, Control::Create { log, placement, created: NOW, topic: "orders" });
        }
        Remove => control(writer, Control::Remove { log }),
        Append(segment, position, first, count) => {
            let bytes: Vec<u8> =
                (first..first + count).flat_map(|offset| batch(offset, 1, BATCH as usize, offset)).collect();
            let (segment, position) = (Offset(segment), position * BATCH);
            let at = AppendAt { log, segment, position, first: Offset(first), last: Offset(first + count - 1) };
            writer.append(&at, &[&bytes]);
        }
        Prefix(segment, position) => writer.block_prefix(log, Offset(segment), position, &[b"prefix"]),
        Truncate(end, segment, batches) => {
            let empty = SegmentMeta::new(Offset(segment), NOW);
            let bytes = batches * BATCH;
            let end_offset = if bytes == 0 { Offset(segment) } else { Offset(end) };
            let segment = SegmentMeta { bytes, end_offset, ..empty };
            control(writer, Control::Truncate { log, end: Offset(end), segment });
        }
        Start(start) => control(writer, Control::StartMoved { log, start: Offset(start) }),
        Epoch(epoch, start) => {
            control(writer, Control::EpochAdopted { log, epoch: LeaderEpoch(epoch), start: Offset(start) });
        }
        Roll(segment, batches) => {
            let (segment, sealed_bytes) = (Offset(segment), batches * BATCH);
            control(writer, Control::Roll { log, segment, sealed_bytes, created: NOW });
        }
        Placed(placement, end) => {
            let record = moved(placement, end).encode();
            control(writer, Control::Placed { record: &record });
        }
        Released(placement) => control(writer, Control::Released { log, placement: PlacementEpoch(placement) }),
        Compacted(base, revision, end, batches) => {
            let (end_offset, bytes) = (Offset(end), batches * BATCH);
            let new = SegmentMeta::new(Offset(base), NOW);
            let segment = SegmentMeta { end_offset, bytes, sealed: true, revision, ..new };
            control(writer, Control::Compacted { log, segment, cleaned_to: end_offset });
        }
    }
}

fn moved(placement: u64, end: i64) -> LogRecord {
    let meta = SegmentMeta::new(Offset(0), NOW);
    let active = SegmentMeta { end_offset: Offset(end), bytes: end as u64 * BATCH, ..meta };
    LogRecord {
        id: log(),
        topic: "orders".into(),
        placement: PlacementEpoch(placement),
        end: Offset(end),
        segments: vec![active],
        ..LogRecord::default()
    }
}

/// A frame for each step, replayed over a manifest.
fn replay(manifest: Vec<LogRecord>, steps: &[Step]) -> Result<ShardReplay, Misfit> {
    let mut replay = ShardReplay::new(manifest).expect("good records");
    for (sequence, &step) in (1..).zip(steps) {
        let mut space = vec![0; 64 * 1024];
        let mut writer = FrameWriter::new(&mut space);
        put(&mut writer, step);
        writer.finish(1, sequence, sequence - 1, 0);
        let (head, payload) = frame_at(&space, 1).expect("a frame");
        let at = Source { file: 0, offset: sequence * 100_000 };
        replay.frame(&head, payload, at, NOW).map_err(|error| match error {
            ReplayError::Log { misfit, .. } => misfit,
            ReplayError::Entry { error, .. } => panic!("{error}"),
        })?;
    }
    Ok(replay)
}

/// Start, end, and for each segment its base, batches, whether sealed, and what is to be written: batch positions from and to.
fn show(log: &LogReplay) -> String {
    let name = |segment: &SegmentName| match segment.revision {
        0 => segment.base.to_string(),
        revision => format!("{}.{revision}", segment.base),
    };
    let segments: Vec<String> = log
        .segments
        .iter()
        .map(|segment| {
            let extents = segment.extents.iter();
            let extents: Vec<_> = extents.map(|at| format!("{}..{}", at.position / BATCH, at.end() / BATCH)).collect();
            let sealed = if segment.meta.sealed { " sealed" } else { "" };
            let batches = segment.meta.bytes / BATCH;
            format!("[{} has {batches}{sealed}: {}]", name(&segment.meta.name()), extents.join(" "))
        })
        .collect();
    let dropped: Vec<_> = log.dropped.iter().map(name).collect();
    let dropped = if dropped.is_empty() { String::new() } else { format!(" dropped [{}]", dropped.join(", ")) };
    format!("{}..{} {}{dropped}", log.start, log.end, segments.join(" "))
}

fn check(name: &str, manifest: Vec<LogRecord>, steps: &[Step], expected: Result<Option<&str>, Misfit>) {
    let found = replay(manifest, steps).map(|replay| replay.logs.get(&log()).map(show));
    assert_eq!(found, expected.map(|shown| shown.map(str::to_owned)), "{name}");
}

#[test]
fn what_each_entry_does() {
    for (name, steps, expected) in [
        ("creation", &[Create(1)][..], Some("0..0 [0 has 0: ]")),
        ("creation twice", &[Create(1), Append(0, 0, 0, 2), Create(1)], Some("0..2 [0 has 2: 0..2]")),
        ("appends", &[Create(1), Append(0, 0, 0, 2), Append(0, 2, 2, 3)], Some("0..5 [0 has 5: 0..2 2..5]")),
        (
            "a roll",
            &[Create(1), Append(0, 0, 0, 2), Roll(2, 2), Append(2, 0, 2, 1)],
            Some("0..3 [0 has 2 sealed: 0..2] [2 has 1: 0..1]"),
        ),
        ("removal", &[Create(1), Append(0, 0, 0, 2), Remove], None),
        (
            "removed and created again: nothing of the first is left",
            &[Create(1), Append(0, 0, 0, 2), Roll(2, 2), Remove, Create(1), Append(0, 0, 0, 1)],
            Some("0..1 [0 has 1: 0..1]"),
        ),
        (
            "truncation, then batches of the same length",
            &[Create(1), Append(0, 0, 0, 4), Truncate(2, 0, 2), Append(0, 2, 2, 2)],
            Some("0..4 [0 has 4: 0..2 2..4]"),
        ),
        (
            "truncation at the end of the journal",
            &[Create(1), Append(0, 0, 0, 2), Append(0, 2, 2, 2), Truncate(1, 0, 1)],
            Some("0..1 [0 has 1: 0..1]"),
        ),
        (
            "truncation into an earlier segment, which is open again",
            &[Create(1), Append(0, 0, 0, 3), Roll(3, 3), Append(3, 0, 3, 1), Truncate(2, 0, 2)],
            Some("0..2 [0 has 2: 0..2] dropped [3]"),
        ),
        (
            "a segment that was dropped begins again",
            &[
                Create(1),
                Append(0, 0, 0, 3),
                Roll(3, 3),
                Append(3, 0, 3, 2),
                Truncate(2, 0, 2),
                Append(0, 2, 2, 1),
                Roll(3, 3),
                Append(3, 0, 3, 1),
            ],
            Some("0..4 [0 has 3 sealed: 0..2 2..3] [3 has 1: 0..1] dropped [3]"),
        ),
        (
            "truncation below everything: the log begins anew",
            &[Create(1), Append(0, 0, 0, 3), Start(2), Truncate(1, 1, 0), Append(1, 0, 1, 1)],
            Some("1..2 [1 has 1: 0..1] dropped [0, 1]"),
        ),
        (
            "the start moves, never past the end, never back",
            &[Create(1), Append(0, 0, 0, 3), Start(9), Start(1)],
            Some("3..3 [0 has 3: 0..3]"),
        ),
        (
            "a prefix",
            &[Create(1), Append(0, 0, 0, 50), Prefix(0, 4096), Append(0, 50, 50, 1)],
            Some("0..51 [0 has 51: 0..50 40..41 50..51]"),
        ),
        ("a move here", &[Placed(2, 3), Append(0, 3, 3, 1)], Some("0..4 [0 has 4: 3..4]")),
        ("a stale move here", &[Create(5), Append(0, 0, 0, 1), Placed(5, 3)], Some("0..1 [0 has 1: 0..1]")),
        ("a move away", &[Create(1), Released(2)], None),
        ("away and back", &[Create(1), Append(0, 0, 0, 1), Released(2), Placed(3, 7)], Some("0..7 [0 has 7: ]")),
        ("back before the move away is known", &[Create(1), Placed(3, 7), Released(2)], Some("0..7 [0 has 7: ]")),
    ] {
        check(name, Vec::new(), steps, Ok(expected));
    }
}

#[test]
fn what_compaction_does() {
    for (name, steps, expected) in [
        (
            "compaction, then a start within what it made",
            &[
                Create(1),
                Append(0, 0, 0, 3),
                Roll(3, 3),
                Append(3, 0, 3, 2),
                Roll(5, 2),
                Append(5, 0, 5, 1),
                Compacted(0, 1, 5, 2),
                Start(4),
            ][..],
            Some("4..6 [0.1 has 2 sealed: ] [5 has 1: 0..1] dropped [0, 3]"),
        ),
        (
            "compaction again",
            &[
                Create(1),
                Append(0, 0, 0, 3),
                Roll(3, 3),
                Compacted(0, 1, 3, 2),
                Append(3, 0, 3, 2),
                Roll(5, 2),
                Compacted(3, 1, 5, 1),
                Compacted(0, 2, 5, 2),
            ],
            Some("0..5 [0.2 has 2 sealed: ] [5 has 0: ] dropped [0, 0.1, 3, 3.1]"),
        ),
        (
            "compaction, a truncation that takes it back, and compaction to the same name",
            &[
                Create(1),
                Append(0, 0, 0, 1),
                Roll(1, 1),
                Append(1, 0, 1, 3),
                Roll(4, 3),
                Compacted(1, 1, 4, 2),
                Truncate(1, 0, 1),
                Append(0, 1, 1, 1),
                Truncate(1, 0, 1),
                Roll(1, 1),
                Append(1, 0, 1, 3),
                Roll(4, 3),
                Compacted(1, 1, 4, 1),
            ],
            Some("0..4 [0 has 1 sealed: 0..1] [1.1 has 1 sealed: ] [4 has 0: ] dropped [1, 4]"),
        ),
    ] {
        check(name, Vec::new(), steps, Ok(expected));
    }
    let sealed = [Create(1), Append(0, 0, 0, 3), Roll(3, 3), Append(3, 0, 3, 2)];
    for (name, step, misfit) in [
        ("of the active segment", Compacted(3, 1, 5, 1), Misfit::UnknownSegment(Offset(5))),
        ("of more than there is", Compacted(0, 1, 4, 1), Misfit::UnknownSegment(Offset(4))),
        ("of a segment that never began", Compacted(1, 1, 3, 1), Misfit::UnknownSegment(Offset(1))),
    ] {
        check(name, Vec::new(), &[&sealed[..], &[step]].concat(), Err(misfit));
    }
}

#[test]
fn a_manifest_may_be_ahead_of_its_replay_position() {
    // The manifest holds five batches; the journal that follows it begins with the third.
    let ahead = || vec![moved(1, 5)];
    for (name, steps, expected) in [
        ("what is known is written again", &[Append(0, 3, 3, 2)][..], "0..5 [0 has 5: 3..5]"),
        ("an entry that goes on above", &[Append(0, 3, 3, 4)], "0..7 [0 has 7: 3..7]"),
        ("then truncated", &[Append(0, 3, 3, 2), Truncate(4, 0, 4), Append(0, 4, 4, 2)], "0..6 [0 has 6: 3..4 4..6]"),
        ("a creation that is known", &[Create(1), Append(0, 4, 4, 1)], "0..5 [0 has 5: 4..5]"),
    ] {
        check(name, ahead(), steps, Ok(Some(expected)));
    }
    let mut rolled = moved(1, 5);
    rolled.segments[0].sealed = true;
    rolled.segments.push(SegmentMeta::new(Offset(5), NOW));
    check(
        "a roll that is known",
        vec![rolled],
        &[Append(0, 4, 4, 1), Roll(5, 5), Append(5, 0, 5, 1)],
        Ok(Some("0..6 [0 has 5 sealed: 4..5] [5 has 1: 0..1]")),
    );
}

#[test]
fn what_does_not_fit_stops_the_start() {
    let gap = |end, next| Err(Misfit::Gap { end: Offset(end), next: Offset(next) });
    for (name, steps, expected) in [
        ("a log that was never created", &[Append(0, 0, 0, 1)][..], Err(Misfit::UnknownLog)),
        ("a log that was removed", &[Create(1), Remove, Append(0, 0, 0, 1)], Err(Misfit::UnknownLog)),
        ("a segment that was never begun", &[Create(1), Append(4, 0, 4, 1)], Err(Misfit::UnknownSegment(Offset(4)))),
        ("bytes are missing", &[Create(1), Append(0, 1, 0, 1)], gap(0, 0)),
        ("bytes twice", &[Create(1), Append(0, 0, 0, 1), Append(0, 0, 1, 1)], gap(1, 1)),
        ("a roll at another length", &[Create(1), Append(0, 0, 0, 1), Roll(1, 2)], gap(1, 1)),
        ("a roll below the end", &[Create(1), Append(0, 0, 0, 3), Roll(2, 3)], gap(3, 2)),
        ("an append to a sealed segment", &[Create(1), Append(0, 0, 0, 1), Roll(1, 1), Append(0, 1, 1, 1)], gap(1, 1)),
        ("a prefix of what is not there", &[Create(1), Prefix(0, 4096)], gap(0, 0)),
    ] {
        check(name, Vec::new(), steps, expected);
    }
}

#[test]
fn epochs_and_producers_follow() {
    let steps =
        [Create(1), Epoch(0, 0), Append(0, 0, 0, 2), Epoch(3, 2), Append(0, 2, 2, 1), Truncate(2, 0, 2), Epoch(5, 2)];
    let replayed = replay(Vec::new(), &steps).expect("they fit");
    let epochs: Vec<_> = replayed.logs[&log()].epochs.entries().iter().map(|at| (at.epoch.0, at.start.0)).collect();
    // The batches of these tests are of epoch 1.
    assert_eq!(epochs, [(1, 0), (5, 2)]);
    let mut known = moved(1, 5);
    known.epochs = vec![
        crate::epochs::EpochStart { epoch: LeaderEpoch(2), start: Offset(0) },
        crate::epochs::EpochStart { epoch: LeaderEpoch(4), start: Offset(3) },
    ];
    let replayed = replay(vec![known], &[Epoch(2, 0), Append(0, 3, 3, 2)]).expect("they fit");
    assert_eq!(replayed.logs[&log()].epochs.latest(), LeaderEpoch(4), "a manifest that is ahead keeps its epochs");
}

#[test]
fn the_plan_takes_the_highest_claim_and_places_what_has_no_home() {
    let shard = |number, steps: &[Step]| (ShardId(number), replay(Vec::new(), steps).expect("they fit"));
    for (name, shards, count, expected) in [
        ("one owner", vec![shard(0, &[Create(1), Append(0, 0, 0, 1)])], 2, (0, 0, 1, 1)),
        ("moved", vec![shard(0, &[Create(1)]), shard(1, &[Placed(2, 7), Append(0, 7, 7, 1)])], 2, (1, 1, 2, 8)),
        ("its shard is gone", vec![shard(0, &[]), shard(3, &[Create(4), Append(0, 0, 0, 2)])], 2, (3, 0, 5, 2)),
        (
            "placed again, and the old home still has it",
            vec![shard(0, &[Placed(5, 7)]), shard(3, &[Create(4), Append(0, 0, 0, 2)])],
            2,
            (0, 0, 5, 7),
        ),
    ] {
        let plan = recovery_plan(shards, count).expect("no conflict");
        assert_eq!(plan.logs.len(), 1, "{name}");
        let found = &plan.logs[0];
        let seen = (found.from.0, found.to.0, found.log.placement.0, found.log.end.0);
        assert_eq!(seen, expected, "{name}");
    }
    let both = vec![shard(0, &[Create(1)]), shard(1, &[Create(1)])];
    assert!(recovery_plan(both, 2).is_err());
}

#[test]
fn segments_below_the_start_leave_the_plan() {
    let steps =
        [Create(1), Append(0, 0, 0, 2), Roll(2, 2), Append(2, 0, 2, 2), Roll(4, 2), Append(4, 0, 4, 1), Start(3)];
    let plan =
        recovery_plan(vec![(ShardId(0), replay(Vec::new(), &steps).expect("they fit"))], 1).expect("no conflict");
    assert_eq!(plan.logs[0].expired, [SegmentName::first(Offset(0))]);
    assert_eq!(show(&plan.logs[0].log), "3..5 [2 has 2 sealed: 0..2] [4 has 1: 0..1]");
}
