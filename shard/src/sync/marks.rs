//! Waiting for any of very many events, at a cost that goes with how many happen: what epoll(7) is to files.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Event, Waiting, Whom};

/// The tokens of events that have happened, for one who waits for any of them. Clones are the same.
#[derive(Clone, Default)]
pub struct Marks(Rc<Marked>);

#[derive(Default)]
struct Marked {
    tokens: RefCell<Vec<u32>>,
    news: Event,
}

impl Marks {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.tokens.borrow().is_empty()
    }

    /// The tokens of what has happened since the last call, each as often as it did, the earliest first.
    #[must_use]
    pub fn take(&self) -> Vec<u32> {
        self.0.tokens.take()
    }

    /// Waits until there is a token to take. It is not taken: others who wait see it too.
    pub async fn any(&self) {
        while self.is_empty() {
            self.0.news.wait().await;
        }
    }

    pub(super) fn push(&self, token: u32) {
        self.0.tokens.borrow_mut().push(token);
    }

    pub(super) fn wake(&self) {
        self.0.news.notify_all();
    }
}

/// A place in the line of an [`Event`]; dropping it leaves the line.
pub struct Mark {
    event: Event,
    id: u64,
}

impl Event {
    /// Has the next notification leave `token` in `marks`, once.
    #[must_use]
    pub fn mark(&self, marks: &Marks, token: u32) -> Mark {
        let id = self.0.borrow_mut().join(Whom::Marks(marks.clone(), token));
        Mark { event: self.clone(), id }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let mut line = self.event.0.borrow_mut();
        // What was notified has left the line.
        if let Ok(index) = line.waiting.binary_search_by_key(&self.id, |waiting: &Waiting| waiting.id) {
            line.waiting.remove(index);
        }
    }
}
