//! Requests that may name a topic only once: one that is named again is refused, once, and not looked at.

use std::collections::{HashMap, HashSet};

use wire::ErrorCode;

use crate::cluster::AdminError;

/// The topics of a request, in order.
pub struct Named<'n> {
    names: Vec<&'n str>,
    counts: HashMap<&'n str, usize>,
}

impl<'n> Named<'n> {
    #[must_use]
    pub fn new(names: impl Iterator<Item = &'n str>) -> Self {
        let names: Vec<&str> = names.collect();
        let mut counts = HashMap::new();
        for &name in &names {
            *counts.entry(name).or_default() += 1;
        }
        Self { names, counts }
    }

    #[must_use]
    pub fn is_unique(&self, name: &str) -> bool {
        self.counts[name] == 1
    }

    /// The outcome for each topic: of those that are unique in the order of `done`, which has one for each.
    pub fn outcomes<T>(&self, done: Vec<Result<T, AdminError>>) -> Vec<(&'n str, Result<T, AdminError>)> {
        let mut done = done.into_iter();
        let mut outcomes: Vec<(&str, Result<T, AdminError>)> = Vec::new();
        let mut told = HashSet::new();
        for &name in &self.names {
            if self.is_unique(name) {
                outcomes.extend(done.next().map(|done| (name, done)));
            } else if told.insert(name) {
                outcomes.push((name, Err(AdminError::new(ErrorCode::InvalidRequest, "Duplicate topic name."))));
            }
        }
        outcomes
    }
}
