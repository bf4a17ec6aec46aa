//! What a shard does for the others: the serving end of every mesh message.
//!
//! Owner: every shard runs one. Messages of one sender are started in their order; an append has its place before the next message is
//! looked at. What then waits (for the disk, for more records) goes on as a task of its own and awaits no other shard.

use std::future::Future;
use std::rc::Rc;

use shard::{Class, Incoming, Reply, Slice};

use crate::connections;
use crate::message::{BatchTask, FetchTask, LagQuery, Message};
use crate::node::Node;
use crate::observe;
use crate::partition::{self, Reader, WaitingFetch};
use crate::router;

/// Serves until it is told to stop. The reply to that word is left to the caller: it goes out when all is closed.
pub async fn run(node: Rc<Node>) -> Option<Reply<Message>> {
    loop {
        let Incoming { from, message, reply } = node.mesh.receive().await;
        match message {
            Message::Admin(request) => {
                let controller = node.controller.clone();
                answer(&node, reply, async move { Message::Admitted(controller.ask(request).await) });
            }
            Message::OpenLogs(specs) => {
                let serving = node.clone();
                answer(&node, reply, async move { Message::Done(partition::open(&serving, specs).await) });
            }
            Message::RemoveLogs(logs) => {
                let serving = node.clone();
                answer(&node, reply, async move { Message::Done(partition::remove(&serving, logs).await) });
            }
            Message::Publish(view) => {
                node.set_view(view);
                send(reply, Message::Done(Ok(())));
            }
            Message::Connection { port, socket, peer } => {
                connections::serve_on(&node, port, socket.adopt(&node.shard), peer);
            }
            Message::ConnectionClosed(port) => node.given_out(port).take_back(from),
            Message::Ping => send(reply, Message::Done(Ok(()))),
            Message::RenderMetrics => {
                let serving = node.clone();
                let account = node.shard.account("http");
                drop(node.shard.spawn(Class::Normal, account, async move {
                    send(reply, Message::MetricsRendered(observe::of_shard(&serving).await));
                }));
            }
            Message::Drain => {
                let serving = node.clone();
                answer(&node, reply, async move {
                    serving.drain().await;
                    Message::Done(Ok(()))
                });
            }
            Message::Stop => return reply,
            of_partitions => serve(&node, of_partitions, reply),
        }
    }
}

/// What is asked of this shard's partitions.
fn serve(node: &Rc<Node>, message: Message, reply: Option<Reply<Message>>) {
    match message {
        Message::Produce(task) => {
            let hold = |task: BatchTask<_>| BatchTask { log: task.log, batch: Slice::from_foreign(task.batch) };
            let batches = task.batches.into_iter().map(hold).collect();
            let produced = partition::produce(node, task.acks, task.deadline, batches);
            answer(node, reply, async move { Message::Produced(produced.await) });
        }
        Message::Fetch(task) => {
            let (serving, waiting) = (node.clone(), node.fetch_cancels.register(task.id));
            let reader = node.readers.of(&task);
            answer(node, reply, async move { fetch(&serving, &reader, task, &waiting).await });
        }
        Message::CancelFetch(id) => node.fetch_cancels.cancel(id),
        Message::ForgetReader(id) => node.readers.forget(id),
        Message::Group { partition, request } => {
            let serving = node.clone();
            let answered = async move { router::ask_here(&serving, partition, *request).await };
            answer(node, reply, async move { Message::GroupAnswered(Box::new(answered.await)) });
        }
        Message::ListGroups => send(reply, Message::GroupsListed(node.coordinators.list())),
        Message::ListOffsets(queries) => {
            let serving = node.clone();
            let listed = async move { partition::list_offsets(&serving, queries).await };
            answer(node, reply, async move { Message::ListedOffsets(listed.await) });
        }
        Message::MeasureLag(queries) => measure_lag(node, queries, reply),
        Message::EpochEnds(queries) => {
            let found = Message::EpochEndsFound(partition::epoch_ends(node, queries));
            send(reply, found);
        }
        Message::DeleteRecords(deletions) => {
            let serving = node.clone();
            answer(node, reply, async move {
                Message::RecordsDeleted(partition::delete_records(&serving, deletions).await)
            });
        }
        Message::DescribeProducers(logs) => {
            let described = Message::ProducersDescribed(partition::producers(node, logs));
            send(reply, described);
        }
        Message::MeasureLogs => send(reply, Message::LogsMeasured(partition::log_sizes(node))),
        other @ (Message::Produced(_)
        | Message::Fetched(_)
        | Message::GroupAnswered(_)
        | Message::GroupsListed(_)
        | Message::ListedOffsets(_)
        | Message::LagMeasured(_)
        | Message::EpochEndsFound(_)
        | Message::RecordsDeleted(_)
        | Message::ProducersDescribed(_)
        | Message::LogsMeasured(_)
        | Message::Admitted(_)
        | Message::Done(_)
        | Message::Recovered { .. }
        | Message::Admin(_)
        | Message::OpenLogs(_)
        | Message::RemoveLogs(_)
        | Message::Publish(_)
        | Message::Connection { .. }
        | Message::ConnectionClosed(_)
        | Message::Ping
        | Message::RenderMetrics
        | Message::MetricsRendered(_)
        | Message::Drain
        | Message::Stop) => unreachable!("{other:?} is no request about the partitions of a running shard"),
    }
}

/// No client waits for it: what clients want goes first.
fn measure_lag(node: &Rc<Node>, queries: Vec<LagQuery>, reply: Option<Reply<Message>>) {
    let serving = node.clone();
    node.shard.spawn_detached(Class::Background, node.accounts.lag.clone(), async move {
        send(reply, Message::LagMeasured(partition::measure_lag(&serving, queries).await));
    });
}

async fn fetch(node: &Rc<Node>, reader: &Reader, task: FetchTask, waiting: &WaitingFetch) -> Message {
    let fetched = partition::fetch(node, reader, task, waiting).await;
    Message::Fetched(fetched.into_iter().map(|answer| answer.map(|slice| slice.export())).collect())
}

/// Lets `work` run and sends what it yields.
fn answer(node: &Rc<Node>, reply: Option<Reply<Message>>, work: impl Future<Output = Message> + 'static) {
    let task = async move { send(reply, work.await) };
    node.shard.spawn_detached(Class::Latency, node.accounts.mesh.clone(), task);
}

fn send(reply: Option<Reply<Message>>, message: Message) {
    reply.expect("a request has a place for its reply").send(message);
}
