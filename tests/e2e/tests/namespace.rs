//! A test's scratch directory is removed, and what the test had mounted in there is not.

use std::panic::catch_unwind;
use std::process::Command;

use e2e::broker::target_dir;
use e2e::namespace::scratch_inside;

#[test]
fn what_is_mounted_in_a_scratch_directory_outlives_it() {
    let precious = target_dir().join("e2e-precious");
    let file = precious.join("file");
    std::fs::create_dir_all(&precious).expect("the directory can be made");
    std::fs::write(&file, "kept").expect("the file can be written");
    let inside = catch_unwind(|| scratch_inside("what_is_mounted_in_a_scratch_directory_outlives_it", &[]));
    if let Ok(Some(scratch)) = inside {
        let there = scratch.join("mounted");
        std::fs::create_dir(&there).expect("the directory can be made");
        let status = Command::new("mount").arg("--bind").args([&precious, &there]).status();
        assert!(status.expect("mount is there").success());
        assert!(there.join("file").is_file());
        // The worse of the two ends.
        panic!("on purpose");
    }
    assert!(inside.is_err(), "the inner process fails, and so this one is told");
    assert_eq!(std::fs::read_to_string(&file).expect("still there"), "kept");
    std::fs::remove_file(&file).expect("it is there");
    std::fs::remove_dir(&precious).expect("it is empty");
}
