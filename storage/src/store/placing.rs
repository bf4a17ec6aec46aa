//! A log moves to another shard: it is handed over with everything that is known of it; its files stay where they are.
//!
//! Steps, which the broker takes in this order: [`ShardStore::hand_over`] on the old shard (parked, destaged, synced);
//! [`ShardStore::take_over`] on the new one, whose journal entry, with the next placement epoch, is the move;
//! [`ShardStore::forget_moved`] on the old one, before the new one may remove the log again. A crash before the second leaves the log
//! where it was, one after it finds it where it went: the higher epoch wins.

use std::rc::Rc;

use base::PlacementEpoch;

use super::core::StoreCore;
use super::destage::{DestageError, destage};
use super::{ShardStore, StoreError, open};
use crate::config::{LogConfig, LogId};
use crate::journal::codec::Control;
use crate::log::{Log, Status};
use crate::manifest::LogRecord;
use crate::tail::Address;

/// A log on its way from one shard to another. `Send`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HandedLog {
    record: LogRecord,
    config: LogConfig,
}

impl HandedLog {
    #[must_use]
    pub fn id(&self) -> LogId {
        self.record.id
    }

    /// The epoch under which the new owner will hold it.
    #[must_use]
    pub fn placement(&self) -> PlacementEpoch {
        self.record.placement
    }
}

impl ShardStore {
    /// Parks a log and makes all of it durable in its files. Until it is forgotten here it is still this shard's.
    ///
    /// # Errors
    /// It is not online, its files fail, or the disk is full: but for files that failed, it goes on as before.
    pub async fn hand_over(&self, id: LogId) -> Result<HandedLog, StoreError> {
        let core = self.core.clone();
        self.change(async move { hand_over(&core, id).await }).await
    }

    /// Ends a move that did not come to pass: the log takes appends again.
    ///
    /// # Errors
    /// No such log here.
    pub fn take_back(&self, id: LogId) -> Result<(), StoreError> {
        let log = self.core.log(id).ok_or(StoreError::NotFound)?;
        let mut state = log.0.state.borrow_mut();
        if state.status == Status::Parked {
            state.status = Status::Online;
        }
        drop(state);
        log.0.changed.notify_all();
        Ok(())
    }

    /// Takes a log that another shard handed over; the move is durable when it returns.
    ///
    /// # Errors
    /// It is here already, or the store closes.
    pub async fn take_over(&self, handed: HandedLog) -> Result<Log, StoreError> {
        let core = self.core.clone();
        self.change(async move { take_over(&core, handed).await }).await
    }

    /// Forgets a log that now lives on another shard under `placement`; durable when it returns.
    ///
    /// # Errors
    /// It is not here, or is not parked.
    pub async fn forget_moved(&self, id: LogId, placement: PlacementEpoch) -> Result<(), StoreError> {
        let core = self.core.clone();
        self.change(async move { forget_moved(&core, id, placement).await }).await
    }
}

async fn hand_over(core: &Rc<StoreCore>, id: LogId) -> Result<HandedLog, StoreError> {
    let log = core.log(id).ok_or(StoreError::NotFound)?;
    {
        let mut state = log.0.state.borrow_mut();
        log.online(&state)?;
        state.status = Status::Parked;
    }
    let parked = async {
        core.drain().await;
        destage(core, &log, Address(u64::MAX)).await.map_err(|error| match error {
            DestageError::Full => StoreError::DiskFull,
            DestageError::Failed => StoreError::Offline,
        })?;
        // A checkpoint finishes sealed segments and indexes and syncs everything; only then is the record true without a journal.
        let checkpointed = super::checkpoint::checkpoint(core).await;
        checkpointed.map_err(StoreError::from)
    };
    if let Err(error) = parked.await {
        let mut state = log.0.state.borrow_mut();
        if state.status == Status::Parked {
            state.status = Status::Online;
        }
        drop(state);
        log.0.changed.notify_all();
        return Err(error);
    }
    let state = log.0.state.borrow();
    if state.status != Status::Parked {
        return Err(StoreError::Offline);
    }
    let mut record = log.0.to_record(&state);
    record.placement = PlacementEpoch(record.placement.0 + 1);
    Ok(HandedLog { record, config: state.config.clone() })
}

async fn take_over(core: &Rc<StoreCore>, handed: HandedLog) -> Result<Log, StoreError> {
    let HandedLog { record, config } = handed;
    let encoded = record.encode();
    let control = Control::Placed { record: &encoded };
    let room = core.promise(&control).await?;
    let _gate = core.pass_gate().await;
    if core.closing.get() {
        return Err(StoreError::Closed);
    }
    let id = record.id;
    if core.logs.borrow().contains_key(&id) || !core.creating.borrow_mut().insert(id) {
        return Err(StoreError::Exists);
    }
    let durable = room.push(&control).await;
    core.creating.borrow_mut().remove(&id);
    durable.map_err(|_| StoreError::Closed)?;
    let log = open::new_log(core, record, config).await;
    core.logs.borrow_mut().insert(id, log.clone());
    Ok(log)
}

async fn forget_moved(core: &Rc<StoreCore>, id: LogId, placement: PlacementEpoch) -> Result<(), StoreError> {
    let control = Control::Released { log: id, placement };
    let room = core.promise(&control).await?;
    let _gate = core.pass_gate().await;
    let log = core.log(id).ok_or(StoreError::NotFound)?;
    if log.status() != Status::Parked {
        return Err(StoreError::Busy);
    }
    room.push(&control).await.map_err(|_| StoreError::Closed)?;
    log.leave().await;
    core.logs.borrow_mut().remove(&id);
    Ok(())
}
