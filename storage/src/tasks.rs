//! Doing one thing to many logs, a few at a time.

use std::future::Future;

use shard::sync::Semaphore;
use shard::{Account, Class, Shard};

/// Runs `work` on each item, at most `limit` at once, and returns the results in the order of the items.
pub(crate) async fn for_each<T, R, F>(
    shard: &Shard,
    (class, account): (Class, Account),
    limit: usize,
    items: Vec<T>,
    work: impl Fn(T) -> F,
) -> Vec<R>
where
    R: 'static,
    F: Future<Output = R> + 'static,
{
    let turns = Semaphore::new(limit);
    let mut tasks = Vec::with_capacity(items.len());
    for item in items {
        let turn = turns.acquire(1).await.expect("the semaphore is never closed");
        let future = work(item);
        tasks.push(shard.spawn(class, account.clone(), async move {
            let result = future.await;
            drop(turn);
            result
        }));
    }
    let mut results = Vec::with_capacity(tasks.len());
    for task in tasks {
        results.push(task.await);
    }
    results
}
