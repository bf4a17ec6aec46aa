//! Room on the disk as a shard's logs may count on it: appends are admitted only while their segments are sure to have space. Pure.
//!
//! Owner: the store of a shard. It measures the file system now and then, reserves at each append, and moves a reservation into an
//! allocation when destage extends a segment. Full is a state, not a failure: appends are refused with a retriable error while reads,
//! deletes and retention go on, and it ends by itself once there is clearly more room than the reserve.
//!
//! Several shards share one file system without talking: each counts on its part of what lies above the reserve.
//!
//! Invariants: what is reserved is never more than what was free above the class's reserve when it was granted; a class once full
//! stays full until there is [`SpaceLimits::resume_bytes`] more than its reserve. The one exception is the metadata, by a bounded overdraft.

/// What a log is for, and so how deep its appends may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SpaceClass {
    #[default]
    Normal,
    /// An internal topic: without it nobody could commit an offset.
    Internal,
    /// The cluster's metadata: without it no topic could be deleted to make room, and no broker start. It may have all that is free, and
    /// where others left nothing a little that is not: the journal, which has its room, holds that until the ballast is given up or
    /// something is deleted.
    Metadata,
}

/// Whether appends are admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpaceState {
    Ok,
    Full,
}

/// Bounds of a shard's account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpaceLimits {
    /// Kept free from ordinary appends.
    pub reserve_bytes: u64,
    /// Kept free from internal topics too; at most `reserve_bytes`.
    pub internal_reserve_bytes: u64,
    /// How much more than its reserve must be free before a full class is open again.
    pub resume_bytes: u64,
    /// A file that only holds room: given up when a manifest cannot be written otherwise.
    pub ballast_bytes: u64,
    /// Shards that use the file system.
    pub shards: u16,
}

impl SpaceLimits {
    /// Usual proportions around a reserve.
    #[must_use]
    pub fn around(reserve_bytes: u64, shards: u16) -> Self {
        Self {
            reserve_bytes,
            internal_reserve_bytes: reserve_bytes / 4,
            resume_bytes: reserve_bytes / 4,
            ballast_bytes: (reserve_bytes / 64).max(1 << 20),
            shards: shards.max(1),
        }
    }

    fn reserve(&self, class: SpaceClass) -> u64 {
        match class {
            SpaceClass::Normal => self.reserve_bytes,
            SpaceClass::Internal => self.internal_reserve_bytes.min(self.reserve_bytes),
            SpaceClass::Metadata => 0,
        }
    }

    /// What metadata may take where nothing is free; the other half of the ballast is for manifests.
    fn overdraft_bytes(&self) -> u64 {
        self.ballast_bytes / 2
    }
}

/// The disk is full for this class of appends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoSpace {
    pub class: SpaceClass,
    pub free_bytes: u64,
    pub reserve_bytes: u64,
}

impl std::fmt::Display for NoSpace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} bytes are free on the data directory's file system, of which {} are reserved: free space, or shorten retention",
            self.free_bytes, self.reserve_bytes
        )
    }
}

impl std::error::Error for NoSpace {}

/// What to do about the ballast file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BallastPlan {
    Keep,
    /// Make it, of [`SpaceLimits::ballast_bytes`]: there is ample room.
    Create,
}

/// A shard's view of the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpaceAccount {
    limits: SpaceLimits,
    /// As the file system last said.
    free_bytes: u64,
    /// Asked of the file system and not yet answered.
    allocating_bytes: u64,
    /// Allocated by this shard since then.
    allocated_bytes: u64,
    /// Appended, and not yet covered by what segments have allocated.
    reserved_bytes: u64,
    /// What of it is metadata.
    metadata_bytes: u64,
    /// Of the normal and the internal class.
    full: [bool; 2],
}

impl SpaceAccount {
    /// An account that admits nothing before the first measurement.
    #[must_use]
    pub fn new(limits: SpaceLimits) -> Self {
        Self {
            limits,
            free_bytes: 0,
            allocating_bytes: 0,
            allocated_bytes: 0,
            reserved_bytes: 0,
            metadata_bytes: 0,
            full: [true; 2],
        }
    }

    /// What the file system said just now.
    pub fn measured(&mut self, free_bytes: u64) {
        self.free_bytes = free_bytes;
        self.allocated_bytes = 0;
        for class in [SpaceClass::Normal, SpaceClass::Internal] {
            let room = self.room(class);
            let full = &mut self.full[class as usize];
            *full = if *full { room < self.limits.resume_bytes / u64::from(self.limits.shards) } else { room == 0 };
        }
    }

    /// State for ordinary appends.
    #[must_use]
    pub fn state(&self) -> SpaceState {
        if self.full[SpaceClass::Normal as usize] { SpaceState::Full } else { SpaceState::Ok }
    }

    /// What may be allocated ahead of need: free above the reserve, and reserved by nobody.
    #[must_use]
    pub fn spare_bytes(&self) -> u64 {
        match self.state() {
            SpaceState::Ok => self.room(SpaceClass::Normal),
            SpaceState::Full => 0,
        }
    }

    /// What the file system last said is free, less what this shard has allocated since.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes.saturating_sub(self.allocated_bytes)
    }

    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    /// This shard's part of what lies above the class's reserve, less what it has taken of it and what is reserved. Its part alone pays
    /// for what it takes: the other shards do not know before they measure.
    fn room(&self, class: SpaceClass) -> u64 {
        let part = self.free_bytes.saturating_sub(self.limits.reserve(class)) / u64::from(self.limits.shards);
        part.saturating_sub(self.allocating_bytes + self.allocated_bytes).saturating_sub(self.reserved_bytes)
    }

    /// Reserves segment space for an append. Refused, the class is full from now on.
    pub fn reserve(&mut self, bytes: u64, class: SpaceClass) -> Result<(), NoSpace> {
        if !self.admits(bytes, class) {
            if class != SpaceClass::Metadata {
                self.full[class as usize] = true;
            }
            return Err(NoSpace { class, free_bytes: self.free_bytes(), reserve_bytes: self.limits.reserve(class) });
        }
        self.reserved_bytes += bytes;
        if class == SpaceClass::Metadata {
            self.metadata_bytes += bytes;
        }
        Ok(())
    }

    fn admits(&self, bytes: u64, class: SpaceClass) -> bool {
        let has_room = bytes <= self.room(class);
        match class {
            SpaceClass::Normal | SpaceClass::Internal => has_room && !self.full[class as usize],
            SpaceClass::Metadata => has_room || self.metadata_bytes + bytes <= self.limits.overdraft_bytes(),
        }
    }

    /// The file system is asked for this much. What was reserved for it is given back by [`Self::released`], once it is written.
    pub fn allocating(&mut self, bytes: u64) {
        self.allocating_bytes += bytes;
    }

    /// It has answered.
    ///
    /// # Panics
    /// When it was not asked for as much.
    pub fn allocated(&mut self, bytes: u64) {
        self.allocating_bytes = self.allocating_bytes.checked_sub(bytes).expect("only what was asked for is answered");
        self.allocated_bytes += bytes;
    }

    /// A reservation is not needed any more: its bytes fit into what a segment has, or were truncated.
    ///
    /// # Panics
    /// When more is given back than was reserved.
    pub fn released(&mut self, reserved_bytes: u64, class: SpaceClass) {
        let less = |bytes: u64| bytes.checked_sub(reserved_bytes).expect("only what was reserved is given back");
        self.reserved_bytes = less(self.reserved_bytes);
        if class == SpaceClass::Metadata {
            self.metadata_bytes = less(self.metadata_bytes);
        }
    }

    /// What a log has reserved belongs to another class from now on.
    pub fn reclassed(&mut self, reserved_bytes: u64, from: SpaceClass, to: SpaceClass) {
        self.released(reserved_bytes, from);
        self.reserved_bytes += reserved_bytes;
        if to == SpaceClass::Metadata {
            self.metadata_bytes += reserved_bytes;
        }
    }

    /// How large the ballast file is.
    #[must_use]
    pub fn ballast_bytes(&self) -> u64 {
        self.limits.ballast_bytes
    }

    /// Whether to make the ballast file, if there is none.
    #[must_use]
    pub fn ballast_plan(&self, present: bool) -> BallastPlan {
        let ample = self.limits.reserve_bytes + self.limits.resume_bytes + self.limits.ballast_bytes;
        if !present && self.free_bytes > ample { BallastPlan::Create } else { BallastPlan::Keep }
    }
}

/// How much longer to make a segment's file when bytes up to `needed` are about to be written to it and it has room to `allocated`:
/// steps of 64 KiB doubling to 16 MiB, for extending is a metadata write that the next flush pays for; no further than a segment can
/// grow, and only by what is needed, which was reserved, where a step would take more than the `spare` bytes that nobody has.
#[must_use]
pub fn allocation_plan(allocated: u64, needed: u64, segment_bytes: u64, spare: u64) -> u64 {
    const STEP_MIN: u64 = 64 << 10;
    const STEP_MAX: u64 = 16 << 20;
    if needed <= allocated {
        return allocated;
    }
    let needed = needed.next_multiple_of(crate::segment::BLOCK_BYTES as u64);
    let step = allocated.next_power_of_two().clamp(STEP_MIN, STEP_MAX);
    let whole = segment_bytes.next_multiple_of(crate::segment::BLOCK_BYTES as u64);
    let stepped = needed.next_multiple_of(step).min(whole).max(needed);
    if stepped - needed > spare { needed } else { stepped }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: SpaceLimits = SpaceLimits {
        reserve_bytes: 1000,
        internal_reserve_bytes: 250,
        resume_bytes: 200,
        ballast_bytes: 50,
        shards: 1,
    };

    #[test]
    fn full_and_open_again() {
        let mut account = SpaceAccount::new(LIMITS);
        assert!(account.reserve(1, SpaceClass::Normal).is_err(), "nothing is known yet");
        account.measured(1199);
        assert_eq!(account.state(), SpaceState::Full, "199 above the reserve");
        account.measured(1200);
        assert_eq!(account.state(), SpaceState::Ok);
        assert_eq!(account.reserve(150, SpaceClass::Normal), Ok(()));
        assert_eq!(account.reserve(50, SpaceClass::Normal), Ok(()));
        let refused = NoSpace { class: SpaceClass::Normal, free_bytes: 1200, reserve_bytes: 1000 };
        assert_eq!(account.reserve(1, SpaceClass::Normal), Err(refused));
        assert_eq!(account.state(), SpaceState::Full);
        assert_eq!(account.reserve(700, SpaceClass::Internal), Ok(()), "750 more for internal topics");
        assert!(account.reserve(51, SpaceClass::Internal).is_err());
        // Destage allocates what was reserved; retention then frees more than enough.
        account.allocating(4096);
        account.allocated(4096);
        account.released(900, SpaceClass::Normal);
        assert_eq!(account.reserved_bytes(), 0);
        account.measured(1150);
        assert_eq!(account.state(), SpaceState::Full, "open only with a margin");
        account.measured(1200);
        assert_eq!(account.state(), SpaceState::Ok);
        account.measured(1001);
        assert_eq!(account.state(), SpaceState::Ok, "once open, down to the reserve");
        account.measured(1000);
        assert_eq!(account.state(), SpaceState::Full);
    }

    #[test]
    fn metadata_goes_where_nothing_is_free() {
        let mut account = SpaceAccount::new(LIMITS);
        account.measured(240);
        for class in [SpaceClass::Normal, SpaceClass::Internal] {
            assert!(account.reserve(1, class).is_err(), "{class:?}: below both reserves");
        }
        assert_eq!(account.reserve(240, SpaceClass::Metadata), Ok(()), "all that is free");
        assert!(account.reserve(1, SpaceClass::Metadata).is_err(), "it has had more than its overdraft");
        account.allocating(240);
        account.allocated(240);
        account.released(240, SpaceClass::Metadata);
        account.measured(0);
        // What others were granted before the disk was filled is not its affair.
        let mut crowded = SpaceAccount::new(LIMITS);
        crowded.measured(2000);
        assert_eq!(crowded.reserve(900, SpaceClass::Normal), Ok(()));
        crowded.measured(0);
        for mut account in [account, crowded] {
            assert_eq!(account.reserve(20, SpaceClass::Metadata), Ok(()));
            assert_eq!(account.reserve(5, SpaceClass::Metadata), Ok(()));
            assert!(account.reserve(1, SpaceClass::Metadata).is_err(), "half the ballast");
            account.released(25, SpaceClass::Metadata);
            assert_eq!(account.reserve(25, SpaceClass::Metadata), Ok(()), "once it is in its segment");
        }
    }

    #[test]
    fn shards_share_and_ballast_waits_for_room() {
        let mut account = SpaceAccount::new(SpaceLimits { shards: 4, ..LIMITS });
        account.measured(2000);
        assert!(account.reserve(250, SpaceClass::Normal).is_ok());
        assert!(account.reserve(1, SpaceClass::Normal).is_err());
        account.measured(1250);
        assert_eq!(account.ballast_plan(false), BallastPlan::Keep);
        account.measured(1251);
        assert_eq!(account.ballast_plan(false), BallastPlan::Create);
        assert_eq!(account.ballast_plan(true), BallastPlan::Keep);
        assert_eq!(SpaceLimits::around(0, 0).shards, 1);
    }

    #[test]
    fn segments_grow_in_steps() {
        const KIB: u64 = 1 << 10;
        let ample = 1 << 40;
        for (allocated, needed, segment, spare, expected) in [
            (0, 1, 1 << 30, ample, 64 * KIB),
            (64 * KIB, 64 * KIB, 1 << 30, ample, 64 * KIB),
            (64 * KIB, 64 * KIB + 1, 1 << 30, ample, 128 * KIB),
            (128 * KIB, 128 * KIB + 1, 1 << 30, ample, 256 * KIB),
            (512 << 20, (512 << 20) + 1, 1 << 30, ample, 528 << 20),
            (0, 1, 10_000, ample, 12_288),
            (0, 20_000, 10_000, ample, 20_480),
            (0, 5000, 1 << 30, 0, 8192),
            (0, 4096, 1 << 30, 60 * KIB, 64 * KIB),
            (0, 4096, 1 << 30, 60 * KIB - 1, 4096),
        ] {
            let got = allocation_plan(allocated, needed, segment, spare);
            assert_eq!(got, expected, "{allocated} {needed} {segment}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// However shards append and destage, between two measurements they never take more than there was above the reserve.
        #[test]
        fn shards_together_respect_the_reserve(
            free in 0..5000u64, shards in 1..6u16, asks in proptest::collection::vec((0..6usize, 0..400u64, 0..3u8), 0..120),
        ) {
            let mut accounts = vec![SpaceAccount::new(SpaceLimits { shards, ..LIMITS }); usize::from(shards)];
            accounts.iter_mut().for_each(|account| account.measured(free));
            let mut taken = 0;
            for (shard, bytes, what) in asks {
                let account = &mut accounts[shard % usize::from(shards)];
                match what {
                    0 => {
                        let (reserved, ahead) = (account.reserved_bytes(), account.spare_bytes().min(bytes));
                        account.allocating(reserved + ahead);
                        account.released(reserved, SpaceClass::Normal);
                        account.allocated(reserved + ahead);
                        taken += ahead;
                    }
                    _ if account.reserve(bytes, SpaceClass::Normal).is_ok() => taken += bytes,
                    _ => {}
                }
            }
            prop_assert!(taken <= free.saturating_sub(LIMITS.reserve_bytes));
        }
    }
}
