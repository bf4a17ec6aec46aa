//! A fresh Tidemill answers the script as `tidemill.txt` says, and as Kafka does but for what `differences.toml` lists.

use golden::differences::{Differences, differences};
use golden::peers::Tidemill;
use golden::recording::Recording;
use golden::run::{record, served};
use golden::{DIFFERENCES, KAFKA, TIDEMILL, file, script};

fn text(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn recording(name: &str) -> Recording {
    Recording::parse(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn answers_are_those_of_the_recordings() {
    let tidemill = Tidemill::start();
    let steps = script::steps();
    let answers = record(&tidemill.peer, &steps);
    for api in served(&tidemill.peer) {
        for version in api.min..=api.max {
            let sent = steps.iter().any(|step| step.api.code() == api.key && step.versions.contains(&version));
            assert!(sent, "no step sends API {} at version {version}, which is served", api.key);
        }
    }
    tidemill.stop();

    let found = differences(&recording(TIDEMILL), &answers);
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(
        found.is_empty(),
        "answers have changed (here `kafka` is {TIDEMILL}); if they are right, `cargo run -p golden -- record tidemill`:\n{}",
        found.join("\n")
    );

    let list = Differences::parse(&text(DIFFERENCES)).unwrap_or_else(|error| panic!("{DIFFERENCES}: {error}"));
    let findings = list.judge(&differences(&recording(KAFKA), &answers));
    assert!(
        findings.is_empty(),
        "{DIFFERENCES} does not say how Tidemill differs from Kafka:\n{}",
        findings.join("\n")
    );
}
