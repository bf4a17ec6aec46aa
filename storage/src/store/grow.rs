//! The journal grows in the background while checkpoints are asked for because it is half full, up to its limit.

use std::rc::Rc;

use shard::Class;

use super::core::StoreCore;
use crate::journal::files::{Pace, make_file};

/// A checkpoint is done. `asked`: for want of room, not for its age.
pub(crate) fn after_checkpoint(core: &Rc<StoreCore>, asked: bool) {
    let file_bytes = core.config.journal_file_bytes;
    let room_to_grow = core.ring.borrow().bytes() + file_bytes <= core.config.journal_bytes_limit;
    if !asked || !room_to_grow || core.closing.get() || core.growing.replace(true) {
        return;
    }
    let task_core = core.clone();
    core.shard.spawn(Class::Background, core.account.clone(), async move { grow(&task_core).await });
}

async fn grow(core: &StoreCore) {
    let number = core.journal.borrow().next_number();
    let (shard, config) = (&core.shard, &core.config);
    let made =
        make_file(shard, &config.data_dir, config.shard, number, config.journal_file_bytes, Pace::Background).await;
    match made {
        Ok(file) => {
            core.journal.borrow_mut().insert(number, file);
            core.ring.borrow_mut().grow(number);
            core.room.notify_all();
        }
        // The journal that there is goes on to serve.
        Err(error) => tracing::warn!(shard = %config.shard, %error, "the journal could not grow"),
    }
    core.growing.set(false);
}
