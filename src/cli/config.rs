//! `tidemill config`: what a configuration file says, before a broker is started with it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;

use super::Exit;
use super::failure::Failure;
use super::output::{Format, Output, Table};
use crate::config::{ConfigError, KEYS, NodeConfig};

#[derive(Args, Clone, Debug)]
pub struct ConfigArguments {
    #[command(subcommand)]
    verb: ConfigVerb,
}

#[derive(Subcommand, Clone, Debug)]
enum ConfigVerb {
    /// Check a configuration file; exits with 1 where a broker would not start with it
    Check(Check),
    /// Show every key: its value, where that comes from, its default, its bounds
    Show(Show),
}

#[derive(Args, Clone, Debug)]
struct Check {
    /// The TOML file to check
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

#[derive(Args, Clone, Debug)]
struct Show {
    /// A TOML file [default: none, so that every key has its default]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

pub fn run(arguments: &ConfigArguments) -> Exit {
    let done = match &arguments.verb {
        ConfigVerb::Check(arguments) => check(&arguments.config),
        ConfigVerb::Show(arguments) => show(arguments),
    };
    done.unwrap_or_else(|failure| failure.report())
}

fn read(path: &Path) -> Result<(NodeConfig, BTreeSet<String>), Failure> {
    let failed = |error: ConfigError| {
        let exit = if matches!(error, ConfigError::Read { .. }) { Exit::WrongUsage } else { Exit::No };
        Failure::new(exit, error)
    };
    let (config, keys) = NodeConfig::read_with_keys(path).map_err(failed)?;
    config.check().map_err(failed)?;
    Ok((config, keys))
}

fn check(path: &Path) -> Result<Exit, Failure> {
    read(path)?;
    Output::stdout().line(&format!("the configuration {} is valid", path.display()));
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Row {
    key: &'static str,
    value: String,
    source: &'static str,
    default: String,
    bounds: &'static str,
    meaning: &'static str,
}

fn show(arguments: &Show) -> Result<Exit, Failure> {
    let (config, given) = match &arguments.config {
        Some(path) => read(path)?,
        None => (NodeConfig::default(), BTreeSet::new()),
    };
    let defaults = NodeConfig::default();
    let rows = KEYS.iter().map(|key| Row {
        key: key.name,
        value: key.value(&config),
        source: if given.contains(key.name) { "file" } else { "default" },
        default: key.value(&defaults),
        bounds: key.bounds,
        meaning: key.doc,
    });
    let mut output = Output::stdout();
    match arguments.output {
        Format::Json => rows.for_each(|row| output.json(&row)),
        Format::Table => {
            let mut table = Table::new(&["KEY", "VALUE", "SOURCE", "DEFAULT", "BOUNDS"]);
            let shown = |value: String| if value.is_empty() { "-".to_owned() } else { value };
            for row in rows {
                let (value, default) = (shown(row.value), shown(row.default));
                table.row(vec![row.key.to_owned(), value, row.source.to_owned(), default, row.bounds.to_owned()]);
            }
            table.print(&mut output);
        }
    }
    Ok(Exit::Done)
}
