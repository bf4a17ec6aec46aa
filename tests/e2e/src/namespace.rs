//! Tests that need a network or mounts of their own run in a process of their own, which takes both with it when it ends.

use std::process::Stdio;

use crate::broker::bound_to_this_thread;

const INSIDE: &str = "E2E_NAMESPACE";

/// Runs `test` again in new namespaces (`flags` of unshare(1)), and fails as it does. True inside, where the test is to go on.
///
/// # Panics
/// When the test fails inside.
#[must_use]
pub fn is_inside(test: &str, flags: &[&str]) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let this = std::env::current_exe().expect("a test knows its program");
    let status = bound_to_this_thread("unshare")
        .args(flags)
        .args(["--kill-child", "--"])
        .arg(this)
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env(INSIDE, "1")
        .stdout(Stdio::inherit())
        .status()
        .expect("unshare (util-linux) is there");
    assert!(status.success(), "{test} fails in its namespace: {status}");
    false
}
