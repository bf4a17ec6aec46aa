//! Who used the core: time and stalls by account (a partition, a connection, a job).
//!
//! Owner: one shard. Accounts are found by name; one that nobody holds any more is forgotten once the table has grown, so that
//! connections that come and go do not grow it for ever.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use base::Instant;

/// The fewest accounts at which those without a holder are cleared away.
const PRUNE_COUNT_MIN: usize = 1024;
/// A stalling account is logged at most this often.
const STALL_LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Whom a task's time is charged to. A handle: clones are the same account.
#[derive(Clone)]
pub struct Account(Rc<Book>);

struct Book {
    name: Rc<str>,
    cpu_ns: Cell<u64>,
    polls: Cell<u64>,
    stalls: Cell<u64>,
    stall_ns_max: Cell<u64>,
    stall_logged: Cell<Option<Instant>>,
}

/// What an account has used so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountUse {
    pub name: Rc<str>,
    pub cpu: Duration,
    pub polls: u64,
    /// Polls that held the core longer than the shard's stall limit.
    pub stalls: u64,
    pub stall_max: Duration,
}

impl Account {
    fn new(name: &str) -> Self {
        Self(Rc::new(Book {
            name: name.into(),
            cpu_ns: 0.into(),
            polls: 0.into(),
            stalls: 0.into(),
            stall_ns_max: 0.into(),
            stall_logged: None.into(),
        }))
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    #[must_use]
    pub fn usage(&self) -> AccountUse {
        let book = &*self.0;
        AccountUse {
            name: book.name.clone(),
            cpu: Duration::from_nanos(book.cpu_ns.get()),
            polls: book.polls.get(),
            stalls: book.stalls.get(),
            stall_max: Duration::from_nanos(book.stall_ns_max.get()),
        }
    }

    /// Charges one poll that ended at `now`.
    pub(crate) fn charge(&self, spent: Duration, stall_limit: Duration, now: Instant) {
        let book = &*self.0;
        let spent_ns = spent.as_nanos() as u64;
        book.cpu_ns.set(book.cpu_ns.get() + spent_ns);
        book.polls.set(book.polls.get() + 1);
        if spent <= stall_limit {
            return;
        }
        book.stalls.set(book.stalls.get() + 1);
        book.stall_ns_max.set(book.stall_ns_max.get().max(spent_ns));
        if book.stall_logged.get().is_none_or(|at| now.since(at) >= STALL_LOG_INTERVAL) {
            book.stall_logged.set(Some(now));
            let (account, held_us, stalls) = (&*book.name, spent.as_micros() as u64, book.stalls.get());
            tracing::warn!(
                account,
                held_us,
                stalls,
                "a task held its core too long; others on this shard waited for it"
            );
        }
    }
}

/// All accounts of a shard.
pub(crate) struct AccountTable {
    by_name: RefCell<BTreeMap<Rc<str>, Account>>,
    prune_at: Cell<usize>,
}

impl AccountTable {
    pub(crate) fn new() -> Self {
        Self { by_name: RefCell::default(), prune_at: PRUNE_COUNT_MIN.into() }
    }

    /// Finds or opens the account.
    pub(crate) fn get(&self, name: &str) -> Account {
        let mut by_name = self.by_name.borrow_mut();
        if let Some(account) = by_name.get(name) {
            return account.clone();
        }
        if by_name.len() >= self.prune_at.get() {
            by_name.retain(|_, account| Rc::strong_count(&account.0) > 1);
            self.prune_at.set(PRUNE_COUNT_MIN.max(by_name.len() * 2));
        }
        let account = Account::new(name);
        by_name.insert(account.0.name.clone(), account.clone());
        account
    }

    /// In name order.
    pub(crate) fn usage(&self) -> Vec<AccountUse> {
        self.by_name.borrow().values().map(Account::usage).collect()
    }
}
