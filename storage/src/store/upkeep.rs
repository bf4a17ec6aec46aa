//! What logs need now and then: retention, rolling by age, forgetting idle producers, giving idle memory back, new indexes.
//!
//! Owner: the store. One pass over all logs at each interval, yielding between them; what a log needs becomes journal entries like
//! any other change.

use std::rc::Rc;
use std::time::Duration;

use base::WallTime;

use super::core::StoreCore;
use super::wall::WallClock;
use crate::log::{Log, Status};
use crate::producer::ProducerLimits;
use crate::retention::{LogExtent, RetentionPlan, retention_plan};
use crate::segment::roll_reason;

/// After so long without an append a log gives its memory back.
const IDLE: Duration = Duration::from_secs(300);

/// Runs until the store stops.
pub(crate) async fn upkeep_loop(core: Rc<StoreCore>) {
    let mut clock = WallClock::start(&core).await;
    loop {
        shard::sync::either(core.stopped.wait(), core.shard.sleep(core.config.upkeep_interval)).await;
        if core.stopping.get() || core.closing.get() {
            return;
        }
        pass(&core, &mut clock).await;
    }
}

async fn pass(core: &Rc<StoreCore>, clock: &mut WallClock) {
    let trusted = clock.look(core).await;
    for log in core.all_logs() {
        if log.status() == Status::Online {
            look_after(core, &log, trusted).await;
        }
        core.shard.yield_now().await;
    }
    super::reindex::rebuild_damaged(core).await;
}

/// Gives back the memory of a log that nobody appends to, all but its last block.
fn rest(log: &Log, now: WallTime) {
    let state = log.0.state.borrow();
    let idle_ms = now.0.saturating_sub(state.active().meta.last_append.0);
    if idle_ms > IDLE.as_millis() as i64 {
        state.tail.shrink();
    }
}

async fn look_after(core: &Rc<StoreCore>, log: &Log, trusted: Option<WallTime>) {
    if let Some(now) = trusted {
        let mut state = log.0.state.borrow_mut();
        let limits = ProducerLimits { expiration_ms: state.config.producer_expiration_ms, ..ProducerLimits::default() };
        if state.producers.expire(now, &limits) > 0 {
            state.dirty = true;
        }
        state.no_later_than(now);
        let too_old = roll_reason(state.active(), &state.roll_limits(), None, now).is_some();
        drop(state);
        if too_old {
            log.roll_now(now);
        }
        rest(log, now);
    }
    let plan = plan(log, trusted);
    if plan.segments == 0 {
        return;
    }
    if plan.rolls {
        log.roll_now(core.shard.wall());
    }
    if let Err(error) = log.advance_start(plan.log_start).await {
        tracing::warn!(log = %log.id(), %error, "retention could not move the log's start");
    }
    // What was sealed but not finished at an earlier pass.
    match log.drop_expired().await {
        Ok(trashed) => core.trash.put(trashed, log.delete_delay()),
        Err(error) => tracing::warn!(log = %log.id(), %error, "segments below the log's start could not be moved away"),
    }
}

fn plan(log: &Log, trusted: Option<WallTime>) -> RetentionPlan {
    let state = log.0.state.borrow();
    let segments: Vec<_> = state.segments().copied().collect();
    let extent = LogExtent { segments: &segments, log_start: state.start, high_watermark: state.high_watermark };
    retention_plan(&extent, &state.retention_limits(), trusted)
}
