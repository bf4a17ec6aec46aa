//! Records the answers of a broker, or compares the two recordings: see the library.

use std::process::ExitCode;

use golden::differences::{Differences, differences};
use golden::peers::{Kafka, Tidemill};
use golden::recording::Recording;
use golden::run::record;
use golden::{DIFFERENCES, KAFKA, TIDEMILL, file, script};

const USAGE: &str = "usage: golden record kafka|tidemill
       golden compare";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["record", "kafka"] => {
            let kafka = Kafka::start();
            write(KAFKA, "What Apache Kafka 4.4 answers to the script.", &record(&kafka.peer, &script::steps()));
            ExitCode::SUCCESS
        }
        ["record", "tidemill"] => {
            let tidemill = Tidemill::start();
            write(TIDEMILL, "What Tidemill answers to the script.", &record(&tidemill.peer, &script::steps()));
            tidemill.stop();
            ExitCode::SUCCESS
        }
        ["compare"] => compare(),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn write(name: &str, what: &str, recording: &Recording) {
    let text = format!("# {what} `cargo run -p golden -- record` writes this file.\n\n{recording}");
    std::fs::write(file(name), text).expect("the recording can be written");
}

fn compare() -> ExitCode {
    let read = |name: &str| std::fs::read_to_string(file(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let recording = |name: &str| Recording::parse(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let list = Differences::parse(&read(DIFFERENCES)).unwrap_or_else(|error| panic!("{DIFFERENCES}: {error}"));
    let findings = list.judge(&differences(&recording(KAFKA), &recording(TIDEMILL)));
    for finding in &findings {
        println!("{finding}");
    }
    println!("{} findings", findings.len());
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
