//! What a data directory holds, as far as it decides whether a broker can start on it. Nothing is changed.

use std::io;
use std::path::Path;

use base::{BrokerId, WallTime};
use shard::Shard;
use shard::probe::{Finding, Severity};
use storage::RecoverConfig;
use storage::config::paths;
use storage::format::{FILE_NAME, FormatError, LOCK_NAME};
use storage::recovery::{Survey, survey};

use super::super::log::manifests_in_doubt;
use super::finding;

/// An append this much later than the clock says that the clock went back.
const CLOCK_SLACK_MS: i64 = 60_000;

/// What was found.
#[derive(Clone, Default, Debug)]
pub struct Look {
    pub findings: Vec<Finding>,
    /// Of the journals that are there.
    pub journal_bytes: u64,
}

/// Looks into a directory that exists, for a broker of this id.
pub async fn look(shard: &Shard, dir: &Path, broker: i32) -> Look {
    let mut looking = Looking { shard, dir, look: Look::default() };
    if let Err(error) = looking.run(BrokerId(broker)).await {
        let what = format!("{} can't be read", dir.display());
        looking.tell(Severity::Fatal, what, &error.to_string(), "see to the disk and to the rights of this user");
    }
    looking.look
}

struct Looking<'a> {
    shard: &'a Shard,
    dir: &'a Path,
    look: Look,
}

impl Looking<'_> {
    fn tell(&mut self, severity: Severity, what: impl Into<String>, why: &str, remedy: &str) {
        self.look.findings.push(finding(severity, what, why, remedy));
    }

    async fn run(&mut self, broker: BrokerId) -> io::Result<()> {
        self.journals().await?;
        if !self.can_be_locked().await? || !self.is_ours(broker).await? {
            return Ok(());
        }
        let doubtful =
            manifests_in_doubt(self.shard, self.dir).await.map_err(|failure| io::Error::other(failure.what))?;
        for what in doubtful {
            let remedy = "`tidemill log verify` tells more; copy the directory away before the broker is started";
            self.tell(Severity::Warning, what, "a start goes by the other copy, if that is whole", remedy);
        }
        match survey(self.shard, &RecoverConfig::new(self.dir, 1)).await {
            Ok(found) => self.found(&found),
            Err(error) => {
                let what = format!("a start on {} would stop", self.dir.display());
                let remedy = "`tidemill log verify` says where; the directory stays as it is meanwhile";
                self.tell(Severity::Fatal, what, &error.to_string(), remedy);
            }
        }
        self.orphans().await
    }

    async fn journals(&mut self) -> io::Result<()> {
        let shards = paths::shards_dir(self.dir);
        if self.shard.fs().stat(&shards).await?.is_none() {
            return Ok(());
        }
        for entry in self.shard.fs().list(&shards).await?.iter().filter(|entry| entry.is_dir) {
            let files = self.shard.fs().list(shards.join(&entry.name)).await?;
            let journals = files.iter().filter(|file| paths::journal_number(&file.name).is_some());
            self.look.journal_bytes += journals.map(|file| file.bytes).sum::<u64>();
        }
        Ok(())
    }

    /// A directory in use changes while it is looked at.
    async fn can_be_locked(&mut self) -> io::Result<bool> {
        let path = self.dir.join(LOCK_NAME);
        if self.shard.fs().stat(&path).await?.is_none() {
            return Ok(true);
        }
        match self.shard.fs().lock(path).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let what = format!("{} is in use", self.dir.display());
                let remedy =
                    "stop that one, or choose another --data-dir; what is in it can be looked at once it rests";
                self.tell(Severity::Fatal, what, &error.to_string(), remedy);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn is_ours(&mut self, broker: BrokerId) -> io::Result<bool> {
        let path = self.dir.join(FILE_NAME);
        let error = match storage::format::read(self.shard, self.dir).await {
            Ok(Some(identity)) if identity.node_id != broker => {
                FormatError::OtherNode { path, node: identity.node_id, asked: broker }
            }
            Ok(Some(_)) => return Ok(true),
            Ok(None) => {
                let others = self.shard.fs().list(self.dir).await?;
                let ours = |name: &str| name == LOCK_NAME || name == "lost+found";
                if let Some(other) = others.iter().find(|entry| !ours(&entry.name)) {
                    let what = format!("{} is no data directory yet, and not empty", self.dir.display());
                    let why = format!("it holds `{}`, which is not the broker's", other.name);
                    self.tell(Severity::Warning, what, &why, "choose a directory of its own for the broker");
                }
                return Ok(false);
            }
            Err(FormatError::Io { error, .. }) => return Err(error),
            Err(error) => error,
        };
        let remedy = "a start refuses it as it is";
        self.tell(Severity::Fatal, format!("{} can't be used", self.dir.display()), &error.to_string(), remedy);
        Ok(false)
    }

    fn found(&mut self, found: &Survey) {
        let offline: Vec<String> = found
            .plan
            .logs
            .iter()
            .filter(|planned| planned.log.offline)
            .map(|planned| format!("{}-{}", planned.log.topic, planned.log.id.partition))
            .collect();
        if !offline.is_empty() {
            let what = format!("{} logs are offline: {}", offline.len(), offline.join(", "));
            let why = "a file of each failed, and what its journal held then can't be replayed";
            self.tell(
                Severity::Warning,
                what,
                why,
                "see to the disk (`dmesg`); restore those logs from a copy, or delete their topics",
            );
        }
        let segments = found.plan.logs.iter().flat_map(|planned| &planned.log.segments);
        let newest = segments.map(|segment| segment.meta.last_append).max().unwrap_or(WallTime(0));
        let ahead_ms = newest.0.saturating_sub(self.shard.wall().0);
        if ahead_ms > CLOCK_SLACK_MS {
            let what = format!("the clock is {} s behind the newest record", ahead_ms / 1000);
            let why = "the clock was ahead before, or is behind now: nothing is deleted for its age meanwhile";
            self.tell(Severity::Warning, what, why, "set the clock, and keep it with chrony or systemd-timesyncd");
        }
    }

    async fn orphans(&mut self) -> io::Result<()> {
        let dir = paths::orphans_dir(self.dir);
        if self.shard.fs().stat(&dir).await?.is_none() {
            return Ok(());
        }
        let count = self.shard.fs().list(&dir).await?.len();
        if count > 0 {
            let what = format!("{count} files are in {}", dir.display());
            let why = "files of so many logs failed before: what the journal held of them was kept there";
            self.tell(Severity::Warning, what, why, "see to the disk (`dmesg`); the next start replays them");
        }
        Ok(())
    }
}
