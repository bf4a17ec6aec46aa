//! Tests that need a network or mounts of their own run in a process of their own, which takes both with it when it ends.
//!
//! Their scratch directory is the outer process's: made before, removed after. A mount that the inner process makes in there does not
//! exist for the outer one, so that removing the directory can reach nothing but the directory. Inside, where it would reach
//! whatever is mounted, nothing is removed once something is.

use std::path::PathBuf;
use std::process::Stdio;

use crate::broker::bound_to_this_thread;

/// Tells the inner process its scratch directory.
const SCRATCH: &str = "E2E_NAMESPACE_SCRATCH";

/// Runs `test` again in new namespaces (`flags` of unshare(1)), and fails as it does. Inside, where the test is to go on, its scratch
/// directory; outside, when all is over, `None`.
///
/// # Panics
/// When the test fails inside.
#[must_use]
pub fn scratch_inside(test: &str, flags: &[&str]) -> Option<PathBuf> {
    if let Some(scratch) = std::env::var_os(SCRATCH) {
        return Some(scratch.into());
    }
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let this = std::env::current_exe().expect("a test knows its program");
    let status = bound_to_this_thread("unshare")
        .args(flags)
        // Whatever is mounted inside stays inside, whatever the system's default is.
        .args(["--mount", "--propagation", "private", "--kill-child", "--"])
        .arg(this)
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env(SCRATCH, scratch.path())
        .stdout(Stdio::inherit())
        .status()
        .expect("unshare (util-linux) is there");
    assert!(status.success(), "{test} fails in its namespace: {status}");
    None
}
