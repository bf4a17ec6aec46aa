//! The journal grows in the background while checkpoints do not keep up with what is appended, up to its limit.
//!
//! Owner: the store. One file at a time, in small writes that leave the device to commits; a store that is never pressed keeps the
//! small journal it began with, and so recovers faster.

use std::rc::Rc;

use super::core::StoreCore;
use crate::journal::files::{Pace, make_file};

/// Runs until the store stops or the journal is as large as it may be.
pub(crate) async fn grow_loop(core: Rc<StoreCore>) {
    loop {
        core.grow_wanted.wait().await;
        if core.stopping.get()
            || core.ring.borrow().bytes() + core.config.journal_file_bytes > core.config.journal_bytes_limit
        {
            return;
        }
        grow(&core).await;
    }
}

async fn grow(core: &StoreCore) {
    let number = core.journal.borrow().next_number();
    let (shard, config) = (&core.shard, &core.config);
    {
        let mut space = core.space.borrow_mut();
        if space.spare_bytes() < config.journal_file_bytes {
            // The rest of the disk is for what was acknowledged; wanted again, this looks again.
            return;
        }
        space.allocating(config.journal_file_bytes);
    }
    let made =
        make_file(shard, &config.data_dir, config.shard, number, config.journal_file_bytes, Pace::Background).await;
    core.space.borrow_mut().allocated(config.journal_file_bytes);
    match made {
        Ok(file) => {
            core.journal.borrow_mut().insert(number, file);
            core.ring.borrow_mut().grow(number);
            core.room.notify_all();
        }
        // The journal that there is goes on to serve.
        Err(error) => tracing::warn!(shard = %config.shard, %error, "the journal could not grow"),
    }
}
