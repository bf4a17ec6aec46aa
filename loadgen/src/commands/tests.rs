use clap::CommandFactory;

use super::session::{Exit, exit_of};
use super::*;
use crate::report::table::tests::made_up;

fn parsed(line: &str) -> Result<Cli, String> {
    Cli::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string())
}

#[test]
fn the_command_line_has_no_contradictions() {
    Cli::command().debug_assert();
}

#[test]
fn verbs_are_parsed_or_refused_with_the_reason() {
    for line in [
        "x run --rate 50k --partitions 24",
        "x check --target rate>=1 --target produce_p99<=5ms --bootstrap h:1",
        "x find-max --target produce_p99<=5ms --from 1k --to 1M --precision 2%",
        "x compare --bootstrap a=h:1 --bootstrap b=h:2 --rounds 5",
        "x run --groups 2 --members 3 --churn leave,kill --group-protocol consumer",
        "x groups --members 500 --partitions 1000 --rolling-restart",
    ] {
        assert!(parsed(line).is_ok(), "{line}");
    }
    for (line, reason) in [
        ("x check", "--target"),
        ("x check --target fast", "neither `>=` nor `<=`"),
        ("x find-max --target produce_p99<=5ms --from some", "`some` is not a number"),
        ("x run --rate some", "`some` is not"),
        ("x groups --group-protocol new", "`new` is not classic or consumer"),
        ("x groups --members 0", "0 is not in"),
    ] {
        let said = parsed(line).err().unwrap_or_else(|| panic!("{line}: taken"));
        assert!(said.contains(reason), "{line}: {said}");
    }
}

#[test]
fn broken_records_come_before_missed_targets() {
    let mut report = made_up();
    assert_eq!((exit_of(&report, true), exit_of(&report, false)), (Exit::Done, Exit::Missed));
    report.verified.reordered = 1;
    assert_eq!((exit_of(&report, true), exit_of(&report, false)), (Exit::Broken, Exit::Broken));
}
