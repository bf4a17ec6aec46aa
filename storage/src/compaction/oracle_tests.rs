//! Logs of any content, compacted in passes of any size, beside what they must come to.

use std::collections::{BTreeMap, BTreeSet};

use base::{Offset, Random, WallTime};
use record::{BatchBuilder, BatchOptions, BatchView, Compression, decode_records};

use super::*;
use crate::config::CompactionConfig;
use crate::segment::SegmentMeta;

const EXPANDED_BYTES_MAX: usize = 1 << 20;
const RETENTION_MS: i64 = 100;

/// A record as a reader sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    timestamp: i64,
}

/// A segment's batches, and what is known of it.
struct Segment {
    meta: SegmentMeta,
    batches: Vec<Vec<u8>>,
}

fn view(bytes: &[u8]) -> BatchView<'_> {
    BatchView::parse(bytes).expect("whole")
}

fn describe(batches: &[Vec<u8>], base: Offset) -> SegmentMeta {
    let mut meta = SegmentMeta::new(base, WallTime(0));
    batches.iter().for_each(|batch| meta.note(view(batch).header(), WallTime(0)));
    SegmentMeta { sealed: true, ..meta }
}

fn any_batch(random: &mut Random, base: Offset, keys: u64) -> Vec<u8> {
    let compression = Compression::ALL[random.below(5) as usize];
    let mut builder = BatchBuilder::new(BatchOptions { compression, base_offset: base, ..BatchOptions::default() });
    for _ in 0..=random.below(6) {
        let key = random.below(keys).to_be_bytes();
        let value = [random.below(256) as u8; 3];
        let key = (!random.chance(1, 20)).then_some(&key[..]);
        let value = (!random.chance(1, 4)).then_some(&value[..random.below(4) as usize]);
        builder.add(WallTime(random.below(1000) as i64), key, value, &[]).expect("small");
    }
    builder.finish().expect("not empty")
}

/// The records of a log by their offsets; offsets rise, and batches are sound.
fn records(segments: &[Segment]) -> BTreeMap<Offset, Seen> {
    let mut found = BTreeMap::new();
    let mut next = Offset(0);
    for bytes in segments.iter().flat_map(|segment| &segment.batches) {
        let batch = view(bytes);
        assert!(batch.has_valid_crc() && batch.base_offset() >= next, "batches overlap");
        next = batch.header().next_offset();
        for record in decode_records(&batch, EXPANDED_BYTES_MAX).expect("sound").records() {
            let record = record.expect("sound");
            assert!((batch.base_offset()..next).contains(&record.offset));
            let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
            let seen = Seen { key: owned(record.key), value: owned(record.value), timestamp: record.timestamp.0 };
            assert!(found.insert(record.offset, seen).is_none());
        }
    }
    found
}

struct Model {
    segments: Vec<Segment>,
    cleaned_to: Offset,
    /// No pass has got further.
    touched_to: Offset,
    /// Everything that was ever written.
    written: BTreeMap<Offset, Seen>,
    /// When a pass has first seen each tombstone.
    met: BTreeMap<Offset, i64>,
}

impl Model {
    fn append_segment(&mut self, random: &mut Random, keys: u64) {
        let base = self.segments.last().map_or(Offset(0), |last| last.meta.end_offset);
        let (mut batches, mut next) = (Vec::new(), base);
        for _ in 0..=random.below(5) {
            let batch = any_batch(random, next, keys);
            next = view(&batch).header().next_offset();
            batches.push(batch);
        }
        let segment = Segment { meta: describe(&batches, base), batches };
        self.written.extend(records(std::slice::from_ref(&segment)));
        self.segments.push(segment);
    }

    /// One pass, or only its first groups, as when the process ends within it.
    fn pass(&mut self, plan: &CompactionPlan, slots: usize, now: i64, random: &mut Random) {
        let mut keys = KeyMap::new(slots * 24, u64::MAX, [random.next_u64(), random.next_u64()]);
        let mut upto = plan.dirty.end;
        'gather: for segment in &self.segments[plan.segments.clone()] {
            for bytes in &segment.batches {
                if let Some(full) =
                    note_batch(&mut keys, &view(bytes), plan.dirty.start, EXPANDED_BYTES_MAX).expect("sound")
                {
                    upto = full;
                    break 'gather;
                }
            }
        }
        assert!(upto > plan.dirty.start, "each pass gets on");
        let cleaning = Cleaning {
            keys,
            upto,
            now: WallTime(now),
            delete_retention_ms: RETENTION_MS,
            producer_ends: BTreeSet::new(),
            expanded_bytes_max: EXPANDED_BYTES_MAX,
        };
        let metas: Vec<_> = self.segments[plan.segments.clone()].iter().map(|segment| segment.meta).collect();
        let metas = &metas[..metas.partition_point(|meta| meta.base_offset < upto)];
        let limits = GroupLimits { segment_bytes: 200 + random.below(2000), index_bytes: 1 << 20 };
        let groups = group_segments(metas, &limits);
        let cut = if random.chance(1, 4) { random.below(groups.len() as u64) as usize } else { groups.len() };
        for (at, group) in (plan.segments.start..).zip(&groups[..cut]) {
            let old: Vec<_> = self.segments.drain(at..at + group.len()).collect();
            let (base, end) = (old[0].meta.base_offset, old[old.len() - 1].meta.end_offset);
            let mut batches = Vec::new();
            for bytes in old.iter().flat_map(|segment| &segment.batches) {
                let ends_segment = view(bytes).header().next_offset() == end;
                match cleaning.fate(&view(bytes), ends_segment).expect("sound") {
                    Fate::Stays => batches.push(bytes.clone()),
                    Fate::Becomes(new) => batches.push(new),
                    Fate::Goes => {}
                }
            }
            let meta = describe(&batches, base);
            assert_eq!(meta.end_offset, end, "segments adjoin");
            self.segments.insert(at, Segment { meta, batches });
        }
        if cut == groups.len() {
            self.cleaned_to = upto;
        }
        self.touched_to = self.touched_to.max(upto);
        let below = self.written.range(..upto).filter(|(_, seen)| seen.value.is_none());
        for (offset, _) in below {
            self.met.entry(*offset).or_insert(now);
        }
    }

    fn check(&self, now: i64) {
        let found = records(&self.segments);
        assert!(found.iter().all(|(offset, seen)| self.written[offset] == *seen), "nothing is made up");
        assert!(self.written.range(self.touched_to..).all(|(offset, _)| found.contains_key(offset)));
        let mut last = BTreeMap::new();
        for (offset, seen) in &self.written {
            if let Some(key) = &seen.key {
                last.insert(key, *offset);
            }
        }
        for (key, offset) in last {
            let seen = &self.written[&offset];
            let may_be_gone =
                seen.value.is_none() && self.met.get(&offset).is_some_and(|met| now >= met + RETENTION_MS);
            assert!(found.contains_key(&offset) || may_be_gone, "the last record of {key:?}, at {offset}");
            if !found.contains_key(&offset) {
                let older = found.iter().find(|(_, seen)| seen.key.as_ref() == Some(key));
                assert_eq!(older, None, "a deleted value came back");
            }
        }
        let mut clean = BTreeSet::new();
        for (offset, seen) in found.range(..self.cleaned_to) {
            let key = seen.key.as_ref().expect("one without a key goes");
            assert!(clean.insert(key), "{key:?} is twice in the clean part, again at {offset}");
        }
    }
}

#[test]
fn a_compacted_log_has_the_last_value_of_each_key() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let mut model = Model {
            segments: Vec::new(),
            cleaned_to: Offset(0),
            touched_to: Offset(0),
            written: BTreeMap::new(),
            met: BTreeMap::new(),
        };
        let (keys, slots) = (1 + random.below(40), 2 + random.below(60) as usize);
        let mut now = 0;
        for _ in 0..12 {
            for _ in 0..random.below(4) {
                model.append_segment(&mut random, keys);
            }
            now += random.below(80) as i64;
            let metas: Vec<_> = model.segments.iter().map(|segment| segment.meta).collect();
            let watermark = Offset(random.below(metas.last().map_or(0, |last| last.end_offset.0) as u64 + 20) as i64);
            let log = LogExtent {
                segments: &metas,
                log_start: Offset(0),
                high_watermark: watermark,
                cleaned_to: model.cleaned_to,
            };
            let config = CompactionConfig { min_dirty_ppm: 0, ..CompactionConfig::default() };
            if let Some(plan) = compaction_plan(&log, &config, WallTime(now)) {
                model.pass(&plan, slots, now, &mut random);
            }
            model.check(now);
        }
    }
}
