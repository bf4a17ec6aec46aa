//! Moves away what a crash between the placing of a segment's files and its journal entry left: files of segments that the log does not have.

use std::io;
use std::rc::Rc;

use super::PassError;
use crate::log::Log;
use crate::segment::{SegmentName, parse_file_name};
use crate::store::StoreError;
use crate::store::core::StoreCore;

/// Once for each log that is compacted, before anything else is put into its directory.
pub(super) async fn sweep(core: &Rc<StoreCore>, log: &Log) -> Result<(), PassError> {
    if log.0.state.borrow().cleaning.swept {
        return Ok(());
    }
    // Nobody else makes or drops files of the log meanwhile; its removal takes the directory along.
    let _turn = log.0.files_turn.acquire(1).await.expect("the semaphore is never closed");
    let entries = match core.shard.fs().list(&log.0.dir).await {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(PassError::Stopped),
        Err(error) => return Err(PassError::Store(StoreError::io("list", log.dir(), error))),
    };
    let strays = {
        let state = log.0.state.borrow();
        let is_known = |segment: &SegmentName| state.segments().any(|meta| meta.name() == *segment);
        let named = entries.iter().filter_map(|entry| parse_file_name(&entry.name)).map(|(segment, _)| segment);
        let mut strays: Vec<_> = named.filter(|segment| !is_known(segment)).collect();
        strays.sort_unstable();
        strays.dedup();
        strays
    };
    let trashed = log.trash_segments(strays).await.map_err(PassError::Store)?;
    core.trash.put(trashed, std::time::Duration::ZERO);
    log.0.state.borrow_mut().cleaning.swept = true;
    Ok(())
}
