//! Which batches of a segment file one read returns, and how far the file can be believed.
//!
//! Owner: the task of the reader. Offsets and leader epoch of a batch lie outside its CRC, for the broker patches them in; what vouches for
//! them is where they stand: between the batches around them, below the segment's end, in the log's history of epochs. Where headers do
//! not fit together, the CRC of the batch before tells which of the two lies.

use std::ops::Range;

use base::Offset;
use record::BatchCrc;

use super::disk::Blocks;
use super::plan::Passed;
use super::view::DiskPlan;
use super::{Corruption, Misplaced, Read, ReadError, ReadLimits, Walk};
use crate::segment::OffsetEntry;

/// Where a walk begins: a batch boundary, unless the index lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub position: u64,
    pub least: Offset,
    /// What the index says of the batch there.
    pub claim: Option<OffsetEntry>,
}

/// A batch as its header has it.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    position: u64,
    size_bytes: usize,
    crc: u32,
}

/// What a read is to return.
#[derive(Debug)]
pub(super) struct Chosen {
    batches: Vec<Candidate>,
    /// The least offset that may come next, and the position where it would.
    pub next: (Offset, u64),
    pub at_end: bool,
}

#[derive(Debug)]
pub(super) enum ChooseError {
    /// What stands where the walk began is not the batch that the index names, or none at all.
    Claim(Option<ReadError>),
    Read(ReadError),
}

impl From<ReadError> for ChooseError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// Walks headers until the limits are reached, the readable bytes end, or they are damaged; what is sound before damage is chosen.
pub(super) async fn choose(
    blocks: &mut Blocks<'_>,
    plan: &DiskPlan,
    limits: ReadLimits,
    start: Start,
) -> Result<Chosen, ChooseError> {
    let segment = &plan.segment;
    let least = match start.claim {
        Some(claim) => check_claim(blocks, plan, start.position, claim).await?,
        None => start.least,
    };
    let walk = Walk::new(plan.from, limits, start.position, segment.file.readable_bytes, least);
    let mut choosing = Choosing { walk: walk.ending_below(segment.resume), batches: Vec::new(), passed: None };
    if let Err(error) = choosing.walk_on(blocks, plan).await {
        let error = choosing.blame(blocks, error).await?;
        if choosing.batches.is_empty() {
            return Err(error.into());
        }
        let next = choosing.walk.reached();
        return Ok(Chosen { batches: choosing.batches, next, at_end: false });
    }
    let next = choosing.walk.reached();
    let at_end = next.1 >= segment.file.readable_bytes;
    if choosing.batches.is_empty() && at_end && next.0 < segment.resume {
        choosing.check_before_hole(blocks).await?;
    }
    Ok(Chosen { batches: choosing.batches, next, at_end })
}

/// The base offset of the batch that the index names, once it is seen to be there.
async fn check_claim(
    blocks: &mut Blocks<'_>,
    plan: &DiskPlan,
    at: u64,
    claim: OffsetEntry,
) -> Result<Offset, ChooseError> {
    let header = match blocks.header(at).await {
        Ok(header) => header,
        Err(error @ ReadError::Corrupt { .. }) => return Err(ChooseError::Claim(Some(error))),
        Err(error) => return Err(error.into()),
    };
    let within = plan.segment.meta.base_offset..=plan.from;
    let holds = header.last_offset() == claim.last_offset && within.contains(&header.base_offset);
    if holds { Ok(header.base_offset) } else { Err(ChooseError::Claim(None)) }
}

struct Choosing {
    walk: Walk,
    batches: Vec<Candidate>,
    /// Of [`Walk::passed`].
    passed: Option<Candidate>,
}

impl Choosing {
    async fn walk_on(&mut self, blocks: &mut Blocks<'_>, plan: &DiskPlan) -> Result<(), ReadError> {
        while let Some(at) = self.walk.next_header() {
            let header = blocks.header(at).await?;
            let before = self.walk.chosen();
            if before.is_none() && header.base_offset > plan.from {
                self.check_before_hole(blocks).await?;
            }
            let misplaced = |error| blocks.corrupt(at, Corruption::Misplaced(error));
            self.walk.see(&header).map_err(misplaced)?;
            if let Some(known) = plan.epochs.epoch_at(header.base_offset)
                && known != header.leader_epoch
            {
                // Left at the batch, whether it was passed or was to come first at the next read.
                if self.walk.reached().1 > at {
                    self.walk.step_back();
                }
                self.passed = None;
                return Err(misplaced(Misplaced::Epoch { found: header.leader_epoch, known }));
            }
            let candidate = Candidate { position: at, size_bytes: header.size_bytes(), crc: header.crc };
            if self.walk.reached().1 > at {
                self.passed = Some(candidate);
            }
            match self.walk.chosen() {
                None => blocks.forget_below(at),
                chosen if chosen != before => self.batches.push(candidate),
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// A batch that seems to end below the offset sought, which seems to be missing, may itself hold it.
    async fn check_before_hole(&self, blocks: &mut Blocks<'_>) -> Result<(), ReadError> {
        match self.passed {
            Some(passed) => check(blocks, passed).await,
            None => Ok(()),
        }
    }

    /// Which batch is damaged where the walk could not go on: the one it stands at, or the one before, which is then not chosen.
    async fn blame(&mut self, blocks: &mut Blocks<'_>, error: ReadError) -> Result<ReadError, ReadError> {
        if !matches!(error, ReadError::Corrupt { .. }) {
            return Err(error);
        }
        let (Some(passed), Some(candidate)) = (self.walk.passed(), self.passed) else { return Ok(error) };
        let error = match (check(blocks, candidate).await, overlap(&error, &passed)) {
            (Ok(()), None) => return Ok(error),
            (Ok(()), Some(misplaced)) => blocks.corrupt(passed.at, Corruption::Misplaced(misplaced)),
            (Err(error), _) => error,
        };
        self.walk.step_back();
        self.batches.retain(|batch| batch.position < passed.at);
        Ok(error)
    }
}

/// What is wrong with a batch of a sound body, behind a hole, whose offsets reach into the next one.
fn overlap(error: &ReadError, passed: &Passed) -> Option<Misplaced> {
    let overlaps = matches!(error, ReadError::Corrupt { reason: Corruption::Misplaced(Misplaced::Offsets { .. }), .. });
    let Passed { base, last, least, .. } = *passed;
    (overlaps && passed.follows_a_hole()).then_some(Misplaced::Offsets { base, last, least })
}

async fn check(blocks: &mut Blocks<'_>, batch: Candidate) -> Result<(), ReadError> {
    let range = batch.position..batch.position + batch.size_bytes as u64;
    blocks.load(range.clone()).await?;
    let mut crc = BatchCrc::new();
    blocks.slices(range).slices.iter().for_each(|slice| crc.update(slice));
    compare(blocks, batch, crc.value())
}

fn compare(blocks: &Blocks<'_>, batch: Candidate, computed: u32) -> Result<(), ReadError> {
    if computed == batch.crc {
        return Ok(());
    }
    Err(blocks.corrupt(batch.position, Corruption::Crc { stored: batch.crc, computed }))
}

impl Chosen {
    fn range(&self) -> Option<Range<u64>> {
        let (first, last) = (self.batches.first()?, self.batches.last()?);
        Some(first.position..last.position + last.size_bytes as u64)
    }

    /// Reads the batches and checks them; from a damaged one on they are left out.
    ///
    /// # Errors
    /// The first of them is damaged, or the file cannot be read.
    pub(super) async fn load(&mut self, blocks: &mut Blocks<'_>) -> Result<Read, ReadError> {
        let Some(range) = self.range() else { return Ok(Read::default()) };
        blocks.load(range.clone()).await?;
        let read = blocks.slices(range.clone());
        let Err((damaged, error)) = self.check(blocks, &read) else { return Ok(read) };
        if damaged == range.start {
            return Err(error);
        }
        self.batches.retain(|batch| batch.position < damaged);
        let last = self.batches.last().expect("one is sound at least");
        let header = blocks.header(last.position).await?;
        self.next = (header.next_offset(), damaged);
        self.at_end = false;
        Ok(blocks.slices(range.start..damaged))
    }

    /// The position of the first damaged one, and how it is damaged.
    fn check(&self, blocks: &Blocks<'_>, read: &Read) -> Result<(), (u64, ReadError)> {
        let mut slices = read.slices.iter().map(|slice| &slice[..]);
        let mut rest: &[u8] = &[];
        for &batch in &self.batches {
            let mut crc = BatchCrc::new();
            let mut missing = batch.size_bytes;
            while missing > 0 {
                if rest.is_empty() {
                    rest = slices.next().expect("the slices hold all batches chosen");
                }
                let (part, later) = rest.split_at(missing.min(rest.len()));
                crc.update(part);
                missing -= part.len();
                rest = later;
            }
            compare(blocks, batch, crc.value()).map_err(|error| (batch.position, error))?;
        }
        Ok(())
    }
}
