//! Bits that flip on the disk of a process that is not running: the next start says so, or nothing of what it serves is wrong.

use std::path::Path;

use base::Random;
use sim::seat::MachineId;
use sim::world::{Failure, World};

use crate::session::{DATA, Ended, SharedModel, Start, start};

/// Of a manifest copy, as far as every bit of it counts.
const MANIFEST_HEAD_BYTES: u64 = 32;

/// Flips some bits of one file, or of both copies of a manifest. Gives a path.
fn flip(world: &mut World, random: &mut Random, machine: MachineId) -> Option<String> {
    let mut state = world.state();
    let disk = &mut state.machine(machine).disk;
    let kind = ["journal-", "manifest-", ".log", "index"][random.below(4) as usize];
    let files: Vec<(String, _)> = disk
        .files()
        .into_iter()
        .filter(|(path, _)| Path::new(path).starts_with(DATA) && path.contains(kind) && !path.contains("/trash/"))
        .collect();
    let (path, file) = files.get(random.below(files.len() as u64) as usize)?.clone();
    let mut flipped = false;
    for _ in 0..200 {
        let offset = random.below(disk.len(file).max(1));
        flipped |= disk.flip_bit(file, offset, random.below(8) as u8);
        if flipped && random.chance(1, 2) {
            break;
        }
    }
    // Half of the time both copies of a manifest: with one of them whole, hardly any start would stop.
    if kind == "manifest-" && random.chance(1, 2) {
        let place = Path::new(&path).parent();
        for (_, copy) in files.iter().filter(|(other, _)| Path::new(other).parent() == place) {
            let offset = random.below(disk.len(*copy).clamp(1, MANIFEST_HEAD_BYTES));
            flipped |= disk.flip_bit(*copy, offset, random.below(8) as u8);
        }
    }
    flipped.then_some(path)
}

/// The last start of a seed, on a disk that has rotted.
pub fn check(
    world: &mut World,
    random: &mut Random,
    machine: MachineId,
    model: &SharedModel,
    shards: u16,
) -> Result<(), Failure> {
    let Some(path) = flip(world, random, machine) else { return Ok(()) };
    // Only what a crash may have torn can be taken for torn: the end of a journal.
    let how = if path.contains("journal-") { Start::TornJournal } else { Start::Rotten };
    let started = start(world, machine, shards, |_| {}, model, how);
    let started = started.map_err(|failure| match failure {
        Failure::Judged(why) => Failure::Judged(format!("after bits of {path} flipped: {why}")),
        other => other,
    })?;
    let register = &mut model.borrow_mut().register;
    match started {
        Ended::Crashed => Err(Failure::Judged(format!("after bits of {path} flipped the process ended itself"))),
        Ended::Done(Err(error)) => {
            register.hit("rot: the start stopped");
            let place = Path::new(&path).parent().map(|dir| dir.display().to_string()).unwrap_or_default();
            let said = error.to_string();
            let names_it = said.contains(&place);
            if names_it { Ok(()) } else { Err(Failure::Judged(format!("bits of {path} flipped, and it says: {said}"))) }
        }
        Ended::Done(Ok(_)) => {
            register.hit("rot: survived");
            Ok(())
        }
    }
}
