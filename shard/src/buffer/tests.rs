//! Made for Miri as well: `cargo +nightly miri test -p shard --lib`.
#![allow(clippy::disallowed_methods, reason = "foreign slices are dropped on real threads here")]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use super::{AppendBuf, Arena, BLOCK_BYTES, Buf, CLASS_BYTES_MAX, ForeignSlice, SLAB_BYTES, Slice};

fn filled(arena: &Arena, byte: u8, len: usize) -> Buf {
    let mut buf = arena.alloc(len).expect("there is memory");
    buf.set_len(len);
    buf.fill(byte);
    buf
}

#[test]
fn capacities_are_classes_and_the_bound_holds() {
    let arena = Arena::new(CLASS_BYTES_MAX + 16 * BLOCK_BYTES);
    for (len, capacity) in [
        (0, BLOCK_BYTES),
        (1, BLOCK_BYTES),
        (BLOCK_BYTES, BLOCK_BYTES),
        (BLOCK_BYTES + 1, 2 * BLOCK_BYTES),
        (5 * BLOCK_BYTES, 8 * BLOCK_BYTES),
        (CLASS_BYTES_MAX, CLASS_BYTES_MAX),
        // Beyond the classes: a mapping of its own, by the block.
        (CLASS_BYTES_MAX + 1, CLASS_BYTES_MAX + BLOCK_BYTES),
    ] {
        let mut buf = arena.alloc(len).expect("within the bound");
        assert_eq!((buf.len(), buf.capacity()), (0, capacity), "{len}");
        assert_eq!(buf.as_mut_ptr() as usize % BLOCK_BYTES, 0);
        assert_eq!(arena.usage().used_bytes, capacity);
    }
    assert!(arena.alloc(CLASS_BYTES_MAX + 17 * BLOCK_BYTES).is_none());
    assert!(arena.alloc(usize::MAX).is_none());
    let most: Vec<_> = std::iter::from_fn(|| arena.alloc(8 * BLOCK_BYTES)).collect();
    let usage = arena.usage();
    assert_eq!(usage.used_bytes, most.len() * 8 * BLOCK_BYTES);
    assert!(usage.used_bytes + 8 * BLOCK_BYTES > usage.limit_bytes);
    drop(most);
    assert_eq!(arena.usage().used_bytes, 0);
}

#[test]
fn an_arena_of_many_slabs_fills_to_its_bound() {
    let arena = Arena::new(2 * SLAB_BYTES);
    let all: Vec<_> = std::iter::from_fn(|| arena.alloc(CLASS_BYTES_MAX)).collect();
    assert_eq!(all.len(), 2 * SLAB_BYTES / CLASS_BYTES_MAX);
    assert_eq!(arena.new_slabs().iter().map(|slab| slab.index).collect::<Vec<_>>(), [0, 1]);
    assert!(!arena.has_new_slabs());
    assert_eq!(all[0].fixed_index(), None);
    arena.set_registered(0);
    assert_eq!(all[0].fixed_index(), Some(0));
    assert_eq!(all[all.len() - 1].fixed_index(), None, "slab 1 is not registered");
}

#[test]
fn fragments_do_not_refuse_what_the_bound_allows() {
    let arena = Arena::new(SLAB_BYTES);
    let mut blocks: Vec<_> = std::iter::from_fn(|| arena.alloc(1)).collect();
    // Every second block is free: half of the bytes, but never two blocks side by side.
    let mut index = 0;
    blocks.retain(|_| {
        index += 1;
        index % 2 == 0
    });
    let large: Vec<_> = std::iter::from_fn(|| arena.alloc(CLASS_BYTES_MAX)).collect();
    assert_eq!(large.len(), SLAB_BYTES / 2 / CLASS_BYTES_MAX);
    assert!(arena.alloc(1).is_none());
    drop((blocks, large));
    assert_eq!(arena.usage().used_bytes, 0);
}

#[test]
fn slices_keep_their_block_and_copy_nothing() {
    let arena = Arena::new(1 << 20);
    let mut buf = filled(&arena, 1, 100);
    buf.extend_from_slice(&[2; 28]);
    buf.pad_to(64);
    assert_eq!(buf.len(), 128);
    let start = buf.as_mut_ptr().cast_const();
    let mut whole = buf.freeze();
    assert_eq!(whole.as_ptr(), start);
    let part = whole.slice(90..110);
    assert_eq!((&part[..10], &part[10..]), (&[1; 10][..], &[2; 10][..]));
    let front = whole.split_to(100);
    assert_eq!((front.len(), whole.len(), whole[0]), (100, 28, 2));
    drop((front, whole));
    assert_eq!(arena.usage().used_bytes, BLOCK_BYTES, "a part keeps the block");
    drop(part.clone());
    drop(part);
    assert_eq!(arena.usage().used_bytes, 0);

    assert_eq!(&Slice::from_vec(vec![1, 2, 3]).slice(1..)[..], [2, 3]);
    assert_eq!(&Slice::from_static(b"abc").export()[..], b"abc");
    assert!(Slice::default().is_empty());
}

#[test]
#[should_panic(expected = "range")]
fn a_slice_beyond_the_end_is_refused() {
    let _ = Slice::from_static(b"abc").slice(2..5);
}

#[test]
#[should_panic(expected = "exceeds the capacity")]
fn a_length_beyond_the_capacity_is_refused() {
    Arena::new(1 << 20).alloc(1).expect("there is memory").set_len(BLOCK_BYTES + 1);
}

#[test]
fn readers_elsewhere_read_while_the_writer_appends() {
    let arena = Arena::new(1 << 20);
    let mut tail = AppendBuf::from(arena.alloc(BLOCK_BYTES).expect("there is memory"));
    let mut readers = Vec::new();
    for round in 1..=8u8 {
        tail.append(&[round; 100]);
        let written = tail.slice(..).export();
        readers.push(thread::spawn(move || {
            for (index, chunk) in written.chunks(100).enumerate() {
                assert!(chunk.iter().all(|&byte| usize::from(byte) == index + 1));
            }
            written.len()
        }));
    }
    assert_eq!((tail.len(), tail.remaining()), (800, BLOCK_BYTES - 800));
    let mine = tail.slice(700..);
    let read: usize = readers.into_iter().map(|reader| reader.join().expect("reader")).sum();
    assert_eq!(read, 100 * (1..=8).sum::<usize>());
    drop(tail);
    assert_eq!(&mine[..], [8; 100]);
    arena.reclaim();
    assert_eq!(arena.usage().used_bytes, BLOCK_BYTES);
    drop(mine);
    assert_eq!(arena.usage().used_bytes, 0);
}

#[test]
fn foreign_slices_come_home_from_any_thread() {
    let arena = Arena::new(1 << 20);
    for _ in 0..3 {
        let slice = filled(&arena, 9, BLOCK_BYTES).freeze();
        let exports: Vec<_> = (0..4).map(|_| slice.export()).collect();
        drop(slice);
        let threads: Vec<_> = exports.into_iter().map(|f| thread::spawn(move || assert_eq!(f[7], 9))).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("reader"));
        assert_eq!(arena.usage().used_bytes, BLOCK_BYTES, "counted until home looks");
        assert!(arena.reclaim());
        assert_eq!(arena.usage().used_bytes, 0);
    }
}

#[test]
fn foreign_slices_go_on_from_shard_to_shard() {
    let home = Arena::new(1 << 20);
    let here = Slice::from_foreign(filled(&home, 3, 64).freeze().export());
    assert!(here.is_foreign());
    let further: ForeignSlice = here.slice(10..20).export();
    drop(here);
    assert!(!home.reclaim(), "still held through the second export");
    assert_eq!(&further[..], [3; 10]);
    thread::spawn(move || drop(further)).join().expect("dropped");
    assert!(home.reclaim());
    assert_eq!(home.usage().used_bytes, 0);
}

#[test]
fn foreign_slices_outlive_their_arena() {
    for large in [false, true] {
        let arena = Arena::new(2 * CLASS_BYTES_MAX + (1 << 20));
        let len = if large { CLASS_BYTES_MAX + 1 } else { 64 };
        let slice = filled(&arena, 5, len).freeze();
        let out = slice.export();
        let returned = slice.export();
        let local_too = filled(&arena, 6, 64).freeze();
        let local_out = local_too.export();
        drop(slice);
        drop(returned);
        arena.close();
        // Closed: what is exported now is a copy, so nothing waits for a home that no longer looks.
        let copy = local_too.export();
        assert_ne!(copy.as_ptr(), local_too.as_ptr());
        drop(arena);
        let reader = thread::spawn(move || {
            assert!(out.iter().all(|&byte| byte == 5) && out.len() == len);
            drop(out);
            assert_eq!((local_out[0], copy[0]), (6, 6));
        });
        reader.join().expect("reader");
        assert_eq!(local_too[63], 6);
    }
}

struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn memory_is_handed_out_in_line() {
    let wakes = Arc::new(CountWakes(AtomicUsize::new(0)));
    let waker = Waker::from(wakes.clone());
    let mut context = Context::from_waker(&waker);
    let arena = Arena::new(4 * BLOCK_BYTES);
    let mut blocks: Vec<_> = (0..4).map(|_| arena.alloc(1).expect("there is memory")).collect();
    let mut large = pin!(arena.alloc_wait(3 * BLOCK_BYTES));
    let mut small = pin!(arena.alloc_wait(1));
    assert!(large.as_mut().poll(&mut context).is_pending());
    assert!(small.as_mut().poll(&mut context).is_pending());
    blocks.pop();
    assert!(arena.alloc(1).is_none(), "nobody overtakes");
    assert!(small.as_mut().poll(&mut context).is_pending(), "the large one is first");
    blocks.clear();
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    let Poll::Ready(got) = large.as_mut().poll(&mut context) else { panic!("there is memory now") };
    assert_eq!(got.capacity(), 4 * BLOCK_BYTES);
    assert!(small.as_mut().poll(&mut context).is_pending());
    drop(got);
    assert!(small.as_mut().poll(&mut context).is_ready());
    assert_eq!(arena.usage().used_bytes, 0);
}

#[test]
fn a_wait_that_is_dropped_gives_up_its_place_and_its_grant() {
    let mut context = Context::from_waker(Waker::noop());
    let arena = Arena::new(2 * BLOCK_BYTES);
    let held = arena.alloc(2 * BLOCK_BYTES).expect("there is memory");
    let mut waits: Vec<_> = (0..3).map(|_| Box::pin(arena.alloc_wait(2 * BLOCK_BYTES))).collect();
    for wait in &mut waits {
        assert!(wait.as_mut().poll(&mut context).is_pending());
    }
    drop(waits.remove(1));
    drop(held);
    // The first was granted; dropping it passes the memory on to the last.
    drop(waits.remove(0));
    assert!(waits[0].as_mut().poll(&mut context).is_ready());
    drop(waits);
    assert_eq!((arena.usage().used_bytes, arena.usage().waiting), (0, 0));
}

#[test]
fn a_return_from_elsewhere_serves_who_waits() {
    let mut context = Context::from_waker(Waker::noop());
    let arena = Arena::new(BLOCK_BYTES);
    let out = filled(&arena, 1, 8).freeze().export();
    let mut wait = pin!(arena.alloc_wait(1));
    assert!(wait.as_mut().poll(&mut context).is_pending());
    assert!(!arena.has_wanted_returns());
    thread::spawn(move || drop(out)).join().expect("dropped");
    assert!(arena.has_wanted_returns(), "a parked shard would get up");
    arena.reclaim();
    assert!(wait.as_mut().poll(&mut context).is_ready());
}

#[test]
fn the_last_slice_of_a_block_gives_the_buffer_back() {
    let arena = Arena::new(1 << 20);
    let mut buf = arena.alloc(4096).expect("a block");
    buf.extend_from_slice(b"bytes");
    let slice = buf.freeze();
    let reader = slice.slice(1..3);
    let slice = slice.into_buf().expect_err("somebody reads it");
    drop(reader);
    let exported = slice.export();
    let slice = slice.into_buf().expect_err("another shard reads it");
    assert_eq!(&*slice, b"bytes");
    drop(exported);
    arena.reclaim();
    let mut buf = slice.into_buf().expect("nobody reads it");
    assert!(buf.is_empty() && buf.capacity() == 4096);
    buf.extend_from_slice(b"other");
    drop(buf);
    assert_eq!(arena.usage().used_bytes, 0);
    assert!(Slice::from_static(b"static").into_buf().is_err());
}

#[test]
fn a_part_that_is_used_up_delays_nobody_else() {
    let mut context = Context::from_waker(Waker::noop());
    let arena = Arena::new(8 * BLOCK_BYTES);
    let (one, other) = (arena.part(2 * BLOCK_BYTES), arena.part(usize::MAX));
    let held = one.alloc(2 * BLOCK_BYTES).expect("all of the part");
    assert!(one.alloc(1).is_none());
    let mut wait = pin!(one.alloc_wait(1));
    assert!(wait.as_mut().poll(&mut context).is_pending());
    let rest = other.alloc(4 * BLOCK_BYTES).expect("no part's line is another's");
    let last = arena.alloc(2 * BLOCK_BYTES).expect("what no part has is the whole's");
    assert_eq!(arena.usage().used_bytes, 8 * BLOCK_BYTES);
    assert_eq!((one.usage().used_bytes, one.usage().waiting), (2 * BLOCK_BYTES, 1));
    assert!(other.alloc(1).is_none() && arena.alloc(1).is_none(), "the whole has a bound, too");
    drop(last);
    assert!(wait.as_mut().poll(&mut context).is_pending(), "memory of another part is of no use");
    drop(held);
    assert!(wait.as_mut().poll(&mut context).is_ready());
    drop(rest);
    assert_eq!((arena.usage().used_bytes, one.usage().used_bytes, other.usage().used_bytes), (0, 0, 0));
}
