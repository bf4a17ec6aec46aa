//! Files on the production driver: direct reads and writes, and everything the janitor does.

mod real;

use std::io::ErrorKind;

use real::{TestDir, aligned, pattern, run, run_with};
use shard::{OpenOptions, Shard, WriteSync};

const DIRECT: OpenOptions = OpenOptions { read: true, write: true, create: true, exclusive: false, direct: true };
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

#[test]
fn direct_writes_come_back_whole_gathered_and_in_one_piece() {
    let dir = TestDir::new();
    let path = dir.join("data");
    run(async move |shard: Shard| {
        let file = shard.fs().open(&path, DIRECT).await.unwrap();
        assert!(file.alignment().is_power_of_two() && file.alignment() <= 4 * KIB);
        let content = pattern(1, 3 * MIB + 28 * KIB);
        let mut offset = 0;
        // One slice, a few, and more than the kernel takes at once.
        for (piece, count) in [(MIB, 1), (64 * KIB, 16), (4 * KIB, 256 + 7)] {
            let mut slices = Vec::new();
            for n in 0..count {
                slices.push(aligned(&shard, &content[offset + n * piece..offset + (n + 1) * piece]).await);
            }
            file.write_at(offset as u64, slices, WriteSync::None).await.unwrap();
            offset += piece * count;
        }
        assert_eq!(offset, content.len());
        file.datasync().await.unwrap();
        let read = file.read_at(0, content.len().next_multiple_of(4 * KIB)).await.unwrap();
        assert!(read[..] == content[..], "what was written");
        drop((file, read));
        assert!(std::fs::read(&path).unwrap() == content, "what others see");
    });
}

#[test]
fn a_write_of_more_slices_than_the_kernel_takes_is_continued() {
    let dir = TestDir::new();
    let path = dir.join("data");
    run(async move |shard: Shard| {
        let file = shard.fs().open(&path, DIRECT).await.unwrap();
        let block = aligned(&shard, &pattern(2, 4 * KIB)).await;
        file.write_at(0, vec![block.clone(); 2500], WriteSync::Data).await.unwrap();
        let before = shard.uring_stats().unwrap().continuations;
        assert!(before >= 2, "2,500 pieces take three writes");
        let read = file.read_at(2499 * 4 * KIB as u64, 8 * KIB).await.unwrap();
        assert_eq!(read[..], block[..], "the last block, and then the end of the file");
    });
}

#[test]
fn reads_are_short_at_the_end_of_the_file_only() {
    let dir = TestDir::new();
    let path = dir.join("data");
    std::fs::write(&path, pattern(3, 10_000)).unwrap();
    run(async move |shard: Shard| {
        for direct in [true, false] {
            let options = OpenOptions { read: true, direct, ..OpenOptions::default() };
            let file = shard.fs().open(&path, options).await.unwrap();
            assert_eq!(file.bytes_at_open(), 10_000);
            for (offset, len, expected) in [(0, 4096, 4096), (0, 16384, 10_000), (8192, 4096, 1808), (12288, 4096, 0)] {
                let read = file.read_at(offset, len).await.unwrap();
                assert_eq!(read.len(), expected, "{len} bytes at {offset}, direct {direct}");
                assert_eq!(read[..], pattern(3, 10_000)[(offset as usize).min(10_000)..][..expected]);
            }
        }
    });
}

#[test]
fn many_operations_are_in_flight_at_once_in_a_ring_of_any_size() {
    for submission_entries in [1024, 4] {
        let dir = TestDir::new();
        let path = dir.join("data");
        let mut options = real::options(64 << 20);
        options.uring.submission_entries = submission_entries;
        run_with(&options, async move |shard: Shard| {
            let file = shard.fs().open(&path, DIRECT).await.unwrap();
            let account = shard.account("test");
            let task = |n: u64| {
                let (worker, file) = (shard.clone(), file.clone());
                let task = async move {
                    let content = pattern(n, 4 * KIB);
                    let sync = if n.is_multiple_of(50) { WriteSync::Data } else { WriteSync::None };
                    file.write_at(n * 4096, vec![aligned(&worker, &content).await], sync).await.unwrap();
                    let read = file.read_at(n * 4096, 4 * KIB).await.unwrap();
                    assert!(read[..] == content[..]);
                };
                shard.spawn(shard::Class::Latency, account.clone(), task)
            };
            for task in (0..500).map(task).collect::<Vec<_>>() {
                task.await;
            }
            file.datasync().await.unwrap();
            assert_eq!(shard.ops_in_flight(), 0);
        });
    }
}

#[test]
fn a_file_system_in_memory_serves_as_well() {
    let path = std::path::PathBuf::from(format!("/dev/shm/shard-test-{}", std::process::id()));
    if !path.parent().is_some_and(std::path::Path::is_dir) {
        return;
    }
    let file = path.clone();
    run(async move |shard: Shard| {
        let options = OpenOptions { exclusive: true, ..DIRECT };
        let file = shard.fs().open(&file, options).await.unwrap();
        assert_eq!(file.alignment(), 4 * KIB);
        let content = pattern(9, 64 * KIB);
        file.write_at(0, vec![aligned(&shard, &content).await], WriteSync::Data).await.unwrap();
        assert!(file.read_at(0, 64 * KIB).await.unwrap()[..] == content[..]);
    });
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_future_dropped_in_flight_leaks_nothing() {
    let dir = TestDir::new();
    let path = dir.join("data");
    run(async move |shard: Shard| {
        let file = shard.fs().open(&path, DIRECT).await.unwrap();
        file.write_at(0, vec![aligned(&shard, &pattern(4, MIB)).await], WriteSync::None).await.unwrap();
        let used = shard.arena().usage().used_bytes;
        for n in 0..200u64 {
            let mut read = Box::pin(file.read_at((n % 200) * 4096, 64 * KIB));
            let mut sync = Box::pin(file.datasync());
            // Polled once, so that it is submitted; then dropped.
            std::future::poll_fn(|context| {
                assert!(read.as_mut().poll(context).is_pending());
                assert!(sync.as_mut().poll(context).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
        }
        // A last sync is answered after all of them have ended, or nearly: wait for the rest.
        file.datasync().await.unwrap();
        while shard.ops_in_flight() > 0 {
            shard.yield_now().await;
        }
        assert_eq!(shard.arena().usage().used_bytes, used);
        let fs = shard.fs();
        let mut opening = Box::pin(fs.open(&path, DIRECT));
        std::future::poll_fn(|context| {
            assert!(opening.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        drop(opening);
        // In order: the orphaned open has been answered, and closed, before this.
        shard.fs().stat(&path).await.unwrap();
        while shard.ops_in_flight() > 0 {
            shard.yield_now().await;
        }
    });
}

#[test]
fn the_janitor_does_what_blocks() {
    let dir = TestDir::new();
    let root = dir.path().to_path_buf();
    run(async move |shard: Shard| {
        let fs = shard.fs();
        let deep = root.join("a/b/c");
        fs.create_dir_all(&deep).await.unwrap();
        fs.create_dir_all(&deep).await.unwrap();
        fs.write_file_durably(deep.join("small"), b"first".to_vec()).await.unwrap();
        fs.write_file_durably(deep.join("small"), b"second".to_vec()).await.unwrap();
        assert_eq!(fs.read_file(deep.join("small"), 6).await.unwrap(), b"second");
        assert_eq!(fs.read_file(deep.join("small"), 5).await.unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(fs.read_file(deep.join("none"), 5).await.unwrap_err().kind(), ErrorKind::NotFound);
        fs.create_dir_all(deep.join("dir")).await.unwrap();
        let entries = fs.list(&deep).await.unwrap();
        let names: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.is_dir)).collect();
        assert_eq!(names, [("dir", true), ("small", false)]);
        assert_eq!(entries[1].bytes, 6);
        assert_eq!(fs.remove_dir(&deep).await.unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
        fs.remove_dir(deep.join("dir")).await.unwrap();
        fs.rename(deep.join("small"), root.join("moved")).await.unwrap();
        let found = fs.stat(root.join("moved")).await.unwrap().unwrap();
        assert_eq!((found.is_dir, found.bytes), (false, 6));
        assert_eq!(fs.stat(deep.join("small")).await.unwrap(), None);
        assert_eq!(fs.stat(root.join("moved/below")).await.unwrap(), None);
        fs.remove(root.join("moved")).await.unwrap();
        fs.sync_dir(&root).await.unwrap();
        fs.sync_fs(&root).await.unwrap();
        let space = fs.space(&root).await.unwrap();
        assert!(space.free_bytes > 0 && space.free_bytes <= space.total_bytes);
        let exclusive = OpenOptions { exclusive: true, ..DIRECT };
        fs.open(root.join("new"), exclusive).await.unwrap();
        let error = fs.open(root.join("new"), exclusive).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    });
}

#[test]
fn sizes_are_changed_on_the_file_that_was_opened() {
    let dir = TestDir::new();
    let root = dir.path().to_path_buf();
    run(async move |shard: Shard| {
        let fs = shard.fs();
        fs.create_dir_all(root.join("topic")).await.unwrap();
        let file = fs.open(root.join("topic/data"), DIRECT).await.unwrap();
        fs.allocate(&file, 0, 64 * KIB as u64).await.unwrap();
        fs.allocate(&file, 64 * KIB as u64, 64 * KIB as u64).await.unwrap();
        assert_eq!(fs.stat(root.join("topic/data")).await.unwrap().unwrap().bytes, 128 * KIB as u64);
        assert!(file.read_at(0, 128 * KIB).await.unwrap().iter().all(|&byte| byte == 0));
        // The file moves with its directory, and then by itself.
        fs.rename(root.join("topic"), root.join("trash")).await.unwrap();
        fs.set_len(&file, 8192).await.unwrap();
        fs.rename(root.join("trash/data"), root.join("gone")).await.unwrap();
        fs.set_len(&file, 4096).await.unwrap();
        assert_eq!(fs.stat(root.join("gone")).await.unwrap().unwrap().bytes, 4096);
        // Another file has taken its name: that one is left alone.
        std::fs::rename(root.join("gone"), root.join("elsewhere")).unwrap();
        std::fs::write(root.join("gone"), b"stranger").unwrap();
        assert!(fs.set_len(&file, 0).await.is_err());
        assert_eq!(fs.stat(root.join("gone")).await.unwrap().unwrap().bytes, 8);
        let read_only = OpenOptions { read: true, ..OpenOptions::default() };
        let reader = fs.open(root.join("elsewhere"), read_only).await.unwrap();
        assert!(fs.set_len(&reader, 0).await.is_err(), "not opened for writing");
    });
}

#[test]
fn a_lock_is_held_until_its_process_ends() {
    let dir = TestDir::new();
    let path = dir.join("lock");
    for _ in 0..2 {
        let path = path.clone();
        run(async move |shard: Shard| {
            shard.fs().lock(&path).await.unwrap();
            // Another process, as far as the lock can tell: a janitor of its own.
            let other = run(async move |other: Shard| other.fs().lock(&path).await);
            assert_eq!(other.unwrap_err().kind(), ErrorKind::WouldBlock);
        });
    }
}

#[test]
fn slabs_are_registered_where_that_is_allowed_and_results_are_the_same() {
    let dir = TestDir::new();
    let may_lock = shard::probe::probe(None).memlock_bytes.is_none_or(|limit| limit >= 128 << 20);
    for register_buffers in [true, false] {
        let path = dir.join("data");
        let mut options = real::options(64 << 20);
        options.uring.register_buffers = register_buffers;
        run_with(&options, async move |shard: Shard| {
            let file = shard.fs().open(&path, DIRECT).await.unwrap();
            let content = pattern(7, 256 * KIB);
            let expected = register_buffers && may_lock;
            for _ in 0..500 {
                file.write_at(0, vec![aligned(&shard, &content).await], WriteSync::None).await.unwrap();
                let read = file.read_at(0, 256 * KIB).await.unwrap();
                assert!(read[..] == content[..]);
                if expected && read.fixed_index().is_some() {
                    break;
                }
            }
            assert_eq!(aligned(&shard, &content).await.fixed_index().is_some(), expected);
        });
    }
}

#[test]
fn work_is_done_by_the_helper_in_any_number() {
    run(async move |shard: Shard| {
        let account = shard.account("test");
        let tasks: Vec<_> = (0..1000u64)
            .map(|n| {
                let worker = shard.clone();
                shard.spawn(shard::Class::Normal, account.clone(), async move { worker.offload(move || n * 2).await })
            })
            .collect();
        for (n, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await, n as u64 * 2);
        }
    });
}
