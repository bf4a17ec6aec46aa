//! `tidemill log verify`: checks that a start would find everything, and that everything it would find is sound.
//!
//! The same code that recovers reads manifests and journals and replays them, and changes nothing. Then every batch of every
//! segment is read as a start would leave it: the segment's file, with what the journal still holds put over it. So neither a torn
//! write that the journal covers nor room given ahead of data counts as damage, and a single flipped bit does.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use shard::Shard;
use storage::config::paths;
use storage::format::{FILE_NAME, FormatError};
use storage::manifest::file::BrokenCopy;
use storage::recovery::replay::ReplayError;
use storage::recovery::{Survey, survey};
use storage::{RecoverConfig, RecoverError};

use super::super::Exit;
use super::super::failure::Failure;
use super::report::{Place, Report};
use super::segments::LogChecks;
use super::{Verify, rest, shards, unreadable};

/// For data that is not there any more.
pub const RESTORE: &str = "restore the directory from a copy, or remove it and let the replicas fill it again";

pub async fn verify(shard: &Shard, arguments: &Verify) -> Result<Exit, Failure> {
    let mut report = Report::new(arguments.output);
    for dir in &arguments.dirs {
        check_that_it_rests(shard, dir, &mut report).await?;
        let mut verifying = Verifying { shard, dir, report: &mut report, records: arguments.records };
        verifying.run().await?;
    }
    Ok(report.exit())
}

/// A running broker writes meanwhile, which would look like damage.
async fn check_that_it_rests(shard: &Shard, dir: &Path, report: &mut Report) -> Result<(), Failure> {
    let fs = shard.fs();
    let is_dir = fs.stat(dir).await.map_err(unreadable(dir))?.is_some_and(|stat| stat.is_dir);
    let has_shards = fs.stat(paths::shards_dir(dir)).await.map_err(unreadable(dir))?.is_some();
    let has_format = fs.stat(dir.join(FILE_NAME)).await.map_err(unreadable(dir))?.is_some();
    if !is_dir || !(has_shards || has_format) {
        return Err(Failure::failed(format!("{}: no data directory of a broker", dir.display()))
            .remedy("a data directory holds `format.toml`; it is what `serve --data-dir` names"));
    }
    match super::hold(shard, dir).await {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(Failure::failed(format!("{}: it is in use: {error}", dir.display()))
                .remedy("stop the broker first: what it is writing meanwhile would look like damage"))
        }
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            let what = "it is mounted read-only here: whether a broker writes to it from elsewhere can't be seen";
            report.note(Place::new(dir, 0), what, None);
            Ok(())
        }
        other => other.map_err(unreadable(dir)),
    }
}

struct Verifying<'a> {
    shard: &'a Shard,
    dir: &'a Path,
    report: &'a mut Report,
    records: bool,
}

#[derive(Serialize)]
struct SummaryRow {
    data_dir: String,
    logs: usize,
    journal_commits: u64,
    damages: u64,
}

impl Verifying<'_> {
    async fn run(&mut self) -> Result<(), Failure> {
        let damages_before = self.report.damages;
        self.format().await?;
        let newest = shards::check_manifests(self.shard, self.dir, self.report).await?;
        // Where logs would be put does not matter here; any number of shards will do.
        let found = match survey(self.shard, &RecoverConfig::new(self.dir, 1)).await {
            Ok(found) => {
                self.found(&found).await?;
                Some(found)
            }
            Err(RecoverError::Io { what, path, error }) => {
                return Err(Failure::failed(format!("cannot {what} {}: {error}", path.display())));
            }
            Err(error) => {
                let (file, position, what) = place_of(self.dir, &error);
                self.report.damage(Place::new(&file, position), what, Some(RESTORE));
                self.sealed_alone(&newest).await?;
                None
            }
        };
        rest::check(self.shard, self.dir, found.as_ref(), self.report).await?;
        let summary = SummaryRow {
            data_dir: self.dir.display().to_string(),
            logs: found.as_ref().map_or(0, |found| found.plan.logs.len()),
            journal_commits: found.as_ref().map_or(0, |found| found.report.frames_replayed),
            damages: self.report.damages - damages_before,
        };
        self.report.row(&summary, || {
            let SummaryRow { data_dir, logs, journal_commits, damages } = &summary;
            format!("{data_dir}: {logs} logs and {journal_commits} commits of journals, {damages} damages")
        });
        Ok(())
    }

    async fn format(&mut self) -> Result<(), Failure> {
        match storage::format::read(self.shard, self.dir).await {
            Ok(_) => Ok(()),
            Err(error @ (FormatError::Io { .. } | FormatError::Newer { .. })) => Err(Failure::failed(error)),
            Err(error) => {
                self.report.damage(Place::new(&self.dir.join(FILE_NAME), 0), error, None);
                Ok(())
            }
        }
    }

    async fn found(&mut self, found: &Survey) -> Result<(), Failure> {
        for image in &found.images {
            shards::show_journal(self.dir, image, self.report);
        }
        let mut checks =
            LogChecks { shard: self.shard, data_dir: self.dir, report: self.report, records: self.records };
        for planned in &found.plan.logs {
            let image = found.images.iter().find(|image| image.shard == planned.from);
            checks.log(image.expect("the plan was made from images"), &planned.log).await?;
        }
        Ok(())
    }

    /// Nobody can say where the logs end. What was sealed at a checkpoint can be looked at all the same.
    async fn sealed_alone(&mut self, newest: &[PathBuf]) -> Result<(), Failure> {
        for path in newest {
            let records = shards::records(self.shard, path).await.map_err(unreadable(path))?;
            let mut checks =
                LogChecks { shard: self.shard, data_dir: self.dir, report: self.report, records: self.records };
            for record in records.iter().filter(|record| !record.offline) {
                checks.sealed_alone(record).await?;
            }
        }
        Ok(())
    }
}

/// The damaged copy of a manifest and where in it, or the directory where none is left.
fn first_broken(dir: &Path, broken: &[BrokenCopy]) -> (PathBuf, u64) {
    broken.first().map_or_else(|| (dir.to_owned(), 0), |copy| (copy.path.clone(), copy.at))
}

/// Where it is that keeps a broker from starting, and what.
fn place_of(data_dir: &Path, error: &RecoverError) -> (PathBuf, u64, String) {
    match error {
        RecoverError::JournalRot { path, rot } => (path.clone(), rot.offset, rot.to_string()),
        RecoverError::Manifest { path, error } => (path.clone(), 0, error.to_string()),
        RecoverError::NoManifest { dir, broken } => {
            let (path, at) = first_broken(dir, broken);
            (path, at, "there are journals but no whole manifest".to_owned())
        }
        RecoverError::ForeignManifest { dir, shard } => {
            (dir.clone(), 0, format!("its manifest is that of shard {shard}: files were copied by hand"))
        }
        RecoverError::ManifestLost { dir, broken, version, wanted } => {
            let (path, at) = first_broken(dir, broken);
            (path, at, format!("the journal follows manifest {wanted}, and the newest that is whole is {version}"))
        }
        RecoverError::Replay { dir, error } => {
            let (ReplayError::Entry { source, .. } | ReplayError::Log { source, .. }) = error;
            (dir.join(format!("journal-{}", source.file)), source.offset, error.to_string())
        }
        RecoverError::Io { what, path, error } => (path.clone(), 0, format!("cannot {what} it: {error}")),
        RecoverError::Placement(error) => (paths::shards_dir(data_dir), 0, error.to_string()),
    }
}
