//! One file's bytes: what readers see, and everything that a power loss may leave of them.
//!
//! Owned by the disk of one simulated machine. A page that is not wholly durable keeps its versions, the durable one first; a
//! sync moves the durable version forward, a power loss picks one version for each 512-byte sector. Lengths have versions
//! of their own. Invariant: the last version of a page is what readers see, unless a failed sync dropped it.

use std::collections::BTreeMap;
use std::rc::Rc;

use base::Random;

pub const PAGE: usize = 4096;
pub const SECTOR: usize = 512;

/// The order of effects on one disk; a sync covers what came before it was asked for.
pub type Seq = u64;

/// `None` is a page of zeros: never written, or written as zeros.
type Page = Option<Rc<[u8; PAGE]>>;

/// What a power loss does to the unsynced part of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mood {
    LoseAll,
    KeepAll,
    ByPage,
    BySector,
}

#[derive(Default)]
pub struct Image {
    pages: Vec<Page>,
    /// One bit a page: has a block on the device (written, or reserved).
    blocks: Vec<u64>,
    len: u64,
    versions: BTreeMap<usize, Vec<(Seq, Page)>>,
    /// Never empty once the file has had an unsynced length; the durable one first.
    lens: Vec<(Seq, u64)>,
}

impl Image {
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_dirty(&self) -> bool {
        !self.versions.is_empty() || self.lens.len() > 1
    }

    pub fn blocks_in_use(&self) -> u64 {
        self.blocks.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// How many blocks a write or a reservation of this range would add.
    pub fn blocks_missing(&self, offset: u64, len: u64) -> u64 {
        pages_of(offset, len).filter(|&page| !self.has_block(page)).count() as u64
    }

    fn has_block(&self, page: usize) -> bool {
        self.blocks.get(page / 64).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    fn take_block(&mut self, page: usize) {
        if self.blocks.len() <= page / 64 {
            self.blocks.resize(page / 64 + 1, 0);
        }
        self.blocks[page / 64] |= 1 << (page % 64);
    }

    fn free_block(&mut self, page: usize) {
        if let Some(word) = self.blocks.get_mut(page / 64) {
            *word &= !(1 << (page % 64));
        }
    }

    /// Bytes read into `into`: less than asked only at the end of the file.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let len = self.len.saturating_sub(offset).min(into.len() as u64) as usize;
        let mut done = 0;
        while done < len {
            let at = offset as usize + done;
            let within = at % PAGE;
            let take = (PAGE - within).min(len - done);
            match self.pages.get(at / PAGE) {
                Some(Some(page)) => into[done..done + take].copy_from_slice(&page[within..within + take]),
                _ => into[done..done + take].fill(0),
            }
            done += take;
        }
        len
    }

    /// Takes the bytes of all `parts` in, one after another from `offset`; nothing is durable yet.
    pub fn write<'a>(&mut self, seq: Seq, offset: u64, parts: impl Iterator<Item = &'a [u8]>) {
        let mut at = offset as usize;
        let mut open: Option<(usize, [u8; PAGE])> = None;
        for mut part in parts {
            while !part.is_empty() {
                let (number, within) = (at / PAGE, at % PAGE);
                let take = (PAGE - within).min(part.len());
                if open.as_ref().is_none_or(|(page, _)| *page != number) {
                    self.put_open(seq, &mut open);
                    open = Some((number, self.copy_of(number)));
                }
                let (_, bytes) = open.as_mut().expect("opened just above");
                bytes[within..within + take].copy_from_slice(&part[..take]);
                part = &part[take..];
                at += take;
            }
        }
        self.put_open(seq, &mut open);
        if at as u64 > self.len {
            self.put_len(seq, at as u64);
        }
    }

    fn copy_of(&self, number: usize) -> [u8; PAGE] {
        match self.pages.get(number) {
            Some(Some(page)) => **page,
            _ => [0; PAGE],
        }
    }

    fn put_open(&mut self, seq: Seq, open: &mut Option<(usize, [u8; PAGE])>) {
        if let Some((number, bytes)) = open.take() {
            self.take_block(number);
            let page = if bytes.iter().all(|&byte| byte == 0) { None } else { Some(Rc::new(bytes)) };
            self.put_page(seq, number, page);
        }
    }

    fn put_page(&mut self, seq: Seq, number: usize, page: Page) {
        if self.pages.len() <= number {
            self.pages.resize(number + 1, None);
        }
        let before = std::mem::replace(&mut self.pages[number], page.clone());
        self.versions.entry(number).or_insert_with(|| vec![(0, before)]).push((seq, page));
    }

    fn put_len(&mut self, seq: Seq, len: u64) {
        if self.lens.is_empty() {
            self.lens.push((0, self.len));
        }
        self.lens.push((seq, len));
        self.len = len;
    }

    /// Reserves blocks, and extends the length to the end of the range; the new bytes read as zeros.
    pub fn allocate(&mut self, seq: Seq, offset: u64, len: u64) {
        for page in pages_of(offset, len) {
            self.take_block(page);
        }
        if offset + len > self.len {
            self.put_len(seq, offset + len);
        }
    }

    pub fn set_len(&mut self, seq: Seq, len: u64) {
        if len == self.len {
            return;
        }
        if len < self.len {
            self.cut(Some(seq), len);
        }
        self.put_len(seq, len);
    }

    /// Zeros from `len` on, as versions of their own when `seq` is given.
    fn cut(&mut self, seq: Option<Seq>, len: u64) {
        let (edge, within) = (len as usize / PAGE, len as usize % PAGE);
        let first_whole = if within == 0 { edge } else { edge + 1 };
        if within != 0 && matches!(self.pages.get(edge), Some(Some(_))) {
            let mut bytes = self.copy_of(edge);
            bytes[within..].fill(0);
            self.replace(seq, edge, Some(Rc::new(bytes)));
        }
        for number in first_whole..self.pages.len() {
            if self.pages[number].is_some() || self.versions.contains_key(&number) {
                self.replace(seq, number, None);
            }
        }
        for number in first_whole..self.blocks.len() * 64 {
            self.free_block(number);
        }
    }

    fn replace(&mut self, seq: Option<Seq>, number: usize, page: Page) {
        match seq {
            Some(seq) => self.put_page(seq, number, page),
            None => self.pages[number] = page,
        }
    }

    /// Makes every effect up to `upto` durable, lengths too.
    pub fn sync(&mut self, upto: Seq) {
        let pages = &self.pages;
        self.versions.retain(|&number, versions| !settle(versions, upto, &pages[number]));
        settle_lens(&mut self.lens, upto);
    }

    /// Makes one finished write durable, and the length needed to read it back.
    pub fn sync_range(&mut self, upto: Seq, offset: u64, len: u64) {
        for number in pages_of(offset, len) {
            if let Some(versions) = self.versions.get_mut(&number)
                && settle(versions, upto, &self.pages[number])
            {
                self.versions.remove(&number);
            }
        }
        // A log-structured length is one metadata record: what reaches past the range need not be there, what it needs must.
        settle_lens(&mut self.lens, upto);
    }

    /// A failed sync: the kernel marks the pages clean, so no later sync will write them. What the device holds is anything in
    /// between, and readers may see the new bytes until the page is dropped from memory.
    pub fn drop_dirty(&mut self, upto: Seq, random: &mut Random) {
        for (&number, versions) in &mut self.versions {
            let covered = versions.iter().filter(|(seq, _)| *seq <= upto).count();
            if covered < 2 {
                continue;
            }
            let mix = mix_sectors(&versions[..covered], random);
            versions.drain(1..covered);
            versions[0] = (0, mix.clone());
            if versions.len() == 1 && random.chance(1, 2) {
                self.pages[number] = mix;
            }
        }
        let covered = self.lens.iter().filter(|(seq, _)| *seq <= upto).count();
        if covered > 1 {
            let keep = random.below(covered as u64) as usize;
            let len = self.lens[keep].1;
            self.lens.drain(1..covered);
            self.lens[0] = (0, len);
        }
        self.tidy();
    }

    /// Forgets versions that say nothing any more.
    fn tidy(&mut self) {
        let pages = &self.pages;
        self.versions.retain(|&number, versions| versions.len() > 1 || !same(&versions[0].1, &pages[number]));
        if self.lens.len() == 1 && self.lens[0].1 == self.len {
            self.lens.clear();
        }
    }

    /// The power goes: each unsynced effect is kept, lost or torn. What is left is durable.
    pub fn lose_power(&mut self, random: &mut Random) -> Loss {
        let mood = match random.below(4) {
            0 => Mood::LoseAll,
            1 => Mood::KeepAll,
            2 => Mood::ByPage,
            _ => Mood::BySector,
        };
        let mut loss = Loss::default();
        let versions = std::mem::take(&mut self.versions);
        for (number, versions) in versions {
            let last = versions.len() - 1;
            let chosen = match mood {
                Mood::LoseAll => versions[0].1.clone(),
                Mood::KeepAll => versions[last].1.clone(),
                Mood::ByPage => versions[random.below(versions.len() as u64) as usize].1.clone(),
                Mood::BySector => mix_sectors(&versions, random),
            };
            let torn = versions.iter().all(|(_, page)| !same(page, &chosen));
            loss.pages_torn += u64::from(torn);
            loss.pages_lost += u64::from(!torn && !same(&versions[last].1, &chosen));
            self.pages[number] = chosen;
        }
        if let Some(&(_, durable)) = self.lens.first() {
            let last = self.lens.len() - 1;
            let len = match mood {
                Mood::LoseAll => durable,
                Mood::KeepAll => self.lens[last].1,
                _ => self.lens[random.below(self.lens.len() as u64) as usize].1,
            };
            loss.lens_lost += u64::from(len != self.len);
            self.lens.clear();
            self.len = len;
        }
        self.cut(None, self.len);
        loss
    }

    /// Flips one bit of a block that was written; `false` where there is none.
    pub fn flip_bit(&mut self, offset: u64, bit: u8) -> bool {
        let (number, within) = (offset as usize / PAGE, offset as usize % PAGE);
        if offset >= self.len || !matches!(self.pages.get(number), Some(Some(_))) {
            return false;
        }
        let mut bytes = self.copy_of(number);
        bytes[within] ^= 1 << (bit % 8);
        let page = Some(Rc::new(bytes));
        if let Some(versions) = self.versions.get_mut(&number) {
            for (_, version) in versions.iter_mut() {
                *version = page.clone();
            }
        }
        self.pages[number] = page;
        true
    }
}

/// What a power loss took from one file.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Loss {
    /// Pages whose sectors come from different versions.
    pub pages_torn: u64,
    pub pages_lost: u64,
    pub lens_lost: u64,
}

impl Loss {
    pub fn add(&mut self, other: Self) {
        self.pages_torn += other.pages_torn;
        self.pages_lost += other.pages_lost;
        self.lens_lost += other.lens_lost;
    }
}

fn pages_of(offset: u64, len: u64) -> std::ops::Range<usize> {
    offset as usize / PAGE..(offset + len).div_ceil(PAGE as u64) as usize
}

fn same(a: &Page, b: &Page) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Rc::ptr_eq(a, b) || a == b,
        _ => false,
    }
}

/// Moves the durable version up to the newest at or before `upto`; `true` when nothing unsynced is left.
fn settle(versions: &mut Vec<(Seq, Page)>, upto: Seq, current: &Page) -> bool {
    let newest = versions.iter().rposition(|(seq, _)| *seq <= upto).unwrap_or(0);
    versions.drain(..newest);
    versions.len() == 1 && same(&versions[0].1, current)
}

fn settle_lens(lens: &mut Vec<(Seq, u64)>, upto: Seq) {
    let newest = lens.iter().rposition(|(seq, _)| *seq <= upto).unwrap_or(0);
    lens.drain(..newest);
    if lens.len() == 1 {
        lens.clear();
    }
}

fn mix_sectors(versions: &[(Seq, Page)], random: &mut Random) -> Page {
    let mut bytes = [0; PAGE];
    for sector in (0..PAGE).step_by(SECTOR) {
        if let Some(page) = &versions[random.below(versions.len() as u64) as usize].1 {
            bytes[sector..sector + SECTOR].copy_from_slice(&page[sector..sector + SECTOR]);
        }
    }
    Some(Rc::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(image: &Image, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0xee; len];
        let got = image.read(offset, &mut bytes);
        bytes.truncate(got);
        bytes
    }

    fn write(image: &mut Image, seq: Seq, offset: u64, bytes: &[u8]) {
        image.write(seq, offset, std::iter::once(bytes));
    }

    #[test]
    fn reads_see_what_was_written_in_pieces() {
        let mut image = Image::default();
        image.write(1, 100, [&[1u8; 5000][..], &[][..], &[2u8; 10][..]].into_iter());
        assert_eq!(image.len(), 5110);
        assert_eq!(read(&image, 98, 4), [0, 0, 1, 1]);
        assert_eq!(read(&image, 5098, 4), [1, 1, 2, 2]);
        assert_eq!(read(&image, 5108, 100), [2, 2]);
        assert_eq!(image.blocks_in_use(), 2);
    }

    #[test]
    fn synced_bytes_survive_and_unsynced_ones_are_one_of_their_versions() {
        let (mut torn, mut lost, mut kept) = (0, 0, 0);
        for seed in 0..200 {
            let mut image = Image::default();
            write(&mut image, 1, 0, &[1; PAGE]);
            write(&mut image, 2, PAGE as u64, &[1; PAGE]);
            image.sync(1);
            write(&mut image, 3, 0, &[2; PAGE]);
            image.lose_power(&mut Random::new(seed));
            let page = read(&image, 0, PAGE);
            assert_eq!(page.len(), PAGE);
            assert!(page.chunks(SECTOR).all(|sector| sector == [1; SECTOR] || sector == [2; SECTOR]));
            match (page.contains(&1), page.contains(&2)) {
                (true, true) => torn += 1,
                (true, false) => lost += 1,
                _ => kept += 1,
            }
            assert!(!image.is_dirty());
        }
        assert!(torn > 20 && lost > 20 && kept > 20, "{torn} {lost} {kept}");
    }

    #[test]
    fn a_durable_write_covers_itself_only() {
        for seed in 0..100 {
            let mut image = Image::default();
            write(&mut image, 1, 0, &[1; 2 * PAGE]);
            image.sync(1);
            write(&mut image, 2, 0, &[2; PAGE]);
            write(&mut image, 3, PAGE as u64, &[3; PAGE]);
            image.sync_range(3, PAGE as u64, PAGE as u64);
            image.lose_power(&mut Random::new(seed));
            assert_eq!(read(&image, PAGE as u64, PAGE), [3; PAGE]);
        }
    }

    #[test]
    fn a_truncation_that_was_not_synced_may_come_back_and_a_synced_one_may_not() {
        let mut back = 0;
        for seed in 0..100 {
            for synced in [false, true] {
                let mut image = Image::default();
                write(&mut image, 1, 0, &[1; 2 * PAGE]);
                image.sync(1);
                image.set_len(2, 100);
                assert_eq!(image.blocks_in_use(), 1);
                if synced {
                    image.sync(2);
                }
                image.set_len(3, 2 * PAGE as u64);
                image.lose_power(&mut Random::new(seed));
                let bytes = read(&image, 0, 2 * PAGE);
                let old = bytes.iter().skip(100).any(|&byte| byte == 1);
                assert!(!(synced && old));
                back += u32::from(old);
            }
        }
        assert!(back > 10);
    }

    #[test]
    fn a_failed_sync_is_not_made_good_by_a_later_one() {
        let mut lost = 0;
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let mut image = Image::default();
            write(&mut image, 1, 0, &[1; PAGE]);
            image.sync(1);
            write(&mut image, 2, 0, &[2; PAGE]);
            image.drop_dirty(2, &mut random);
            image.sync(2);
            image.lose_power(&mut random);
            lost += u32::from(read(&image, 0, PAGE).contains(&1));
        }
        assert!(lost > 50);
    }
}
