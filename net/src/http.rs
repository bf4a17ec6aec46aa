//! HTTP/1.1 on a shard's sockets, by hyper.
//!
//! Owner: the shard that the socket was passed to. hyper parses and writes; this file lends it a [`Socket`] as the stream it wants, and
//! keeps the limits it leaves to others: it has no timers of its own, since a shard's are not `Send`.
//!
//! Bounds: [`HEAD_BYTES_MAX`] for a request's head. A connection on which no whole request has come for [`QUIET_LIMIT`], or whose peer takes
//! none of an answer for as long, is closed.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use base::Instant;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use shard::{Shard, Sleep, Slice, Socket};

pub use http_body_util::Full;
pub use hyper::body::{Bytes, Incoming};
pub use hyper::{Method, Request, Response, StatusCode, header};

use crate::Drain;

/// The longest head of a request; hyper's buffer, too.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// How long a connection may go without a whole request, or a peer without taking some of its answer.
pub const QUIET_LIMIT: Duration = Duration::from_secs(60);
/// What is sent in one go.
const SEND_BYTES_MAX: usize = 64 << 10;

/// An answer: whole, in memory.
pub type Answer = Response<Full<Bytes>>;

/// Serves `socket` until it closes or `drain` has begun and the request under way is answered. Returns why, where that is worth a word.
pub async fn serve<F>(
    shard: &Shard,
    socket: Socket,
    drain: &Drain,
    handler: impl Fn(Request<Incoming>) -> F,
) -> Option<String>
where
    F: Future<Output = Answer>,
{
    let quiet = Rc::new(Quiet { since: Cell::new(Some(shard.now())), over: Cell::new(false) });
    let stream = Stream::new(shard.clone(), socket, quiet.clone());
    let service = service_fn(|request| {
        quiet.since.set(None);
        let (answering, quiet) = (handler(request), &quiet);
        async move {
            let answer = answering.await;
            quiet.since.set(Some(shard.now()));
            Ok::<_, Infallible>(answer)
        }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .header_read_timeout(None)
            .auto_date_header(false)
            .serve_connection(stream, service)
    );
    let mut drained = pin!(drain.started());
    let mut draining = false;
    let outcome = poll_fn(|context| {
        if !draining && drained.as_mut().poll(context).is_ready() {
            draining = true;
            quiet.over.set(true);
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(context)
    })
    .await;
    outcome.err().map(|error| error.to_string())
}

/// What the two sides of a connection know of each other.
struct Quiet {
    /// Since when no request is being answered.
    since: Cell<Option<Instant>>,
    /// No request that is not whole yet is waited for.
    over: Cell<bool>,
}

type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// A shard's socket as hyper reads and writes it.
struct Stream {
    shard: Shard,
    socket: Rc<Socket>,
    quiet: Rc<Quiet>,
    received: Slice,
    receiving: Option<Boxed<io::Result<Slice>>>,
    /// Handed over by hyper and not yet taken by the peer.
    sending: Option<Boxed<io::Result<()>>>,
    receive_limit: Option<Sleep>,
    send_limit: Option<Sleep>,
}

impl Stream {
    fn new(shard: Shard, socket: Socket, quiet: Rc<Quiet>) -> Self {
        Self {
            shard,
            socket: Rc::new(socket),
            quiet,
            received: Slice::from_vec(Vec::new()),
            receiving: None,
            sending: None,
            receive_limit: None,
            send_limit: None,
        }
    }

    /// Ready once the connection has been quiet for too long.
    fn poll_quiet(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(since) = self.quiet.since.get() {
            let due = since + QUIET_LIMIT;
            if self.shard.now() >= due {
                return Poll::Ready(());
            }
            let limit = self.receive_limit.get_or_insert_with(|| self.shard.sleep_until(due));
            if Pin::new(limit).poll(context).is_pending() {
                return Poll::Pending;
            }
            // Something was answered since it was set: the limit is later now.
            self.receive_limit = None;
        }
        // The answer under way sets a new beginning, and hyper reads again after it.
        Poll::Pending
    }

    /// Ready once the peer has taken what was handed over.
    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(sending) = &mut self.sending else { return Poll::Ready(Ok(())) };
        if let Poll::Ready(sent) = sending.as_mut().poll(context) {
            (self.sending, self.send_limit) = (None, None);
            return Poll::Ready(sent);
        }
        let limit = self.send_limit.get_or_insert_with(|| self.shard.sleep(QUIET_LIMIT));
        Pin::new(limit).poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.received.is_empty() {
            let socket = self.socket.clone();
            let receiving = self.receiving.get_or_insert_with(|| Box::pin(async move { socket.recv().await }));
            let Poll::Ready(received) = receiving.as_mut().poll(context) else {
                if self.quiet.over.get() && self.quiet.since.get().is_some() {
                    // As if the peer had ended it: hyper waits for ever for the rest of a head.
                    return Poll::Ready(Ok(()));
                }
                return self.poll_quiet(context).map(|()| Err(io::ErrorKind::TimedOut.into()));
            };
            self.receiving = None;
            self.received = received?;
        }
        let taken = self.received.len().min(into.remaining());
        into.put_slice(&self.received[..taken]);
        self.received = self.received.slice(taken..self.received.len());
        Poll::Ready(Ok(()))
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        std::task::ready!(self.poll_sent(context))?;
        let taken = data.len().min(SEND_BYTES_MAX);
        let (socket, part) = (self.socket.clone(), Slice::from_vec(data[..taken].to_vec()));
        self.sending = Some(Box::pin(async move { socket.send(vec![part]).await }));
        // Polled once, so that it is on its way; what becomes of it is told to the next call.
        match self.poll_sent(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(taken)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_sent(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_sent(context))?;
        self.socket.shutdown();
        Poll::Ready(Ok(()))
    }
}
