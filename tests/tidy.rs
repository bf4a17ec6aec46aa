//! The rules of the house that no compiler holds: layering, file and function sizes, homes of `unsafe`, no locks outside the
//! runtime, and documents that name only what exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate may depend on these crates of the workspace and on no others of it. A new edge needs an ADR.
const EDGES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("shard", &["base"]),
    ("record", &["base"]),
    ("storage", &["base", "shard", "record"]),
    ("wire-derive", &[]),
    ("wire", &["base", "wire-derive"]),
    ("net", &["base", "shard", "wire"]),
    ("client", &["base", "net", "shard", "wire", "record"]),
    ("replication", &["base", "record", "wire"]),
    ("tidemill", &["base", "shard", "record", "storage", "wire", "net", "client", "replication"]),
    ("loadgen", &["base", "shard", "net", "wire", "record", "client"]),
    ("e2e", &["base", "client", "record", "shard", "wire"]),
    ("golden", &["base", "e2e", "record", "wire"]),
];

/// The only homes of `unsafe` outside tests: within these, clippy demands a `SAFETY` comment for each block.
const UNSAFE_HOMES: &[&str] = &[
    "shard/src/driver/uring.rs",
    "shard/src/driver/uring/",
    "shard/src/buffer.rs",
    "shard/src/buffer/",
    "shard/src/mesh.rs",
    "shard/src/mesh/",
    "shard/src/executor/waker.rs",
];

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

/// Locks, and shared cells, that would let two shards touch one thing.
const LOCKS: &[&str] = &["Mutex<", "RwLock<", "Arc<RefCell", "Arc<Cell", "parking_lot"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn tracked() -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    assert!(output.status.success(), "git ls-files failed");
    let listing = String::from_utf8(output.stdout).expect("paths are UTF-8");
    listing.lines().map(str::to_owned).filter(|path| root().join(path).is_file()).collect()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn rust_files() -> Vec<(String, String)> {
    tracked().into_iter().filter(|path| path.ends_with(".rs")).map(|path| (path.clone(), read(&path))).collect()
}

fn report(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}

#[test]
fn layers_point_one_way() {
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        EDGES.iter().map(|(name, edges)| (*name, edges.iter().copied().collect())).collect();
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for path in tracked().iter().filter(|path| path.ends_with("Cargo.toml")) {
        let manifest: toml::Table = read(path).parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        let Some(name) = manifest.get("package").and_then(|package| package.get("name")).and_then(|name| name.as_str())
        else {
            continue;
        };
        let Some(edges) = allowed.get(name) else { continue };
        seen.insert(name.to_owned());
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
        for dependency in dependencies.into_iter().flat_map(toml::Table::keys) {
            if allowed.contains_key(dependency.as_str()) && !edges.contains(dependency.as_str()) {
                findings.push(format!("{path}: {name} must not depend on {dependency}"));
            }
        }
    }
    findings.extend(EDGES.iter().filter(|(name, _)| !seen.contains(*name)).map(|(name, _)| format!("{name} is gone")));
    report("a crate depends only on the layers below it", &findings);
}

#[test]
fn files_and_functions_stay_small() {
    let mut findings = Vec::new();
    for (path, text) in rust_files() {
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            findings.push(format!("{path}: {lines} lines, at most {FILE_LINES_MAX}"));
        }
        for (start, length) in long_functions(&text) {
            findings.push(format!("{path}:{start}: a function of {length} lines, at most {FUNCTION_LINES_MAX}"));
        }
    }
    report("files and functions are split by role before they hurt", &findings);
}

/// Functions over the limit as (first line, length), by the indentation that rustfmt gives their closing brace.
fn long_functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut long = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let words: Vec<&str> = line.split_whitespace().take_while(|word| !word.contains('(')).collect();
        let is_function = line.trim_start().starts_with("fn ") || words.contains(&"fn");
        if !is_function || line.trim_start().starts_with("//") {
            continue;
        }
        let close = format!("{}}}", " ".repeat(indent));
        let end = lines[index..].iter().position(|line| *line == close);
        if let Some(length) = end
            && length + 1 > FUNCTION_LINES_MAX
        {
            long.push((index + 1, length + 1));
        }
    }
    long
}

fn is_test_code(path: &str) -> bool {
    path.starts_with("tests/")
        || path.contains("/tests/")
        || path.ends_with("tests.rs")
        || path.starts_with("benches/")
        || path.starts_with("fuzz/")
}

#[test]
fn unsafe_lives_in_its_homes() {
    let mut findings = Vec::new();
    for (path, text) in rust_files() {
        if is_test_code(&path) || UNSAFE_HOMES.iter().any(|home| path.starts_with(home)) {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            if code.contains("unsafe ") || code.contains("allow(unsafe_code") {
                findings.push(format!("{path}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    report("unsafe code lives only in the runtime's four homes", &findings);
}

#[test]
fn nothing_mutable_is_shared_outside_the_runtime() {
    let mut findings = Vec::new();
    for (path, text) in rust_files() {
        if is_test_code(&path) || path.starts_with("shard/") {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            for lock in LOCKS.iter().filter(|lock| code.contains(**lock)) {
                findings.push(format!("{path}:{}: {lock}", index + 1));
            }
        }
    }
    report("what another shard must know travels through the mesh", &findings);
}

#[test]
fn every_module_says_what_it_is() {
    let findings: Vec<String> = rust_files()
        .into_iter()
        .filter(|(path, text)| !path.ends_with("tests.rs") && !text.trim_start().starts_with("//!"))
        .map(|(path, _)| path)
        .collect();
    report("a file starts with what it is, who owns it and its invariants", &findings);
}

#[test]
fn documents_name_only_what_exists() {
    let files = tracked();
    let exists = |path: &str| {
        let path = path.trim_end_matches('/');
        files.iter().any(|file| file == path || file.starts_with(&format!("{path}/")))
    };
    let tops: BTreeSet<&str> = files.iter().filter_map(|file| file.split_once('/').map(|(top, _)| top)).collect();
    let mut findings = Vec::new();
    for document in files.iter().filter(|path| path.ends_with(".md")) {
        let text = read(document);
        for (index, line) in text.lines().enumerate() {
            for quoted in line.split('`').skip(1).step_by(2) {
                let names_a_path =
                    quoted.split('/').next().is_some_and(|top| tops.contains(top) && quoted.contains('/'))
                        && !quoted.contains([' ', '<', '*', '{', '$', '(']);
                // A crate's own documents name paths from the crate's root.
                let found = Path::new(document).ancestors().any(|above| root().join(above).join(quoted).exists());
                if names_a_path && !exists(quoted) && !found {
                    findings.push(format!("{document}:{}: {quoted}", index + 1));
                }
            }
            for (_, rest) in line.match_indices("](").map(|(at, _)| line.split_at(at + 2)) {
                let target = rest.split([')', '#']).next().unwrap_or("");
                let local = !target.is_empty() && !target.contains("://");
                let base = Path::new(document).parent().unwrap_or(Path::new(""));
                if local && !root().join(base).join(target).exists() {
                    findings.push(format!("{document}:{}: {target}", index + 1));
                }
            }
        }
    }
    report("documents name only files that exist", &findings);
}
