//! FindCoordinator, and what needs a transaction's coordinator. Kafka makes its internal topics when they are first asked for, so these
//! steps come last.

use wire::messages::find_coordinator::FindCoordinatorRequest;
use wire::messages::init_producer_id::InitProducerIdRequest;

use crate::step::{At, Step, step};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

/// These keys; the first alone where a version takes one.
fn find(at: &At<'_>, key_type: i8, keys: &[&'static str]) -> FindCoordinatorRequest<'static> {
    let is_batch = at.version >= 4;
    FindCoordinatorRequest {
        key: if is_batch { "" } else { keys.first().copied().unwrap_or("") },
        key_type,
        coordinator_keys: keys.iter().copied().filter(|_| is_batch).collect(),
    }
}

pub fn steps() -> Vec<Step> {
    let transactional = |id, transaction_timeout_ms| InitProducerIdRequest {
        transactional_id: Some(id),
        transaction_timeout_ms,
        ..Default::default()
    };
    vec![
        step("find-coordinator/group", |at| find(at, GROUP, &["readers", "others"])).patient(),
        step("find-coordinator/transaction", |at| find(at, TRANSACTION, &["transfers"])).at(1..=6).patient(),
        step("find-coordinator/share", |at| find(at, SHARE, &["readers:AAAAAAAAAAAAAAAAAAAAAQ:0"])).at(6..=6).patient(),
        step("find-coordinator/share-before-its-time", |at| find(at, SHARE, &["readers"])).at(1..=5),
        step("find-coordinator/share-bad-key", |at| find(at, SHARE, &["readers"])).at(6..=6),
        step("find-coordinator/unheard-of", |at| find(at, 9, &["readers"])).at(1..=6),
        step("find-coordinator/empty-key", |at| find(at, GROUP, &[""])).patient(),
        step("find-coordinator/no-keys", |at| find(at, GROUP, &[])).at(4..=6),
        step("find-coordinator/twice", |at| find(at, GROUP, &["readers", "readers"])).at(4..=6).patient(),
        step("init-producer-id/empty-transactional-id", move |_| transactional("", 60_000)),
        step("init-producer-id/timeout-0", move |_| transactional("transfers", 0)).patient(),
        step("init-producer-id/timeout-too-long", move |_| transactional("transfers", 900_001)).patient(),
        step("init-producer-id/transactional", move |at| transactional(at.name("transfers"), 60_000)).patient(),
    ]
}
