//! Which brokers get the replicas of a new topic.
//!
//! Brokers are laid in a ring in which neighbours are of different racks as far as possible. Partition after partition
//! moves one place on, so leaders are spread evenly; followers start at a distance that changes with every turn round
//! the ring, so the followers of one broker's partitions are spread too; and a rack gets a second replica only when
//! every rack has one.

use base::{BrokerId, Random};

use super::image::Image;

/// A broker that may be given replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate<'a> {
    pub id: BrokerId,
    /// A broker without a rack counts as a rack of its own.
    pub rack: Option<&'a str>,
}

/// The registered brokers that can take replicas now: those of `live`.
#[must_use]
pub(super) fn candidates<'i>(image: &'i Image, live: &[BrokerId]) -> Vec<Candidate<'i>> {
    image
        .brokers()
        .filter(|broker| live.contains(&broker.id))
        .map(|broker| Candidate { id: broker.id, rack: broker.rack.as_deref() })
        .collect()
}

/// The replicas of `partition_count` partitions, the preferred leader first, out of distinct candidates. Every list has `replication_factor` entries,
/// or as many as there are candidates if they are fewer.
#[must_use]
pub fn plan_replicas(
    candidates: &[Candidate<'_>],
    partition_count: usize,
    replication_factor: usize,
    random: &mut Random,
) -> Vec<Vec<BrokerId>> {
    let ring = ring(candidates);
    if ring.is_empty() {
        return vec![Vec::new(); partition_count];
    }
    let start = random.below(ring.len() as u64) as usize;
    let shift = random.below(ring.len() as u64) as usize;
    let replicas = |partition: usize| {
        let leader = (start + partition) % ring.len();
        let distance = shift + partition / ring.len();
        replicas_of(&ring, leader, distance, replication_factor.min(ring.len()))
    };
    (0..partition_count).map(replicas).collect()
}

/// The candidates in order of rack and id, then dealt out rack by rack.
fn ring<'a>(candidates: &[Candidate<'a>]) -> Vec<Candidate<'a>> {
    let mut sorted = candidates.to_vec();
    sorted.sort_unstable_by_key(|candidate| (candidate.rack, candidate.id));
    let mut racks: Vec<Vec<Candidate<'a>>> = Vec::new();
    for candidate in sorted {
        match racks.last_mut() {
            Some(rack) if candidate.rack.is_some() && rack[0].rack == candidate.rack => rack.push(candidate),
            _ => racks.push(vec![candidate]),
        }
    }
    let deepest = racks.iter().map(Vec::len).max().unwrap_or(0);
    (0..deepest).flat_map(|depth| racks.iter().filter_map(move |rack| rack.get(depth).copied())).collect()
}

fn replicas_of(ring: &[Candidate<'_>], leader: usize, distance: usize, count: usize) -> Vec<BrokerId> {
    let others = ring.len() - 1;
    let mut chosen = vec![ring[leader]];
    let mut left: Vec<Candidate<'_>> =
        (0..others).map(|step| ring[(leader + 1 + (distance + step) % others) % ring.len()]).collect();
    while chosen.len() < count {
        let same_rack = |a: &Candidate<'_>, b: &Candidate<'_>| a.rack.is_some() && a.rack == b.rack;
        // The first whose rack has the fewest replicas so far.
        let Some((at, _)) = left
            .iter()
            .enumerate()
            .min_by_key(|(_, candidate)| chosen.iter().filter(|taken| same_rack(taken, candidate)).count())
        else {
            break;
        };
        chosen.push(left.remove(at));
    }
    chosen.into_iter().map(|candidate| candidate.id).collect()
}
