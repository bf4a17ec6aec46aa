//! Recovery: from the manifests and journals of a data directory to logs that may be opened.
//!
//! One shard does it for all, before any store is open:
//! 1. [`image`]: read every shard directory's manifest and journal, find each journal's end;
//! 2. [`replay`]: what each shard's logs are after its journal (pure);
//! 3. [`plan`]: whose record of each log counts, and who owns it from now on (pure);
//! 4. [`apply`]: write journaled bytes to their segments, cut what was cut, and sync;
//! 5. move what no record knows to the trash;
//! 6. write the manifests of the new generation, one shard after another: each is a commit point of its own, for a log that moves
//!    has a higher placement epoch in its new home than anything its old one says;
//! 7. retire the directories of shards that no longer exist, then the second manifest copies.
//!
//! Interrupted anywhere it can be run again, with another number of shards too. It reads manifests, journals and the tails of
//! indexes, nothing else; [`RecoveryReport`] counts.

pub mod apply;
mod commit;
pub mod image;
pub mod log_replay;
mod offline;
pub mod plan;
pub mod replay;
mod room;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use base::{ShardId, WallTime};
use shard::{Class, Shard};

use self::apply::{ApplyContext, ApplyCounts};
use self::image::ShardImage;
use self::plan::RecoveryPlan;
use self::replay::{EntryCounts, ReplayError, ShardReplay};
use crate::config::{LogId, RecoverConfig, paths};
use crate::journal::scan::JournalRot;
use crate::manifest::file::BrokenCopy;
use crate::manifest::{LogRecord, ManifestError, ManifestHead};
use crate::placement::PlacementConflict;

/// Logs carried out at once.
const LOGS_AT_ONCE: usize = 32;

/// A data directory that is ready to be served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// In the order of the shards.
    pub shards: Vec<RecoveredShard>,
    pub report: RecoveryReport,
}

/// What a store is opened with. `Send`: recovery runs on one shard, stores on all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecoveredShard {
    pub shard: ShardId,
    /// Shards that share the data directory.
    pub shards: u16,
    /// The manifest that is durable: its generation, its version, and the first commit that the journal will hold.
    pub head: ManifestHead,
    pub logs: Vec<LogRecord>,
    /// Names in the trash when recovery ran, for the first shard to delete.
    pub trash: Vec<String>,
}

impl RecoveredShard {
    /// The logs that are at home on this shard.
    #[must_use]
    pub fn log_ids(&self) -> Vec<LogId> {
        self.logs.iter().map(|log| log.id).collect()
    }
}

/// What recovery found and did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    pub shard_dirs: usize,
    pub logs: usize,
    /// Logs that got another shard.
    pub logs_moved: usize,
    /// Records of logs that a higher placement epoch made void.
    pub claims_stale: usize,
    pub logs_offline: usize,
    pub frames_replayed: u64,
    /// Written and never acknowledged.
    pub frames_dropped: u64,
    pub entries: EntryCounts,
    /// Frames that were begun and are not whole.
    pub frames_damaged: u64,
    /// Frames of earlier generations.
    pub frames_foreign: u64,
    /// Shards whose newest whole manifest was the second copy.
    pub second_copies: usize,
    pub manifest_bytes_read: u64,
    pub journal_bytes_read: u64,
    pub applied: ApplyCounts,
    /// Directories of logs that no record knows.
    pub logs_trashed: usize,
}

/// Why a data directory cannot be recovered. Nothing has been lost by trying.
#[derive(Debug)]
pub enum RecoverError {
    Io {
        what: &'static str,
        path: PathBuf,
        error: io::Error,
    },
    /// There are journals, and no manifest copy is whole.
    NoManifest {
        dir: PathBuf,
        broken: Vec<BrokenCopy>,
    },
    /// A copy of a manifest that this release cannot read.
    Manifest {
        path: PathBuf,
        error: ManifestError,
    },
    /// The manifest is another shard's: files were copied by hand.
    ForeignManifest {
        dir: PathBuf,
        shard: ShardId,
    },
    /// The journal knows of a newer manifest than can be found.
    ManifestLost {
        dir: PathBuf,
        broken: Vec<BrokenCopy>,
        version: u64,
        wanted: u64,
    },
    JournalRot {
        path: PathBuf,
        rot: JournalRot,
    },
    Replay {
        dir: PathBuf,
        error: ReplayError,
    },
    Placement(PlacementConflict),
}

impl RecoverError {
    fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::Io { what, path, error }
    }

    fn is_full(&self) -> bool {
        matches!(self, Self::Io { error, .. } if crate::store::is_full(error))
    }
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const REMEDY: &str =
            "restore this broker's data directory from a copy, or remove it and let the replicas fill it again";
        const ROOM: &str =
            "; free space there: what a journal holds has to go to its segments before the broker starts";
        match self {
            Self::Io { what, path, error } => {
                write!(f, "cannot {what} {}: {error}", path.display())?;
                if self.is_full() { f.write_str(ROOM) } else { Ok(()) }
            }
            Self::NoManifest { dir, broken } => {
                let place = Place { dir, broken };
                write!(f, "{place}: there are journals and no whole manifest; {REMEDY}")
            }
            Self::Manifest { path, error } => write!(f, "{}: {error}", path.display()),
            Self::ForeignManifest { dir, shard } => {
                write!(f, "{}: its manifest is that of shard {shard}; {REMEDY}", dir.display())
            }
            Self::ManifestLost { dir, broken, version, wanted } => {
                let place = Place { dir, broken };
                write!(
                    f,
                    "{place}: the journal follows manifest {wanted}, and the newest that is whole is {version}; {REMEDY}"
                )
            }
            Self::JournalRot { path, rot } => write!(f, "{}: {rot}; {REMEDY}", path.display()),
            Self::Replay { dir, error } => write!(f, "{}: {error}; {REMEDY}", dir.display()),
            Self::Placement(error) => write!(f, "{error}; {REMEDY}"),
        }
    }
}

impl std::error::Error for RecoverError {}

/// Where a manifest is missed: in the copies that are broken, or in the whole directory.
struct Place<'a> {
    dir: &'a Path,
    broken: &'a [BrokenCopy],
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((last, others)) = self.broken.split_last() else { return self.dir.display().fmt(f) };
        for BrokenCopy { path, at } in others {
            write!(f, "{} is damaged at offset {at} and ", path.display())?;
        }
        write!(f, "{} is damaged at offset {}", last.path.display(), last.at)
    }
}

/// Recovers the whole data directory for `config.shards` shards, none of which has a store open. Where the disk is too full for that, what
/// only waits to be deleted goes, then the ballast.
///
/// # Errors
/// See [`RecoverError`].
///
/// # Panics
/// Without shards.
pub async fn recover(shard: &Shard, config: &RecoverConfig) -> Result<Recovered, RecoverError> {
    assert!(config.shards > 0, "a broker has at least one shard");
    loop {
        match attempt(shard, config).await {
            // Whatever was begun is begun anew.
            Err(error) if error.is_full() && room::make_room(shard, &config.data_dir).await => {
                tracing::warn!("{error}: room was made of what was there for it");
            }
            done => return done,
        }
    }
}

async fn attempt(shard: &Shard, config: &RecoverConfig) -> Result<Recovered, RecoverError> {
    let mut report = RecoveryReport::default();
    let data_dir = &config.data_dir;
    make_dirs(shard, data_dir).await?;
    let dirs = image::shard_dirs(shard, data_dir).await?;
    report.shard_dirs = dirs.len();
    let (images, replays) = read_and_replay(shard, config, &dirs, &mut report).await?;
    let plan = plan::recovery_plan(replays, config.shards).map_err(RecoverError::Placement)?;
    report.logs = plan.logs.len();
    report.logs_moved = plan.moved;
    report.claims_stale = plan.stale;

    let context = Rc::new(ApplyContext {
        shard: shard.clone(),
        data_dir: data_dir.clone(),
        images,
        index_interval_bytes: config.index_interval_bytes,
        now: shard.wall(),
        syncs_each: plan.logs.iter().filter(|planned| apply::is_touched(&planned.log)).count() <= config.log_syncs_max,
    });
    let logs = apply_all(&context, plan, &mut report).await?;
    if !context.syncs_each {
        // Ten thousand logs are some fifty thousand syncs otherwise. Which file failed nobody can tell: the start ends then.
        shard.fs().sync_fs(data_dir).await.map_err(RecoverError::io("sync the file system of", data_dir))?;
    }
    let known = logs.iter().map(|(_, log)| (log.topic.as_str(), log.id)).collect();
    report.logs_trashed = trash_unknown(shard, data_dir, &known).await?;
    let offline = logs.iter().filter(|(_, log)| log.offline).map(|(_, log)| log.id).collect();
    let mut shards = commit::commit(&context, config, &dirs, logs).await?;
    offline::remove_stale(shard, data_dir, &offline).await?;
    if let Some(first) = shards.first_mut() {
        let trash = paths::trash_dir(data_dir);
        let entries = shard.fs().list(&trash).await.map_err(RecoverError::io("list", trash))?;
        first.trash = entries.into_iter().map(|entry| entry.name).collect();
    }
    report.journal_bytes_read = context.images.iter().map(|image| image.journal.bytes_read.get()).sum();
    Ok(Recovered { shards, report })
}

/// What recovery would find and do.
pub struct Survey {
    pub images: Vec<ShardImage>,
    pub plan: RecoveryPlan,
    pub report: RecoveryReport,
}

/// Looks at a data directory as [`recover`] would, and leaves it as it is: for checks while no broker runs.
///
/// # Errors
/// What would stop a start; see [`RecoverError`].
///
/// # Panics
/// Without shards.
pub async fn survey(shard: &Shard, config: &RecoverConfig) -> Result<Survey, RecoverError> {
    assert!(config.shards > 0, "a broker has at least one shard");
    let mut report = RecoveryReport::default();
    let dirs = image::shard_dirs(shard, &config.data_dir).await?;
    report.shard_dirs = dirs.len();
    let (images, replays) = read_and_replay(shard, config, &dirs, &mut report).await?;
    let plan = plan::recovery_plan(replays, config.shards).map_err(RecoverError::Placement)?;
    Ok(Survey { images, plan, report })
}

/// The directories that everything else stands in, down from the root: a crash must not take one of them away.
async fn make_dirs(shard: &Shard, data_dir: &Path) -> Result<(), RecoverError> {
    let fs = shard.fs();
    for dir in [paths::logs_dir(data_dir), paths::trash_dir(data_dir), paths::orphans_dir(data_dir)] {
        fs.create_dir_all(&dir).await.map_err(RecoverError::io("create", dir))?;
    }
    for dir in data_dir.ancestors().filter(|dir| !dir.as_os_str().is_empty()) {
        match fs.sync_dir(dir).await {
            Ok(()) => {}
            // Above a directory that this process may not read, it has made nothing.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(RecoverError::io("sync", dir)(error)),
        }
    }
    Ok(())
}

async fn read_and_replay(
    shard: &Shard,
    config: &RecoverConfig,
    dirs: &[ShardId],
    report: &mut RecoveryReport,
) -> Result<(Vec<ShardImage>, Vec<(ShardId, ShardReplay)>), RecoverError> {
    let mut memory = config.replay_memory_bytes;
    let (mut images, mut replays) = (Vec::new(), Vec::new());
    for &of in dirs {
        let Some(mut image) = ShardImage::read(shard, &config.data_dir, of, &mut memory).await? else { continue };
        report.manifest_bytes_read += image.manifest_bytes_read;
        report.frames_dropped += image.scan.frames_dropped as u64;
        report.frames_damaged += image.passed.damaged;
        report.frames_foreign += image.passed.foreign;
        report.second_copies += image.newest_copy;
        report.frames_replayed += image.scan.frames.len() as u64;
        let mut replay = replay_shard(shard, &config.data_dir, &mut image, shard.wall()).await?;
        offline::bring_back(shard, &config.data_dir, &mut image, &mut replay, shard.wall()).await?;
        report.entries.add(&replay.counts);
        images.push(image);
        replays.push((of, replay));
    }
    Ok((images, replays))
}

async fn replay_shard(
    shard: &Shard,
    data_dir: &Path,
    image: &mut ShardImage,
    now: WallTime,
) -> Result<ShardReplay, RecoverError> {
    let dir = paths::shard_dir(data_dir, image.shard);
    let failed = |error| RecoverError::Replay { dir: dir.clone(), error };
    let mut replay = ShardReplay::new(std::mem::take(&mut image.manifest.logs)).map_err(failed)?;
    for frame in &image.scan.frames {
        let (body, at) = image.body(shard, frame).await?;
        replay.frame(&frame.head, &body, at, now).map_err(failed)?;
        shard.yield_now().await;
    }
    Ok(replay)
}

async fn apply_all(
    context: &Rc<ApplyContext>,
    plan: RecoveryPlan,
    report: &mut RecoveryReport,
) -> Result<Vec<(ShardId, LogRecord)>, RecoverError> {
    let (shard, account) = (&context.shard, context.shard.account("recovery"));
    let work = |planned| apply::apply(context.clone(), planned);
    let done = crate::tasks::for_each(shard, (Class::Normal, account), LOGS_AT_ONCE, plan.logs, work).await;
    let mut logs = Vec::with_capacity(done.len());
    for result in done {
        let (planned, counts) = result?;
        report.applied.add(&counts);
        report.logs_offline += usize::from(planned.log.offline);
        logs.push((planned.to, planned.log.to_record()));
    }
    logs.sort_unstable_by_key(|(shard, log)| (*shard, log.id));
    Ok(logs)
}

/// Moves directories of logs that no record knows to the trash: logs that were removed, or whose creation was never durable.
async fn trash_unknown(shard: &Shard, data_dir: &Path, known: &BTreeSet<(&str, LogId)>) -> Result<usize, RecoverError> {
    let (fs, logs_dir, trash) = (shard.fs(), paths::logs_dir(data_dir), paths::trash_dir(data_dir));
    let topics = fs.list(&logs_dir).await.map_err(RecoverError::io("list", &logs_dir))?;
    let mut trashed = 0;
    for topic in topics.iter().filter(|entry| entry.is_dir) {
        let topic_dir = logs_dir.join(&topic.name);
        let mut kept = false;
        for entry in fs.list(&topic_dir).await.map_err(RecoverError::io("list", &topic_dir))? {
            // What is not named as we name logs is not ours to judge.
            let id = paths::parse_log_dir(&entry.name).filter(|_| entry.is_dir);
            let Some(id) = id.filter(|&id| !known.contains(&(topic.name.as_str(), id))) else {
                kept = true;
                continue;
            };
            let from = topic_dir.join(&entry.name);
            let to = trash.join(format!("{id}-{:016x}", shard.random()));
            fs.rename(&from, to).await.map_err(RecoverError::io("rename", from))?;
            trashed += 1;
        }
        if !kept {
            fs.remove_dir(&topic_dir).await.map_err(RecoverError::io("remove", topic_dir))?;
        }
    }
    if trashed > 0 {
        fs.sync_dir(&logs_dir).await.map_err(RecoverError::io("sync", logs_dir))?;
        fs.sync_dir(&trash).await.map_err(RecoverError::io("sync", trash))?;
    }
    Ok(trashed)
}
