//! Planted bugs: each must be found by the simulator within 200 seeds, or the simulator proves little.
//!
//! A plant is a file in `planted/`: the text to find in one source file (exactly once, so it is kept in step with the code), what to
//! put there, and the simulation that is to find it. `{planted}` in it stands for a test whether this bug is the one to be found. The
//! workspace's files are copied, all plants are applied to the copy, the simulations are built once and run once for each plant, and the
//! judge must report a broken promise each time. Code that ships has no switch for any of this.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plant {
    /// What goes wrong with it.
    about: String,
    file: String,
    find: String,
    replace: String,
    /// The simulation (a test of this crate) that is to find it.
    simulation: String,
}

const SEEDS: &str = "200";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("tests/sim lies in the workspace").to_owned()
}

fn plants() -> Vec<(String, Plant)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("planted");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("the folder is there").map(|e| e.expect("read").path()).collect();
    files.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("readable");
        let plant = toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        (name, plant)
    };
    files.into_iter().map(read).collect()
}

/// Tells the simulations in the copy which bug they have.
const SWITCH: &str = "PLANTED_BUG";

fn planted(source: &str, name: &str, plant: &Plant) -> String {
    let count = source.matches(&plant.find).count();
    assert_eq!(count, 1, "{name}: the text to find occurs {count} times in {}", plant.file);
    assert!(plant.replace.contains("{planted}"), "{name}: what replaces it does not ask whether it is planted");
    let is_on = format!("std::env::var_os(\"{SWITCH}\").is_some_and(|on| on == \"{name}\")");
    source.replacen(&plant.find, &plant.replace.replace("{planted}", &is_on), 1)
}

/// The source files with all plants applied.
fn all_planted() -> BTreeMap<String, String> {
    let mut sources = BTreeMap::new();
    for (name, plant) in plants() {
        let source = sources.entry(plant.file.clone()).or_insert_with(|| {
            fs::read_to_string(workspace().join(&plant.file)).unwrap_or_else(|e| panic!("{name}: {e}"))
        });
        *source = planted(source, &name, &plant);
    }
    sources
}

#[test]
fn every_plant_still_fits_the_code() {
    assert!(plants().len() >= 6, "six kinds of bug are to be planted");
    assert!(!all_planted().is_empty());
}

/// Writes only what differs, so that the build takes up what is unchanged from last time.
fn put(path: &Path, content: &[u8]) {
    if fs::read(path).is_ok_and(|there| there == content) {
        return;
    }
    fs::create_dir_all(path.parent().expect("a file in a folder")).expect("create");
    fs::write(path, content).expect("write");
}

fn copy_workspace(to: &Path, planted: &BTreeMap<String, String>) {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(workspace())
        .output()
        .expect("git is there");
    for name in String::from_utf8(listed.stdout).expect("names are UTF-8").split_terminator('\0') {
        match (planted.get(name), fs::read(workspace().join(name))) {
            (Some(source), _) => put(&to.join(name), source.as_bytes()),
            (None, Ok(content)) => put(&to.join(name), &content),
            // Deleted, and not committed so yet.
            (None, Err(_)) => {}
        }
    }
}

/// The line in which a run says how many seeds it took.
fn seeds_taken(output: &str) -> Option<&str> {
    output.lines().find_map(|line| line.split_once("FAILED after ")?.1.split_whitespace().next())
}

#[test]
#[ignore = "builds the workspace anew; ./verify runs it"]
// The clock of the run, for its figures.
#[allow(clippy::disallowed_methods)]
fn every_planted_bug_is_found() {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
    let copy = target.join("planted/workspace");
    copy_workspace(&copy, &all_planted());
    let only = std::env::var("SIM_PLANT").ok();
    let mut missed = Vec::new();
    for (name, plant) in plants() {
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let started = Instant::now();
        let run = Command::new(env!("CARGO"))
            .args(["test", "--offline", "-p", "sim", "--test", &plant.simulation, "--", "--nocapture", "seeds"])
            .env("CARGO_TARGET_DIR", &target)
            .env("SIM_SEEDS", SEEDS)
            .env(SWITCH, &name)
            .current_dir(&copy)
            .output()
            .expect("cargo is there");
        let text = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
        let judged = text.lines().find(|line| line.contains("broken promise"));
        match (seeds_taken(&text), judged) {
            (Some(seeds), Some(why)) => {
                let seconds = started.elapsed().as_secs();
                println!("planted {name}: found after {seeds} seeds, {seconds} s ({}): {}", plant.about, why.trim());
            }
            _ => {
                let tail: Vec<&str> = text.lines().rev().take(25).collect();
                println!("planted {name}: NOT FOUND ({})", plant.about);
                tail.iter().rev().for_each(|line| println!("    {line}"));
                missed.push(name);
            }
        }
    }
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
}
