//! Who runs when: classes and their budgets, stalls, accounts, sameness of two runs, and worlds that end in the middle.

mod support;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use base::Random;
use shard::{Class, OpenOptions, Shard, Turn, WriteSync};
use support::{Crashed, Worlds};

/// A task that is always ready; it counts its polls.
fn busy(shard: &Shard, class: Class, polls: &Rc<Cell<u32>>) {
    let (s, polls) = (shard.clone(), polls.clone());
    shard.spawn(class, shard.account("busy"), async move {
        loop {
            polls.set(polls.get() + 1);
            s.yield_now().await;
        }
    });
}

#[test]
fn each_class_gets_its_share_of_a_turn() {
    let shard = Worlds::default().shard(0);
    let polls: Vec<Rc<Cell<u32>>> = (0..3).map(|_| Rc::default()).collect();
    for (class, polls) in [Class::Background, Class::Normal, Class::Latency].into_iter().zip(&polls) {
        for _ in 0..10 {
            busy(&shard, class, polls);
        }
    }
    for turn in 1..=20 {
        assert_eq!(shard.turn(), Turn::Busy);
        let counts: Vec<u32> = polls.iter().map(|polls| polls.get() / turn).collect();
        assert_eq!(counts, [1, 32, 128], "background does not starve, and holds up nobody");
    }
    shard.shutdown();
}

#[test]
fn a_long_turn_ends_early_but_starves_nobody() {
    let world = Worlds::default();
    let shard = world.shard(0);
    let polls: Vec<Rc<Cell<u32>>> = (0..3).map(|_| Rc::default()).collect();
    for (class, polls) in [Class::Background, Class::Normal, Class::Latency].into_iter().zip(&polls) {
        let (s, world, polls) = (shard.clone(), world.clone(), polls.clone());
        shard.spawn(class, shard.account("slow"), async move {
            loop {
                polls.set(polls.get() + 1);
                world.advance(Duration::from_micros(100));
                s.yield_now().await;
            }
        });
    }
    for turn in 1..=5 {
        assert_eq!(shard.turn(), Turn::Busy);
        let counts: Vec<u32> = polls.iter().map(|polls| polls.get() / turn).collect();
        assert_eq!(counts, [1, 1, 5]);
    }
    shard.shutdown();
}

#[test]
fn latency_work_waits_for_one_poll_of_background_work() {
    let shard = Worlds::default().shard(0);
    let background = Rc::new(Cell::new(0));
    (0..5).for_each(|_| busy(&shard, Class::Background, &background));
    let s = shard.clone();
    let ran_after = Rc::new(Cell::new(0));
    let (after, before) = (ran_after.clone(), background.clone());
    // Background work itself asks for something urgent: it is next.
    shard.spawn(Class::Background, shard.account("starter"), async move {
        let asked_at = before.get();
        s.spawn(Class::Latency, s.account("urgent"), async move { after.set(before.get() - asked_at + 1) });
    });
    assert_eq!(shard.turn(), Turn::Busy);
    assert_eq!(ran_after.get(), 1, "nothing ran in between");
    let alone = background.get();
    assert!(alone > 1, "with nobody else about, background work has the turn");
    shard.shutdown();
}

#[test]
fn a_poll_that_holds_the_core_is_charged_and_named() {
    let world = Worlds::default();
    let shard = world.shard(0);
    for (name, held_ms) in [("quick", 1), ("slow", 6), ("slow", 9)] {
        let world = world.clone();
        shard.spawn(Class::Normal, shard.account(name), async move {
            world.advance(Duration::from_millis(held_ms));
        });
    }
    world.settle(std::slice::from_ref(&shard));
    let table: Vec<_> = shard
        .accounts()
        .into_iter()
        .map(|account| {
            (account.name.to_string(), account.cpu.as_millis(), account.stalls, account.stall_max.as_millis())
        })
        .collect();
    assert_eq!(table, [("quick".to_owned(), 1, 0, 0), ("slow".to_owned(), 15, 2, 9)]);
}

#[test]
fn accounts_that_nobody_holds_are_forgotten() {
    let shard = Worlds::default().shard(0);
    let kept: Vec<_> = (0..100).map(|n| shard.account(&format!("kept {n}"))).collect();
    for n in 0..100_000 {
        let _ = shard.account(&format!("connection {n}"));
    }
    let accounts = shard.accounts();
    assert!(accounts.len() <= 1024, "{} accounts", accounts.len());
    assert!(kept.iter().all(|kept| accounts.iter().any(|account| &*account.name == kept.name())));
}

const READ_WRITE: OpenOptions = OpenOptions { read: true, write: true, create: true, exclusive: false, direct: false };

/// Tasks that spawn, sleep, write, talk and cancel each other by a seed; leaves a trace of who ran when.
fn churn(shard: &Shard, seed: u64, trace: &Rc<RefCell<Vec<u64>>>) {
    for number in 0..20 {
        let (s, trace) = (shard.clone(), trace.clone());
        let mut random = Random::new(seed ^ number);
        let class = [Class::Latency, Class::Normal, Class::Background][number as usize % 3];
        shard.spawn(class, shard.account("churn"), async move {
            let listener = s.listen(([127, 0, 0, 1], 0).into()).await.expect("listens");
            let mut children = Vec::new();
            for step in 0..30 {
                trace.borrow_mut().push(number << 32 | step << 16 | s.now().0 & 0xffff);
                match random.below(6) {
                    0 => s.sleep(Duration::from_micros(random.below(300))).await,
                    1 => s.yield_now().await,
                    2 => {
                        let file = s.fs().open(format!("f{}", random.below(3)), READ_WRITE).await.expect("opens");
                        let data = vec![shard::Slice::from_vec(vec![1; 100])];
                        file.write_at(0, data, WriteSync::Data).await.expect("written");
                    }
                    3 => {
                        let client = s.connect(listener.local_addr()).await.expect("connects");
                        let (server, _) = listener.accept().await.expect("accepts");
                        client.send(vec![shard::Slice::from_static(b"hello")]).await.expect("sent");
                        let buf = s.arena().alloc_wait(10).await;
                        server.recv_into(buf, 5).await.expect("received");
                    }
                    4 => children.push(s.spawn(Class::Normal, s.account("child"), {
                        let s = s.clone();
                        async move {
                            let idle = s.listen(([127, 0, 0, 1], 0).into()).await.expect("listens");
                            let _ = idle.accept().await;
                        }
                    })),
                    _ => {
                        if let Some(child) = children.pop() {
                            child.cancel();
                        }
                    }
                }
            }
        });
    }
}

#[test]
fn the_same_world_gives_the_same_schedule() {
    let run = |seed| {
        let world = Worlds::default();
        let shard = world.shard(0);
        let trace = Rc::default();
        churn(&shard, seed, &trace);
        world.settle(std::slice::from_ref(&shard));
        assert_eq!(shard.arena().usage().used_bytes, 0);
        shard.shutdown();
        trace.take()
    };
    for seed in 0..10 {
        let trace = run(seed);
        assert_eq!(trace.len(), 600);
        assert_eq!(trace, run(seed));
    }
    assert_ne!(run(1), run(2));
}

/// Counts the futures that hold it.
struct Alive(Rc<Cell<u32>>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[test]
fn a_crash_at_any_operation_is_taken_apart_soundly() {
    let mut crashes = 0;
    for crash_after in 1..400 {
        let world = Worlds::default();
        world.0.borrow_mut().crash_after_ops = Some(crash_after);
        let shard = world.shard(0);
        let alive = Rc::new(Cell::new(0));
        for _ in 0..5 {
            alive.set(alive.get() + 1);
            let alive = Alive(alive.clone());
            shard.spawn(Class::Normal, shard.account("bystander"), async move {
                std::future::pending::<()>().await;
                drop(alive);
            });
        }
        churn(&shard, 3, &Rc::default());
        let ended = catch_unwind(AssertUnwindSafe(|| world.settle(std::slice::from_ref(&shard))));
        crashes += u32::from(ended.is_err_and(|payload| payload.is::<Crashed>()));
        shard.shutdown();
        assert_eq!((alive.get(), shard.task_count()), (0, 0), "no task is left behind");
        assert_eq!(shard.turn(), Turn::Idle { until: None });
        drop(shard);
        assert_eq!(Rc::strong_count(&world.0), 1, "the shard and its host are gone");
    }
    assert!(crashes > 300, "{crashes}");
}

#[test]
fn abort_unwinds_from_within_a_task() {
    let world = Worlds::default();
    let shard = world.shard(0);
    let s = shard.clone();
    let other = shard.account("other");
    let victim = shard.spawn(Class::Normal, other, std::future::pending::<()>());
    shard.spawn(Class::Normal, shard.account("journal"), async move {
        let _file = s.fs().open("journal", READ_WRITE).await.expect("opens");
        let _victim = victim;
        s.abort("a journal write failed");
    });
    let payload = catch_unwind(AssertUnwindSafe(|| world.settle(std::slice::from_ref(&shard)))).expect_err("aborts");
    assert_eq!(payload.downcast::<Crashed>().expect("from the host").0, "a journal write failed");
    assert_eq!(world.0.borrow().closed_files, 0, "a dead process closes nothing");
    shard.shutdown();
    drop(shard);
    assert_eq!(Rc::strong_count(&world.0), 1);
}

#[test]
fn tasks_may_shut_the_shard_down_and_cancel_themselves() {
    let world = Worlds::default();
    let shard = world.shard(0);
    let own: Rc<RefCell<Option<shard::Task<()>>>> = Rc::default();
    let (reached, task) = (Rc::new(Cell::new(0)), own.clone());
    let counted = reached.clone();
    let s = shard.clone();
    let this = shard.spawn(Class::Normal, shard.account("self"), async move {
        task.take().expect("spawned before it ran").cancel();
        counted.set(counted.get() + 1);
        s.yield_now().await;
        counted.set(counted.get() + 10);
    });
    own.replace(Some(this));
    world.settle(std::slice::from_ref(&shard));
    assert_eq!((reached.get(), shard.task_count()), (1, 0), "it runs to its next await, no further");

    let s = shard.clone();
    shard.spawn(Class::Normal, shard.account("end"), async move {
        s.shutdown();
        s.spawn(Class::Normal, s.account("late"), async { panic!("spawned after the end") });
        s.sleep(Duration::from_secs(1)).await;
    });
    assert_eq!(shard.turn(), Turn::Idle { until: None });
    assert_eq!(shard.task_count(), 0);
    drop(shard);
    drop(own);
    assert_eq!(Rc::strong_count(&world.0), 1);
}

#[test]
fn the_time_from_wake_to_poll_is_counted_by_class() {
    let world = Worlds::default();
    let shard = world.shard(0);
    let slow = world.clone();
    shard.spawn(Class::Latency, shard.account("slow"), async move { slow.advance(Duration::from_millis(3)) });
    for class in [Class::Latency, Class::Normal] {
        shard.spawn(class, shard.account("behind"), async {});
    }
    while shard.turn() == Turn::Busy {}
    let waited = |class| (shard.queue_delay(class).count(), shard.queue_delay(class).sum());
    // The first waited for nobody, the two others for its 3 ms.
    assert_eq!(waited(Class::Latency), (2, 3_000_000));
    assert_eq!(waited(Class::Normal), (1, 3_000_000));
    assert_eq!(waited(Class::Background), (0, 0));
    assert!(shard.uptime().running >= Duration::from_millis(3));
    shard.shutdown();
}
