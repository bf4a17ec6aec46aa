//! What the machine does to the store while its clients work: a full disk, stalls, failing files, a clock that people set.

use base::Random;
use sim::faults::DiskFaults;
use sim::seat::MachineId;
use sim::world::World;

use crate::DISK_BYTES;
use crate::session::SharedModel;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weather {
    Calm,
    /// No block is left but those that are reserved.
    DiskFull,
    /// Every operation on a segment takes up to a second until a journal is full; then the disk is.
    JournalThenDiskFull,
    /// Every tenth operation on a segment takes up to a second, so that the journal fills.
    Stalls,
    SegmentWriteErrors,
    SegmentSyncErrors,
    SegmentReadErrors,
    JournalErrors,
    ManifestErrors,
    ClockJumps(i64),
}

impl Weather {
    fn any(random: &mut Random) -> Self {
        match random.below(14) {
            0..3 => Self::DiskFull,
            12..14 => Self::JournalThenDiskFull,
            3..5 => Self::Stalls,
            5 => Self::SegmentWriteErrors,
            6 => Self::SegmentSyncErrors,
            7 => Self::SegmentReadErrors,
            8 => Self::JournalErrors,
            9 => Self::ManifestErrors,
            _ => Self::ClockJumps(random.below(8 * 3_600_000) as i64 - 4 * 3_600_000),
        }
    }

    /// Operations that fail may show as errors to clients.
    fn is_faulty(self) -> bool {
        matches!(
            self,
            Self::SegmentWriteErrors
                | Self::SegmentSyncErrors
                | Self::SegmentReadErrors
                | Self::JournalErrors
                | Self::ManifestErrors
        )
    }

    fn name(self) -> &'static str {
        match self {
            Self::Calm => "weather: calm",
            Self::DiskFull => "weather: disk full",
            Self::JournalThenDiskFull => "weather: journal full, then disk full",
            Self::Stalls => "weather: stalls",
            Self::SegmentWriteErrors => "weather: EIO writing segments",
            Self::SegmentSyncErrors => "weather: EIO syncing segments",
            Self::SegmentReadErrors => "weather: EIO reading segments",
            Self::JournalErrors => "weather: EIO in journals",
            Self::ManifestErrors => "weather: EIO in manifests",
            Self::ClockJumps(_) => "weather: clock set",
        }
    }

    pub fn set(self, world: &mut World, machine: MachineId, model: &SharedModel) {
        let mut model = model.borrow_mut();
        model.register.hit(self.name());
        model.faulty |= self.is_faulty();
        model.full |= self == Self::DiskFull;
        let mut state = world.state();
        let machine = state.machine(machine);
        let faults = DiskFaults { only: "/logs/", ..DiskFaults::default() };
        machine.faults = match self {
            Self::Stalls => DiskFaults { stall_ppm: 100_000, ..faults },
            Self::JournalThenDiskFull => DiskFaults { stall_ppm: 1_000_000, ..faults },
            Self::SegmentWriteErrors => DiskFaults { write_error_ppm: 60_000, ..faults },
            Self::SegmentSyncErrors => DiskFaults { sync_error_ppm: 80_000, ..faults },
            Self::SegmentReadErrors => DiskFaults { read_error_ppm: 150_000, ..faults },
            Self::JournalErrors => DiskFaults { write_error_ppm: 10_000, only: "journal-", ..faults },
            Self::ManifestErrors => {
                DiskFaults { write_error_ppm: 100_000, sync_error_ppm: 100_000, only: "manifest-", ..faults }
            }
            Self::Calm | Self::DiskFull | Self::ClockJumps(_) => DiskFaults::default(),
        };
        match self {
            Self::DiskFull => {
                let used = machine.disk.used_bytes();
                machine.disk.set_capacity(used);
            }
            Self::ClockJumps(by_ms) => machine.clock.jump(by_ms),
            _ => machine.disk.set_capacity(DISK_BYTES),
        }
    }
}

/// What comes when, by the operations that are left; the highest first. Most rounds have some weather, and clear up again.
pub fn forecast(random: &mut Random, operations: u64) -> Vec<(u64, Weather)> {
    let mut forecast = Vec::new();
    for _ in 0..[0, 1, 1, 2][random.below(4) as usize] {
        let from = random.below(operations);
        forecast.push((from, Weather::any(random)));
        if random.chance(3, 4) {
            forecast.push((random.below(from + 1), Weather::Calm));
        }
    }
    forecast.sort_by_key(|(left, _)| std::cmp::Reverse(*left));
    forecast
}
