//! Every interleaving of what crosses threads, on small models: `RUSTFLAGS="--cfg loom" cargo test -p shard --lib loom_tests`.

use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Wake;

use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};
use loom::thread;

use crate::executor::Class;
use crate::executor::signal::Signal;
use crate::executor::waker::{Gate, Linked, Stack, TaskCell};
use crate::mesh::ring::ring;

struct Item {
    next: AtomicPtr<Item>,
    number: usize,
}

// SAFETY: one link, used by the stack only.
#[allow(unsafe_code)]
unsafe impl Linked for Item {
    fn next(&self) -> &AtomicPtr<Self> {
        &self.next
    }
}

fn item(number: usize) -> NonNull<Item> {
    NonNull::from(Box::leak(Box::new(Item { next: AtomicPtr::new(std::ptr::null_mut()), number })))
}

fn free(item: NonNull<Item>) -> usize {
    // SAFETY: from `item`, and taken off the stack, or given back by it, once.
    #[allow(unsafe_code)]
    let item = unsafe { Box::from_raw(item.as_ptr()) };
    item.number
}

fn push(stack: &Stack<Item>, number: usize) -> bool {
    // SAFETY: alive, on no stack, and not touched after success.
    #[allow(unsafe_code)]
    let pushed = unsafe { stack.push(item(number)) };
    pushed.map_err(free).is_ok()
}

fn bell() -> (Arc<AtomicBool>, Arc<Signal>) {
    let rung = Arc::new(AtomicBool::new(false));
    let signal = Arc::new(Signal::new(Arc::new({
        let rung = rung.clone();
        move || assert!(!rung.swap(true, Ordering::Relaxed), "a parked shard is woken once")
    })));
    (rung, signal)
}

#[test]
fn ring_keeps_order_and_items() {
    loom::model(|| {
        let (producer, consumer) = ring::<Box<usize>>(2);
        let pusher = thread::spawn(move || {
            let mut sent = 0;
            for _ in 0..3 {
                sent += usize::from(producer.push(Box::new(sent)).is_ok());
            }
            sent
        });
        let mut received = 0;
        for _ in 0..2 {
            if let Some(item) = consumer.pop() {
                assert_eq!(*item, received);
                received += 1;
            }
        }
        let sent = pusher.join().expect("pusher");
        while let Some(item) = consumer.pop() {
            assert_eq!(*item, received);
            received += 1;
        }
        assert_eq!(received, sent);
        assert!(sent >= 2, "there was room for two");
    });
}

#[test]
fn ring_drops_what_is_left() {
    loom::model(|| {
        let (producer, consumer) = ring::<Arc<()>>(2);
        let item = Arc::new(());
        let sent = item.clone();
        let pusher = thread::spawn(move || {
            let _ = producer.push(sent.clone());
            let _ = producer.push(sent);
        });
        drop(consumer.pop());
        drop(consumer);
        pusher.join().expect("pusher");
        assert_eq!(Arc::strong_count(&item), 1);
    });
}

#[test]
fn stack_gives_each_item_once_or_refuses_it() {
    loom::model(|| {
        let stack = Arc::new(Stack::new());
        let pushers: Vec<_> = [1, 2]
            .into_iter()
            .map(|number| {
                let stack = stack.clone();
                thread::spawn(move || if push(&stack, number) { number } else { 0 })
            })
            .collect();
        let mut taken: usize = stack.drain().map(free).sum();
        taken += stack.close().map(free).sum::<usize>();
        let pushed: usize = pushers.into_iter().map(|pusher| pusher.join().expect("pusher")).sum();
        assert_eq!(taken, pushed);
        assert!(stack.is_empty() && !push(&stack, 3));
    });
}

/// One of the two must see the other: the sleeper the work, or the bringer that the sleeper is parked.
#[test]
fn work_never_sleeps() {
    loom::model(|| {
        let (rung, signal) = bell();
        let stack = Arc::new(Stack::new());
        let bringers: Vec<_> = (1..=2)
            .map(|number| {
                let (signal, stack) = (signal.clone(), stack.clone());
                thread::spawn(move || {
                    push(&stack, number);
                    signal.notify();
                })
            })
            .collect();
        signal.park();
        let saw = stack.drain().map(free).count();
        bringers.into_iter().for_each(|bringer| bringer.join().expect("bringer"));
        let left = stack.close().map(free).count();
        assert!(left == 0 || rung.load(Ordering::Relaxed), "{saw} seen, {left} left, nobody woken");
    });
}

/// As the mesh does it: the starved sender asks for a bell, fences, looks for room; the receiver makes room, fences, looks for the wish.
#[test]
fn a_starved_sender_is_woken() {
    loom::model(|| {
        let (rung, signal) = bell();
        let starved = Arc::new(AtomicBool::new(false));
        let (producer, consumer) = ring::<usize>(1);
        assert!(producer.push(1).is_ok());
        let receiver = thread::spawn({
            let (signal, starved) = (signal.clone(), starved.clone());
            move || {
                assert_eq!(consumer.pop(), Some(1));
                fence(Ordering::SeqCst);
                if starved.load(Ordering::Acquire) && starved.swap(false, Ordering::AcqRel) {
                    signal.notify();
                }
            }
        });
        signal.park();
        starved.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        let saw_room = producer.popped() == 1;
        receiver.join().expect("receiver");
        assert!(saw_room || rung.load(Ordering::Relaxed), "the sender sleeps beside an empty ring");
    });
}

/// A wake that comes during a poll either is seen by that poll or queues the task again.
#[test]
fn no_wake_is_lost() {
    loom::model(|| {
        let (_, signal) = bell();
        let gate = Gate::new(signal);
        let cell = TaskCell::new(gate.clone(), 0, Class::Normal);
        let data = Arc::new(AtomicUsize::new(0));
        cell.clone().wake();
        let wakers: Vec<_> = (0..2)
            .map(|_| {
                let (cell, data) = (cell.clone(), data.clone());
                thread::spawn(move || {
                    data.fetch_add(1, Ordering::Relaxed);
                    cell.wake();
                })
            })
            .collect();
        let mut seen = 0;
        let mut poll = || {
            gate.take_remote();
            while let Some(woken) = gate.pop(Class::Normal) {
                woken.cell.begin_poll();
                seen = data.load(Ordering::Relaxed);
            }
        };
        poll();
        wakers.into_iter().for_each(|waker| waker.join().expect("waker"));
        poll();
        assert_eq!(seen, 2);
        gate.close();
    });
}

/// A gate that closes while others wake leaks no task and queues none.
#[test]
fn a_closed_gate_lets_go() {
    loom::model(|| {
        let (_, signal) = bell();
        let gate = Gate::new(signal);
        let cell = TaskCell::new(gate.clone(), 0, Class::Normal);
        let waker = thread::spawn({
            let cell = cell.clone();
            move || cell.wake()
        });
        gate.close();
        waker.join().expect("waker");
        assert_eq!(Arc::strong_count(&cell), 1);
        drop(cell);
        assert_eq!(Arc::strong_count(&gate), 1);
    });
}
