//! `tidemill topic apply`: takes topics to what a policy file declares.
//!
//! The whole plan is made and checked, by the broker too, before anything is changed. What is carried out stays so, wherever it ends: the
//! same policy, applied again, goes on from there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use client::{Client, Error, NewTopic};
use serde::Serialize;
use shard::Shard;

use super::Exit;
use super::failure::Failure;
use super::output::{Format, Output, Table};
use super::session::Connect;
use crate::config::policy::{
    DeclaredTopic, LiveSetting, LiveTopic, POLICY_BYTES_MAX, PolicyError, Step, Syntax, TopicPlan, parse, plan,
};

/// How often it is looked whether changes are told.
const NEWS_INTERVAL: Duration = Duration::from_millis(50);

const POLICY: &str = "\
A policy is YAML (*.yaml, *.yml) or TOML (*.toml). It declares one topic, or a list of topics:

  topics:                         # in TOML: [[topics]]
    - name: orders
      partitions: 6
      replication_factor: 1
      min_insync_replicas: 1
      cleanup_policy: delete
      retention_ms: 604800000
      retention_topic_bytes: 1099511627776
      compression: producer       # short for compression_type
      key_schema: orders-key:1    # labels, which `topic describe` shows
      value_schema: orders-value:3
      delivery_contract: at least once, in order of the key
      reset: [segment_ms]         # back to the default

Any other topic setting goes by Kafka's name, too, with `_` for `.`.

What a policy does not name is left alone: other topics, other settings, the number of partitions.
A setting that has the declared value already, be it by default, stays as it is: a policy that
was applied has nothing more to change.

The plan is checked as a whole. Where a part of it can't be done (fewer partitions, another
replication factor, what the broker refuses), nothing is changed and the exit code is 5.";

#[derive(Args, Clone, Debug)]
#[command(after_long_help = POLICY)]
pub struct Apply {
    /// The policy: `tidemill topic apply --help` shows one
    file: PathBuf,
    /// Show what would be changed, change nothing
    #[arg(long)]
    dry_run: bool,
    #[arg(long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    connect: Connect,
}

pub async fn apply(shard: &Shard, arguments: &Apply) -> Result<Exit, Failure> {
    let declared = read(shard, &arguments.file).await?;
    let client = arguments.connect.client(shard).await?;
    let mut plans = plan(&declared, &live_topics(&client, &declared).await?);
    check(&client, &mut plans).await?;
    let mut output = Output::stdout();
    print(&plans, arguments.output, &mut output);
    let impossible = plans.iter().flat_map(|plan| &plan.steps).filter(|step| matches!(step, Step::Impossible { .. }));
    if let count @ 1.. = impossible.count() {
        output.flush();
        let what = format!("{count} of the changes can't be made, so nothing was changed");
        return Err(Failure::failed(what).remedy("the plan says why; change the policy there, and apply it again"));
    }
    // A person sees what is coming before it comes.
    output.flush();
    if !arguments.dry_run && !plans.is_empty() {
        for (done, plan) in plans.iter().enumerate() {
            carry_out(&client, plan).await.map_err(|error| interrupted(error, done, plans.len()))?;
        }
        confirm(shard, &client, &declared).await?;
    }
    if arguments.output == Format::Table {
        output.line(&match (plans.len(), arguments.dry_run) {
            (0, _) => format!("nothing to change in {}", topics(declared.len())),
            (count, true) => format!("{} would be changed; nothing was, with --dry-run", topics(count)),
            (count, false) => format!("{} changed", topics(count)),
        });
    }
    Ok(Exit::Done)
}

fn topics(count: usize) -> String {
    format!("{count} topic{}", if count == 1 { "" } else { "s" })
}

async fn read(shard: &Shard, path: &Path) -> Result<Vec<DeclaredTopic>, Failure> {
    let file = path.display();
    let wrong = |what: String| Failure::new(Exit::WrongUsage, what);
    let syntax = Syntax::of(path).ok_or_else(|| {
        wrong(format!("{file}: by its name neither YAML nor TOML")).remedy("a policy is called *.yaml, *.yml or *.toml")
    })?;
    let bytes = shard.fs().read_file(path, POLICY_BYTES_MAX).await;
    let bytes = bytes.map_err(|error| wrong(format!("the policy {file} can't be read: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|error| wrong(format!("the policy {file} is not text: {error}")))?;
    let invalid = |error: PolicyError| {
        let what = match error.line {
            Some(line) => format!("{file}:{line}: {}", error.what),
            None => format!("{file}: {}", error.what),
        };
        wrong(what).remedy("`tidemill topic apply --help` shows what a policy looks like")
    };
    parse(syntax, &text).map_err(invalid)
}

/// Those of the declared topics that exist.
async fn live_topics(client: &Client, declared: &[DeclaredTopic]) -> Result<BTreeMap<String, LiveTopic>, Failure> {
    let declared: BTreeSet<&str> = declared.iter().map(|topic| topic.name.as_str()).collect();
    let mut described = client.topics().await?;
    described.retain(|topic| declared.contains(&*topic.name));
    let mut settings = client.topic_settings(described.iter().map(|topic| &*topic.name)).await?;
    let mut live = BTreeMap::new();
    for topic in described {
        // What has gone since it was listed is as if it had never been.
        let Some(settings) = settings.remove(&*topic.name) else { continue };
        let setting = |setting: client::TopicSetting| {
            (setting.name, LiveSetting { value: setting.value, is_own: setting.is_own })
        };
        let topic_now = LiveTopic {
            partitions: topic.partitions.len(),
            replication_factor: topic.partitions.iter().map(|partition| partition.replicas.len()).max().unwrap_or(0),
            settings: settings.into_iter().map(setting).collect(),
        };
        live.insert(topic.name.to_string(), topic_now);
    }
    Ok(live)
}

/// What a broker is asked for.
enum Change {
    Create(NewTopic),
    Settings(Vec<(String, Option<String>)>),
    Partitions { from: usize, to: i32 },
}

/// The requests of a plan. Settings before partitions: where they are refused nothing has changed yet.
fn changes(plan: &TopicPlan) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut settings = Vec::new();
    for step in &plan.steps {
        match step {
            Step::Create { partitions, replication_factor, settings } => changes.push(Change::Create(NewTopic {
                name: plan.topic.clone(),
                partition_count: *partitions,
                replication_factor: *replication_factor,
                assignments: Vec::new(),
                configs: settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
            })),
            Step::AddPartitions { from, to } => changes.push(Change::Partitions { from: *from, to: *to }),
            Step::Set { setting, to, .. } => settings.push(((*setting).to_owned(), Some(to.clone()))),
            Step::Reset { setting, .. } => settings.push(((*setting).to_owned(), None)),
            Step::Impossible { .. } => {}
        }
    }
    if !settings.is_empty() {
        changes.insert(0, Change::Settings(settings));
    }
    changes
}

async fn ask(client: &Client, topic: &str, change: &Change, validate_only: bool) -> Result<(), Error> {
    match change {
        Change::Create(topic) => client.create_topic(topic, validate_only).await.map(drop),
        Change::Settings(settings) => client.alter_topic(topic, settings, validate_only).await,
        Change::Partitions { to, .. } => client.add_partitions(topic, *to, validate_only).await,
    }
}

/// Has every change checked by the broker; what it refuses becomes a step of the plan that is impossible.
async fn check(client: &Client, plans: &mut [TopicPlan]) -> Result<(), Failure> {
    for plan in plans {
        for change in changes(plan) {
            let error = match ask(client, &plan.topic, &change, true).await {
                Ok(()) => continue,
                Err(error @ (Error::Refused { .. } | Error::NoTopic { .. })) => error,
                Err(error) => return Err(error.into()),
            };
            let (what, from, to) = match change {
                Change::Create(_) => ("topic", None, None),
                Change::Settings(_) => ("settings", None, None),
                Change::Partitions { from, to } => ("partitions", Some(from.to_string()), Some(to.to_string())),
            };
            plan.steps.push(Step::Impossible { what: what.to_owned(), from, to, reason: error.to_string() });
        }
    }
    Ok(())
}

async fn carry_out(client: &Client, plan: &TopicPlan) -> Result<(), Error> {
    for change in changes(plan) {
        ask(client, &plan.topic, &change, false).await?;
    }
    Ok(())
}

/// Waits until what was changed is also told: other brokers than the controller learn of it a moment later, and whoever applies the policy
/// again should find nothing to do.
async fn confirm(shard: &Shard, client: &Client, declared: &[DeclaredTopic]) -> Result<(), Failure> {
    let mut open = None;
    let told = async {
        loop {
            open = plan(declared, &live_topics(client, declared).await?).into_iter().next().map(|plan| plan.topic);
            if open.is_none() {
                return Ok(());
            }
            shard.sleep(NEWS_INTERVAL).await;
        }
    };
    let told = shard.until(client.deadline(), told).await;
    told.unwrap_or_else(|| {
        let topic = open.map_or_else(String::new, |topic| format!(": topic {topic} is not as it was declared"));
        let what = format!("the changes were made, but brokers tell otherwise{topic}");
        Err(Failure::failed(what).remedy("`tidemill topic apply --dry-run` shows what differs"))
    })
}

fn interrupted(error: Error, done: usize, planned: usize) -> Failure {
    let failure = Failure::from(error);
    let remedy = failure.remedy.unwrap_or_else(|| "the same policy, applied again, goes on from there".to_owned());
    let what = format!("{}; {done} of {planned} topics were changed before that", failure.what);
    Failure { what, remedy: Some(remedy), ..failure }
}

/// A line of a plan.
#[derive(Serialize)]
struct Row<'a> {
    topic: &'a str,
    change: &'static str,
    /// A setting, `partitions` or `replication factor`.
    what: &'a str,
    from: Option<String>,
    /// Nothing: the broker's default, or no value.
    to: Option<String>,
    note: Option<&'a str>,
}

const KEYS_MOVE: &str = "records of a key may go to another partition than the key's earlier ones";

fn rows<'p>(topic: &'p str, step: &'p Step) -> Vec<Row<'p>> {
    let row = |change, what, from, to| Row { topic, change, what, from, to, note: None };
    match step {
        Step::Create { partitions, replication_factor, settings } => {
            let create = |what, to| row("create", what, None, to);
            let mut rows = vec![
                create("partitions", partitions.map(|count| count.to_string())),
                create("replication factor", replication_factor.map(|count| count.to_string())),
            ];
            rows.extend(settings.iter().map(|(name, value)| create(name, Some(value.clone()))));
            rows
        }
        Step::AddPartitions { from, to } => {
            let row = row("add partitions", "partitions", Some(from.to_string()), Some(to.to_string()));
            vec![Row { note: Some(KEYS_MOVE), ..row }]
        }
        Step::Set { setting, from, to } => vec![row("set", setting, from.clone(), Some(to.clone()))],
        Step::Reset { setting, from, to } => vec![row("reset", setting, from.clone(), to.clone())],
        Step::Impossible { what, from, to, reason } => {
            vec![Row { note: Some(reason), ..row("impossible", what, from.clone(), to.clone()) }]
        }
    }
}

fn print(plans: &[TopicPlan], format: Format, output: &mut Output) {
    let steps = plans.iter().flat_map(|plan| plan.steps.iter().map(|step| (plan.topic.as_str(), step)));
    let rows = steps.flat_map(|(topic, step)| rows(topic, step));
    match format {
        Format::Json => rows.for_each(|row| output.json(&row)),
        Format::Table => {
            let mut table = Table::new(&["TOPIC", "CHANGE", "WHAT", "FROM", "TO", "NOTE"]);
            for row in rows {
                let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
                let to = if row.to.is_none() && row.change == "create" { Some("(default)".to_owned()) } else { row.to };
                let (from, to, note) = (or_dash(row.from), or_dash(to), row.note.unwrap_or_default());
                let topic = row.topic.to_owned();
                table.row(vec![topic, row.change.to_owned(), row.what.to_owned(), from, to, note.to_owned()]);
            }
            if !table.is_empty() {
                table.print(output);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_has_all_settings_of_a_topic_and_comes_first() {
        let step = |setting, to: Option<&str>| match to.map(str::to_owned) {
            Some(to) => Step::Set { setting, from: None, to },
            None => Step::Reset { setting, from: None, to: None },
        };
        let steps = vec![
            Step::AddPartitions { from: 3, to: 5 },
            step("retention.ms", Some("5")),
            Step::Impossible { what: "x".to_owned(), from: None, to: None, reason: String::new() },
            step("key.schema", None),
        ];
        let changes = changes(&TopicPlan { topic: "t".to_owned(), steps });
        let [Change::Settings(settings), Change::Partitions { from: 3, to: 5 }] = &changes[..] else {
            panic!("two requests, not {}", changes.len());
        };
        let expected = [("retention.ms".to_owned(), Some("5".to_owned())), ("key.schema".to_owned(), None)];
        assert_eq!(settings, &expected);
    }

    #[test]
    fn what_was_done_before_a_failure_is_said() {
        let closed = Error::Closed { address: "a:1".to_owned(), cause: "reset".to_owned() };
        let failure = interrupted(closed, 2, 5);
        assert!(failure.what.ends_with("2 of 5 topics were changed before that"), "{}", failure.what);
        let malformed = Error::Nonsense { key: wire::ApiKey::CreateTopics, what: "nothing" };
        assert!(interrupted(malformed, 0, 1).remedy.expect("always there").contains("goes on from there"));
    }
}
