//! Fairness and cancellation of what tasks of one shard wait on, polled by hand.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use base::Random;
use shard::sync::{Closed, Event, Marks, Queue, Semaphore, oneshot};

struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A future polled by hand.
struct Hand<F: Future> {
    future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
}

fn hand<F: Future>(future: F) -> Hand<F> {
    Hand { future: Box::pin(future), wakes: Arc::new(Wakes(AtomicUsize::new(0))) }
}

impl<F: Future> Hand<F> {
    fn poll(&mut self) -> Option<F::Output> {
        let waker = Waker::from(self.wakes.clone());
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn woken(&self) -> bool {
        self.wakes.0.swap(0, Ordering::Relaxed) > 0
    }
}

#[test]
fn permits_go_in_line_and_come_back() {
    let semaphore = Semaphore::new(3);
    let two = semaphore.try_acquire(2).expect("free");
    let (mut large, mut small) = (hand(semaphore.acquire(3)), hand(semaphore.acquire(1)));
    assert!(large.poll().is_none() && small.poll().is_none(), "the small one does not overtake");
    assert!(semaphore.try_acquire(1).is_none());
    assert_eq!((semaphore.available(), semaphore.waiting()), (1, 2));
    drop(two);
    assert!(large.woken() && !small.woken());
    // The large one was served but goes away: its permits pass on.
    drop(large);
    assert!(small.woken());
    let one = small.poll().expect("served").expect("open");
    assert_eq!(semaphore.available(), 2);
    one.forget();
    drop(small);
    assert_eq!(semaphore.available(), 2);
    semaphore.release(1);
    let mut later = hand(semaphore.acquire(4));
    assert!(later.poll().is_none());
    semaphore.close();
    assert!(later.woken());
    assert_eq!(later.poll().expect("ended").err(), Some(Closed));
    assert_eq!(hand(semaphore.acquire(1)).poll().expect("ended").err(), Some(Closed));
}

#[test]
fn permits_are_neither_lost_nor_made_up() {
    let mut random = Random::new(5);
    for _ in 0..if cfg!(miri) { 2 } else { 200 } {
        let semaphore = Semaphore::new(4);
        let (mut waiting, mut held) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            match random.below(4) {
                0 => waiting.push((1 + random.below(4) as usize, None)),
                1 if !held.is_empty() => drop(held.swap_remove(random.below(held.len() as u64) as usize)),
                2 if !waiting.is_empty() => drop(waiting.remove(random.below(waiting.len() as u64) as usize)),
                _ => {
                    waiting = waiting
                        .into_iter()
                        .filter_map(|(count, acquire)| {
                            let mut acquire = acquire.unwrap_or_else(|| hand(semaphore.acquire(count)));
                            match acquire.poll() {
                                Some(permit) => {
                                    held.push(permit.expect("open"));
                                    None
                                }
                                None => Some((count, Some(acquire))),
                            }
                        })
                        .collect();
                }
            }
            assert!(held.iter().map(shard::sync::Permit::count).sum::<usize>() <= 4);
        }
        drop((waiting, held));
        assert_eq!((semaphore.available(), semaphore.waiting()), (4, 0));
    }
}

#[test]
fn an_event_wakes_who_waits_and_passes_a_dropped_turn_on() {
    let event = Event::new();
    assert!(!event.notify_one(), "nobody waits, and it is not kept");
    let (mut first, mut second, third) = (hand(event.wait()), hand(event.wait()), hand(event.wait()));
    assert!(first.poll().is_none() && second.poll().is_none());
    assert!(event.notify_one());
    assert!(first.woken() && !second.woken());
    drop(first);
    assert!(second.woken());
    assert!(second.poll().is_some());
    drop(third);
    assert!(!event.has_waiters());
    let (mut before, unpolled) = (hand(event.wait()), event.wait());
    event.notify_all();
    let mut after = hand(event.wait());
    assert!(before.poll().is_some() && hand(unpolled).poll().is_some(), "counted from the call of `wait`");
    assert!(after.poll().is_none());
}

#[test]
fn marks_tell_which_of_many_events_have_happened() {
    let (events, marks) = ([0; 3].map(|_| Event::new()), Marks::new());
    let mut set: Vec<_> = events.iter().zip(0..).map(|(event, token)| event.mark(&marks, token)).collect();
    let (mut one, mut other) = (hand(marks.any()), hand(marks.any()));
    assert!(one.poll().is_none() && other.poll().is_none());
    let mut task = hand(events[2].wait());
    assert!(task.poll().is_none());
    events[2].notify_all();
    events[2].notify_all();
    events[0].notify_all();
    assert!(one.woken() && other.woken() && task.woken());
    assert!(one.poll().is_some() && other.poll().is_some() && task.poll().is_some());
    assert_eq!(marks.take(), [2, 0], "once each, in their order");
    assert!(marks.is_empty());
    // What is taken back is not marked, and has left the line.
    drop(set.remove(1));
    assert!(events.iter().all(|event| !event.has_waiters()));
    events[1].notify_all();
    assert!(marks.is_empty());
    // A turn given to a mark is taken.
    let mark = events[0].mark(&marks, 7);
    let mut behind = hand(events[0].wait());
    assert!(behind.poll().is_none() && events[0].notify_one());
    assert!(!behind.woken());
    assert_eq!(marks.take(), [7]);
    drop(mark);
}

#[test]
fn a_one_shot_delivers_once() {
    let (sender, receiver) = oneshot::channel();
    let mut receiver = hand(receiver);
    assert!(receiver.poll().is_none());
    assert_eq!(sender.send(1), Ok(()));
    assert!(receiver.woken());
    assert_eq!(receiver.poll(), Some(Ok(1)));

    let (sender, receiver) = oneshot::channel::<u8>();
    let mut receiver = hand(receiver);
    assert!(receiver.poll().is_none());
    drop(sender);
    assert!(receiver.woken());
    assert_eq!(receiver.poll(), Some(Err(Closed)));

    let (sender, receiver) = oneshot::channel();
    drop(receiver);
    assert!(sender.is_closed());
    assert_eq!(sender.send(2), Err(2));
}

#[test]
fn a_queue_is_bounded_fair_and_drains_after_its_close() {
    let queue = Queue::new(2);
    assert!(queue.try_push(1).is_ok() && queue.try_push(2).is_ok());
    assert_eq!(queue.try_push(3), Err(3));
    let (mut third, mut fourth) = (hand(queue.push(3)), hand(queue.push(4)));
    assert!(third.poll().is_none() && fourth.poll().is_none());
    assert_eq!(queue.try_pop(), Some(1));
    assert!(third.woken() && !fourth.woken());
    assert_eq!(queue.try_push(5), Err(5), "the freed place belongs to who waits");
    drop(third);
    assert!(fourth.woken());
    assert_eq!(fourth.poll(), Some(Ok(())));
    assert_eq!((queue.len(), queue.try_pop(), queue.try_pop(), queue.try_pop()), (2, Some(2), Some(4), None));

    let (mut early, mut late) = (hand(queue.pop()), hand(queue.pop()));
    assert!(early.poll().is_none() && late.poll().is_none());
    assert!(queue.try_push(6).is_ok());
    assert!(early.woken() && !late.woken());
    drop(early);
    assert!(late.woken());
    assert_eq!(late.poll(), Some(Some(6)));

    assert!(queue.try_push(7).is_ok());
    let mut blocked = hand(queue.push(8));
    assert!(queue.try_push(9).is_ok() && blocked.poll().is_none());
    queue.close();
    assert_eq!(blocked.poll(), Some(Err(8)));
    assert_eq!(hand(queue.pop()).poll(), Some(Some(7)));
    assert_eq!((queue.try_pop(), queue.try_pop()), (Some(9), None));
    assert_eq!(hand(queue.pop()).poll(), Some(None));
}
