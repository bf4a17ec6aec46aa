//! `tidemill log`: what is in the files of a broker that does not run.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`dump`] | prints a file: segment, index, manifest, journal, orphan |
//! | [`verify`] | goes through a data directory; `shards` its manifests and journals, `segments` its logs, `rest` what else lies there |
//! | [`batches`], [`entries`], [`manifests`], [`frames`] | read a file of a kind piece by piece |
//! | [`report`], [`rows`] | what both say, as a table or as JSON |
//!
//! Nothing here writes. The codecs are the broker's own; memory is bounded by a batch, a commit, a record of a manifest, whatever the
//! length of the file.

mod batches;
mod dump;
mod entries;
mod frames;
mod manifests;
mod report;
mod rest;
mod rows;
mod segments;
mod shards;
mod verify;

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use shard::{File, OpenOptions, Shard};

pub use shards::manifests_in_doubt;

use super::failure::Failure;
use super::output::Format;
use super::{Exit, session};

#[derive(Args, Clone, Debug)]
pub struct LogArguments {
    #[command(subcommand)]
    verb: LogVerb,
}

#[derive(Subcommand, Clone, Debug)]
enum LogVerb {
    /// Print what files hold: segments (*.log), their indexes, manifests, journals, orphans
    Dump(Dump),
    /// Check data directories: manifests, journals, every batch of every segment and every entry of its indexes
    ///
    /// Exits with 3 where something is damaged. Nothing is changed, and no broker may run on the directory meanwhile.
    Verify(Verify),
}

#[derive(Args, Clone, Debug)]
struct Dump {
    /// Files, told apart by their names, or directories with such files
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Print the records of batches, the entries of commits, the segments of a manifest's logs too
    #[arg(long)]
    records: bool,
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Args, Clone, Debug)]
struct Verify {
    /// Data directories
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Decode every record too, which takes longer
    #[arg(long)]
    records: bool,
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

pub fn run(arguments: LogArguments) -> Exit {
    session::run(move |shard| async move {
        match arguments.verb {
            LogVerb::Dump(arguments) => dump::dump(&shard, &arguments).await,
            LogVerb::Verify(arguments) => verify::verify(&shard, &arguments).await,
        }
    })
}

/// Opens a file for reading; `None` where there is none.
async fn open(shard: &Shard, path: &Path) -> io::Result<Option<File>> {
    let options = OpenOptions { read: true, write: false, create: false, exclusive: false, direct: true };
    match shard.fs().open(path, options).await {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Keeps brokers off a data directory until this process ends; `WouldBlock` where one is on it. Nothing is made: where no lock ever was,
/// no broker is.
async fn hold(shard: &Shard, data_dir: &Path) -> io::Result<()> {
    let path = data_dir.join(storage::format::LOCK_NAME);
    if shard.fs().stat(&path).await?.is_none() {
        return Ok(());
    }
    shard.fs().lock(path).await
}

/// What to say of a file that can't be read.
fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let path = path.display().to_string();
    move |error| Failure::failed(format!("{path}: {error}"))
}
