//! Where a node is in its life: what `/readyz` tells, before there is a node to ask as well.
//!
//! Owner: each shard has one. Shard 0's exists before anything is recovered; the others' begin when they serve.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::rc::Rc;

use crate::connections::Connections;
use crate::node::Node;

/// What the node is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The journals are being replayed.
    Recovering,
    /// Stores and topics are being opened.
    Opening,
    Serving,
    /// What is under way is answered, then the node ends.
    Stopping,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Recovering => "recovering the data directory",
            Self::Opening => "opening the logs",
            Self::Serving => "serving",
            Self::Stopping => "stopping",
        })
    }
}

/// A node from before it exists.
pub struct Life {
    opening: Cell<bool>,
    node: OnceCell<Rc<Node>>,
    http_connections: Rc<Connections>,
}

impl Life {
    /// Of a node that has nothing yet.
    #[must_use]
    pub fn begin() -> Rc<Self> {
        Rc::new(Self { opening: Cell::new(false), node: OnceCell::new(), http_connections: Rc::default() })
    }

    /// Of a node that serves.
    #[must_use]
    pub fn of(node: Rc<Node>) -> Rc<Self> {
        let http_connections = node.http_connections.clone();
        Rc::new(Self { opening: Cell::new(true), node: OnceCell::from(node), http_connections })
    }

    /// The data directory is recovered.
    pub fn recovered(&self) {
        self.opening.set(true);
    }

    /// The node takes requests from now on.
    ///
    /// # Panics
    /// When it has been said before.
    pub fn serve(&self, node: Rc<Node>) {
        assert!(self.node.set(node).is_ok(), "a node begins to serve once");
    }

    /// The node, once it serves.
    #[must_use]
    pub fn node(&self) -> Option<&Rc<Node>> {
        self.node.get()
    }

    /// Those of this shard; the node's are the same.
    #[must_use]
    pub fn http_connections(&self) -> &Rc<Connections> {
        &self.http_connections
    }

    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.node.get() {
            Some(node) if node.connections.is_draining() => Phase::Stopping,
            Some(_) => Phase::Serving,
            None if self.opening.get() => Phase::Opening,
            None => Phase::Recovering,
        }
    }
}
