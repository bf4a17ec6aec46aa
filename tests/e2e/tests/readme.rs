//! The README's commands, as they stand there, in a clean clone and on the default ports.
//!
//! The clone (what is committed, with the working copy's changes) is mounted over the repository, for this test's processes alone, so
//! that cargo finds what it has built before; a file that was never added is missing there. The network is this test's own, too.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use e2e::broker::{bound_to_this_thread, root, target_dir};
use e2e::namespace::scratch_inside;

const SERVE: &str = "cargo run --release -- serve";

/// What each command prints, by how it begins: the words that stand there, and the number of lines where that is fixed.
const EXPECTED: &[(&str, &[&str], Option<usize>)] = &[
    ("cargo run --release -- topic create greetings", &["greetings"], None),
    ("printf", &[], Some(0)),
    ("kcat -C", &["/0 ", "de: Hallo", "fr: Salut", "en: Hello"], Some(3)),
    ("cargo run --release -- topic describe greetings", &["greetings"], None),
    ("echo 'it:Ciao'", &[], None),
    (
        "cargo run --release -- consume greetings --from beginning --output json",
        &["\"Hallo\"", "\"it\"", "\"Ciao\""],
        Some(4),
    ),
    ("cargo run --release -- consume greetings --from beginning", &["Hallo", "Salut", "Hello", "Ciao"], Some(5)),
    ("cargo run --release -- consume greetings --group postcards", &["Hallo", "Ciao"], Some(5)),
    ("cargo run --release -- group describe postcards", &["Empty", "greetings"], None),
    ("cargo run --release -- group reset-offsets postcards", &["nothing was set"], None),
    ("cargo run --release -- log verify tidemill-data", &[], None),
    ("cargo run --release -p loadgen -- run", &["achieved", "produce", "nothing lost"], None),
];

/// The README's code blocks, a command a line.
fn blocks() -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join("README.md")).expect("there is a README");
    let fenced = text.split("\n```\n").skip(1).step_by(2);
    fenced.map(|block| block.lines().map(str::to_owned).collect()).collect()
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(status.success(), "{program} {arguments:?}: {status}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Clones the repository to `to` and brings over what the working copy has changed; times of change are kept, which cargo goes by.
fn clone(to: &Path) {
    run("git", &["clone", "--quiet", text(root()), text(to)]);
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    let listed = String::from_utf8(listed.stdout).expect("plain paths");
    let (there, gone): (Vec<&str>, Vec<&str>) =
        listed.split_terminator('\0').partition(|path| root().join(path).is_file());
    let copied = Command::new("cp").args(["-p", "--parents", "-t"]).arg(to).args(there).current_dir(root()).status();
    assert!(copied.expect("cp is there").success());
    for path in gone {
        // Deleted in the working copy, if it was ever committed.
        let _ = std::fs::remove_file(to.join(path));
    }
}

/// Puts the clone in the repository's place, with the repository's build folder where that lies inside.
fn put_in_place(clone: &Path) {
    if let Ok(inside) = target_dir().strip_prefix(root()) {
        let there = clone.join(inside);
        std::fs::create_dir_all(&there).expect("the directory can be made");
        run("mount", &["--bind", text(&target_dir()), text(&there)]);
    }
    run("mount", &["--rbind", text(clone), text(root())]);
}

/// A broker as the README starts it.
struct Serving(Child);

impl Serving {
    fn start() -> Self {
        let mut words = SERVE.split(' ');
        let mut child = bound_to_this_thread(words.next().expect("cargo"))
            .args(words)
            .current_dir(root())
            .stdout(Stdio::piped())
            .spawn()
            .expect("setpriv (util-linux) is there");
        let mut ready = String::new();
        let stdout = child.stdout.as_mut().expect("standard output is a pipe");
        BufReader::new(stdout).read_line(&mut ready).expect("it can be read");
        println!("{}", ready.trim_end());
        assert!(ready.starts_with("ready ") && ready.contains("kafka=127.0.0.1:9092"), "{ready:?}");
        Self(child)
    }

    fn kill(mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it is ours");
    }
}

/// Runs a command line and looks at what it prints.
fn check(line: &str) {
    let output = bound_to_this_thread("bash")
        .args(["-euo", "pipefail", "-c", line])
        .current_dir(root())
        .output()
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    let printed = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    println!("$ {line}\n{printed}");
    assert!(output.status.success(), "{line}: {}\n{printed}{said}", output.status);
    let expected = EXPECTED.iter().find(|(begin, ..)| line.starts_with(begin));
    let (_, words, lines) = expected.unwrap_or_else(|| panic!("nobody says what `{line}` is to print"));
    for word in *words {
        assert!(printed.contains(word), "{word:?} is missing:\n{printed}");
    }
    if let Some(lines) = lines {
        assert_eq!(printed.lines().count(), *lines, "lines:\n{printed}");
    }
}

#[test]
fn the_readme_is_true() {
    let Some(dir) = scratch_inside("the_readme_is_true", &["--net"]) else { return };
    run("ip", &["link", "set", "lo", "up"]);
    let cloned = dir.join("clone");
    clone(&cloned);
    put_in_place(&cloned);
    let blocks = blocks();
    let [first, second, again, tour @ .., after_kill] = blocks.as_slice() else { panic!("{blocks:?}") };
    assert_eq!((first, second), (&vec![SERVE.to_owned()], &vec!["./verify".to_owned()]), "the two commands");
    assert_eq!(again, first);
    assert!(root().join("verify").is_file());

    let broker = Serving::start();
    tour.iter().flatten().for_each(|line| check(line));
    broker.kill();
    let broker = Serving::start();
    after_kill.iter().for_each(|line| check(line));
    broker.kill();
}
