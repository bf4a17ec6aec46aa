//! Finding the end of a journal: which frames of its files are its own, in order, and whether what is missing was torn off or
//! has rotted. Pure.
//!
//! Files are looked at one by one and whole; the order of frames is that of their sequence numbers, never that of the files,
//! so the ring may grow anywhere. Frames of earlier laps have lower sequences, those of earlier generations another salt.
//!
//! The rule: the journal ends before the first sequence that is missing. If a later frame says that the missing one had been
//! durable, it is bit rot: then the start must stop. Otherwise it may have been torn by the crash and was never acknowledged.

use super::codec::{FrameHead, JOURNAL_BLOCK_BYTES, frame_at};

/// A frame found in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundFrame {
    /// The number in the file's name.
    pub file: u32,
    pub offset: u64,
    pub head: FrameHead,
}

impl FoundFrame {
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + self.head.frame_bytes() as u64
    }
}

/// Where replay begins: written in the manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JournalPosition {
    /// The first sequence that the manifest does not cover.
    pub sequence: u64,
    /// Where its frame was about to be written; for messages only.
    pub file: u32,
    pub offset: u64,
}

/// The frames to replay and where the journal ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalScan {
    /// Contiguous from [`JournalPosition::sequence`].
    pub frames: Vec<FoundFrame>,
    /// The highest sequence met in any frame of this generation, replayed or not: the next generation counts on from it.
    pub sequence_max: u64,
    /// Frames above the end: written, never acknowledged, dropped.
    pub frames_dropped: usize,
    /// The newest manifest that a frame of this generation knows of.
    pub manifest_version_max: u64,
}

/// A frame that had been durable is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalRot {
    pub sequence: u64,
    /// Where the frame should be: after the one before it.
    pub file: u32,
    pub offset: u64,
    /// The later frame that vouches for it.
    pub witness: FoundFrame,
}

impl std::fmt::Display for JournalRot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "commit {} of the journal is damaged: it should be in file {} at offset {} (or at the start of the next file), and \
             commit {} in file {} at offset {} proves that it was durable",
            self.sequence, self.file, self.offset, self.witness.head.sequence, self.witness.file, self.witness.offset
        )
    }
}

impl std::error::Error for JournalRot {}

/// What a scan passed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PassedOver {
    /// Heads of this generation without the rest of their frame: torn, overwritten in part, or rotten.
    pub damaged: u64,
    /// Of these, the one that says the highest sequence.
    pub damaged_last: Option<FoundFrame>,
    /// Heads of earlier generations.
    pub foreign: u64,
}

impl PassedOver {
    fn note(&mut self, frame: FoundFrame, salt: u64) {
        if frame.head.salt != salt {
            self.foreign += 1;
            return;
        }
        self.damaged += 1;
        let sequence = |frame: &FoundFrame| frame.head.sequence;
        self.damaged_last = self.damaged_last.into_iter().chain([frame]).max_by_key(sequence);
    }
}

/// Every frame of generation `salt` in one file, of this lap and earlier ones.
#[must_use]
pub fn scan_file(file: u32, content: &[u8], salt: u64, passed: &mut PassedOver) -> Vec<FoundFrame> {
    let mut found = Vec::new();
    let mut offset = 0;
    while let Some(bytes) = content.get(offset..).filter(|bytes| !bytes.is_empty()) {
        // After damage the next frame may begin at any block; inside a good frame none does.
        offset += match frame_at(bytes, salt) {
            Some((head, _)) => {
                found.push(FoundFrame { file, offset: offset as u64, head });
                head.frame_bytes()
            }
            None => {
                if let Some(head) = FrameHead::parse(bytes) {
                    passed.note(FoundFrame { file, offset: offset as u64, head }, salt);
                }
                JOURNAL_BLOCK_BYTES
            }
        };
    }
    found
}

/// Puts the frames of all files of a journal in order and finds its end.
///
/// # Errors
/// A frame that was durable is missing.
pub fn find_end(mut found: Vec<FoundFrame>, from: &JournalPosition) -> Result<JournalScan, JournalRot> {
    let sequence_max = found.iter().map(|frame| frame.head.sequence).max().unwrap_or(0);
    let manifest_version_max = found.iter().map(|frame| frame.head.manifest_version).max().unwrap_or(0);
    found.retain(|frame| frame.head.sequence >= from.sequence);
    found.sort_unstable_by_key(|frame| frame.head.sequence);
    found.dedup_by_key(|frame| frame.head.sequence);
    let contiguous =
        found.iter().zip(from.sequence..).take_while(|(frame, expected)| frame.head.sequence == *expected).count();
    let dropped = found.split_off(contiguous);
    let missing = from.sequence + contiguous as u64;
    if let Some(&witness) = dropped.iter().find(|frame| frame.head.durable_sequence >= missing) {
        let (file, offset) = found.last().map_or((from.file, from.offset), |frame| (frame.file, frame.end()));
        return Err(JournalRot { sequence: missing, file, offset, witness });
    }
    Ok(JournalScan { frames: found, sequence_max, frames_dropped: dropped.len(), manifest_version_max })
}

#[cfg(test)]
mod tests {
    use super::super::codec::{Control, FrameWriter};
    use super::*;

    const SALT: u64 = 7;

    /// A frame of `blocks` blocks.
    fn frame(salt: u64, sequence: u64, durable: u64, blocks: usize) -> Vec<u8> {
        let mut space = vec![0xee; blocks * JOURNAL_BLOCK_BYTES];
        let topic = "t".repeat((blocks - 1) * JOURNAL_BLOCK_BYTES + 10);
        let mut writer = FrameWriter::new(&mut space);
        writer.control(&Control::Placed { record: topic.as_bytes() }.encode());
        assert_eq!(writer.finish(salt, sequence, durable, 3), space.len());
        space
    }

    #[derive(Clone, Copy)]
    enum Piece {
        /// sequence, blocks; the frame before it was durable.
        Frame(u64, usize),
        /// sequence, durable sequence.
        Lagging(u64, u64),
        Foreign(u64),
        Zeros,
        /// A frame with one byte flipped.
        Damaged(u64, usize),
    }
    use Piece::*;

    fn file(pieces: &[Piece]) -> Vec<u8> {
        let mut out = Vec::new();
        for &piece in pieces {
            out.extend_from_slice(&match piece {
                Frame(sequence, blocks) => frame(SALT, sequence, sequence - 1, blocks),
                Lagging(sequence, durable) => frame(SALT, sequence, durable, 1),
                Foreign(sequence) => frame(SALT + 1, sequence, sequence - 1, 1),
                Zeros => vec![0; JOURNAL_BLOCK_BYTES],
                Damaged(sequence, blocks) => {
                    let mut bytes = frame(SALT, sequence, sequence - 1, blocks);
                    bytes[80] ^= 1;
                    bytes
                }
            });
        }
        out
    }

    fn check(files: &[&[Piece]], from: u64) -> Result<(Vec<u64>, usize), (u64, u32, u64)> {
        let mut found = Vec::new();
        for (number, pieces) in files.iter().enumerate() {
            found.extend(scan_file(number as u32, &file(pieces), SALT, &mut PassedOver::default()));
        }
        let from = JournalPosition { sequence: from, file: 9, offset: 99 };
        match find_end(found, &from) {
            Ok(scan) => Ok((scan.frames.iter().map(|frame| frame.head.sequence).collect(), scan.frames_dropped)),
            Err(rot) => Err((rot.sequence, rot.file, rot.offset)),
        }
    }

    /// A name, the files, the first sequence, and the frames with the count of those dropped, or where the rot is.
    type Case<'a> = (&'a str, &'a [&'a [Piece]], u64, Result<(&'a [u64], usize), (u64, u32, u64)>);

    #[test]
    fn ends_and_rot() {
        const BLOCK: u64 = JOURNAL_BLOCK_BYTES as u64;
        let cases: &[Case<'_>] = &[
            ("an empty journal", &[&[Zeros, Zeros]], 1, Ok((&[], 0))),
            ("frames of one file", &[&[Frame(1, 1), Frame(2, 3), Frame(3, 1), Zeros]], 1, Ok((&[1, 2, 3], 0))),
            ("the manifest covers the first", &[&[Frame(1, 1), Frame(2, 3), Frame(3, 1)]], 3, Ok((&[3], 0))),
            ("across files, in any order", &[&[Frame(3, 1)], &[Frame(1, 2), Frame(2, 1)]], 1, Ok((&[1, 2, 3], 0))),
            (
                "an earlier lap behind the end",
                &[&[Frame(9, 1), Frame(2, 1), Frame(3, 2)], &[Frame(7, 1), Frame(8, 1)]],
                7,
                Ok((&[7, 8, 9], 0)),
            ),
            ("an earlier generation", &[&[Frame(7, 1), Foreign(8), Foreign(9)]], 7, Ok((&[7], 0))),
            ("a torn last frame", &[&[Frame(1, 1), Damaged(2, 2), Zeros]], 1, Ok((&[1], 0))),
            ("rot in the middle", &[&[Frame(1, 1), Damaged(2, 3), Frame(3, 1)]], 1, Err((2, 0, BLOCK))),
            ("rot of the first", &[&[Damaged(4, 1), Frame(5, 1)]], 4, Err((4, 9, 99))),
            ("rot at a file's end", &[&[Frame(1, 2), Damaged(2, 1)], &[Frame(3, 1)]], 1, Err((2, 0, 2 * BLOCK))),
            (
                "unflushed writes may land in any order",
                &[&[Frame(1, 1), Damaged(2, 1), Lagging(3, 1), Lagging(4, 1)]],
                1,
                Ok((&[1], 2)),
            ),
            (
                "rot among unflushed writes",
                &[&[Frame(1, 1), Damaged(2, 1), Lagging(3, 1), Lagging(4, 2)]],
                1,
                Err((2, 0, BLOCK)),
            ),
        ];
        for &(name, files, from, expected) in cases {
            assert_eq!(check(files, from), expected.map(|(frames, dropped)| (frames.to_vec(), dropped)), "{name}");
        }
    }

    #[test]
    fn what_is_begun_and_not_whole_is_told() {
        let content = file(&[Frame(1, 1), Damaged(2, 2), Zeros, Foreign(9), Damaged(1, 1)]);
        let mut passed = PassedOver::default();
        assert_eq!(scan_file(3, &content, SALT, &mut passed).len(), 1);
        assert_eq!((passed.damaged, passed.foreign), (2, 1));
        let last = passed.damaged_last.expect("two are damaged");
        assert_eq!((last.file, last.offset, last.head.sequence), (3, JOURNAL_BLOCK_BYTES as u64, 2));
    }

    #[test]
    fn a_frame_inside_a_frame_is_not_found() {
        // A client may send bytes that look like a frame, aligned by luck; inside a good frame nobody looks, and inside a
        // damaged one the salt, which it cannot know, tells.
        let mut space = vec![0; 4 * JOURNAL_BLOCK_BYTES];
        let inner = frame(SALT + 1, 99, 98, 1);
        space[JOURNAL_BLOCK_BYTES..2 * JOURNAL_BLOCK_BYTES].copy_from_slice(&inner);
        assert_eq!(scan_file(0, &space, SALT, &mut PassedOver::default()), []);
    }
}
