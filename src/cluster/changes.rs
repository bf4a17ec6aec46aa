//! What changes a topic that exists: more partitions, other settings; and the settings of groups.
//!
//! All follow the controller's one path: plan against the image, commit, tell the shards, publish, answer. A change of a topic's settings reaches
//! every log of it before it is answered, one of a group's every coordinator.

use std::collections::{BTreeMap, BTreeSet};

use replication::metadata::{
    ConfigRecord, Image, MetadataRecord, PartitionsSpec, ResourceKind, check_topic_name, plan_create_partitions,
};
use wire::ErrorCode;

use super::controller::{Controller, not_committed};
use super::{AdminError, ResourceChange, SettingOperation, SettingsChange, errors};
use crate::config::{GroupSettings, InvalidSetting, Setting, ValueType};

/// Groups that may have settings of their own.
const GROUPS_MAX: usize = 10_000;
/// The longest name of such a group.
const GROUP_NAME_BYTES_MAX: usize = 1024;

impl Controller {
    pub(super) async fn create_partitions(
        &mut self,
        topics: Vec<PartitionsSpec>,
        validate_only: bool,
    ) -> Vec<Result<(), AdminError>> {
        let mut results = Vec::with_capacity(topics.len());
        for spec in topics {
            let live = [self.view.broker.id];
            let plan = plan_create_partitions(self.metadata.image(), &spec, &live, &mut self.random)
                .map_err(|error| AdminError::new(errors::create_partitions(&error), error.to_string()))
                .and_then(|records| match records.len() <= self.partitions_left() {
                    true => Ok(records),
                    false => Err(self.too_many_partitions()),
                });
            results.push(match plan {
                Ok(records) if !validate_only => self.commit_change(&spec.topic, records).await,
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            });
        }
        results
    }

    pub(super) async fn alter_settings(
        &mut self,
        changes: Vec<ResourceChange>,
        validate_only: bool,
    ) -> Vec<Result<(), AdminError>> {
        let mut results = Vec::with_capacity(changes.len());
        for change in changes {
            results.push(match self.plan_settings(self.metadata.image(), &change) {
                Ok(records) if !validate_only && !records.is_empty() => match change.kind {
                    ResourceKind::Group => self.commit_group(records).await,
                    _ => self.commit_change(&change.name, records).await,
                },
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            });
        }
        results
    }

    fn plan_settings(&self, image: &Image, change: &ResourceChange) -> Result<Vec<MetadataRecord>, AdminError> {
        let ResourceChange { kind, name, settings } = change;
        if name.is_empty() {
            let what = if *kind == ResourceKind::Group { "group" } else { "topic" };
            let reason = format!("Default {what} resources are not allowed.");
            return Err(AdminError::new(ErrorCode::InvalidRequest, reason));
        }
        let before: BTreeMap<&str, &str> = image.configs(*kind, name).collect();
        let after = changed(&before, settings, *kind)?;
        let given: BTreeMap<&str, &str> = after.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        match kind {
            ResourceKind::Group => self.check_group(image, name, &given)?,
            _ => {
                check_topic_is_there(image, name)?;
                self.check_settings(&given)?;
            }
        }
        let keys: BTreeSet<&str> = before.keys().copied().chain(after.keys().map(String::as_str)).collect();
        let records = keys
            .into_iter()
            .filter(|key| before.get(key).copied() != after.get(*key).map(String::as_str))
            .map(|key| {
                MetadataRecord::Config(ConfigRecord {
                    resource: *kind,
                    resource_name: name.clone(),
                    key: key.to_owned(),
                    value: after.get(key).cloned(),
                })
            })
            .collect();
        Ok(records)
    }

    /// Whether a group may have these settings of its own.
    fn check_group(&self, image: &Image, name: &str, given: &BTreeMap<&str, &str>) -> Result<(), AdminError> {
        // Every copy of the metadata keeps them, and a group need not be there to have some.
        let is_new = image.configs(ResourceKind::Group, name).next().is_none() && !given.is_empty();
        if is_new && (name.len() > GROUP_NAME_BYTES_MAX || image.configured(ResourceKind::Group).count() >= GROUPS_MAX)
        {
            let reason = format!(
                "Settings are kept of at most {GROUPS_MAX} groups, with names of at most {GROUP_NAME_BYTES_MAX} bytes."
            );
            return Err(AdminError::new(ErrorCode::PolicyViolation, reason));
        }
        let checked = GroupSettings::check(given.iter().map(|(key, value)| (*key, *value)), &self.node.config);
        checked.map(drop).map_err(invalid_setting)
    }

    async fn commit_group(&mut self, records: Vec<MetadataRecord>) -> Result<(), AdminError> {
        self.metadata.propose(&records).await.map_err(|error| not_committed(&error))?;
        self.view.set_groups(self.metadata.image(), &self.node.config);
        self.publish().await.map_err(|reason| AdminError::new(ErrorCode::KafkaStorageError, reason))
    }

    /// Commits the records of one topic's change, and has every log of it opened, or told its new settings.
    async fn commit_change(&mut self, name: &str, records: Vec<MetadataRecord>) -> Result<(), AdminError> {
        self.metadata.propose(&records).await.map_err(|error| not_committed(&error))?;
        let image = self.metadata.image().clone();
        let failed = |reason: String| AdminError::new(ErrorCode::KafkaStorageError, reason);
        let topic = image.topic(name).expect("its records were just committed");
        let topic = self.topic(&image, topic).map_err(failed)?;
        // What is committed is so: a log that could not be opened now is opened at the next start.
        self.open_and_publish(vec![topic]).await.map_err(failed)
    }
}

fn check_topic_is_there(image: &Image, name: &str) -> Result<(), AdminError> {
    check_topic_name(name).map_err(|error| AdminError::new(ErrorCode::InvalidTopicException, error.to_string()))?;
    if image.topic(name).is_none() {
        let reason = format!("The topic '{name}' does not exist.");
        return Err(AdminError::new(ErrorCode::UnknownTopicOrPartition, reason));
    }
    Ok(())
}

/// A resource's own settings after a change.
fn changed(
    before: &BTreeMap<&str, &str>,
    change: &SettingsChange,
    kind: ResourceKind,
) -> Result<BTreeMap<String, String>, AdminError> {
    let invalid = |reason| Err(AdminError::new(ErrorCode::InvalidRequest, reason));
    let owned = |(name, value): (&&str, &&str)| ((*name).to_owned(), (*value).to_owned());
    let (mut after, operations): (BTreeMap<String, String>, Vec<(String, SettingOperation)>) = match change {
        SettingsChange::Each(operations) => (before.iter().map(owned).collect(), operations.clone()),
        SettingsChange::Replace(settings) => {
            let set = |(name, value): &(String, Option<String>)| (name.clone(), SettingOperation::Set(value.clone()));
            (BTreeMap::new(), settings.iter().map(set).collect())
        }
    };
    let mut seen = BTreeSet::new();
    for (name, operation) in operations {
        if !seen.insert(name.clone()) {
            return invalid(format!("Error due to duplicate config keys : {name}"));
        }
        match operation {
            SettingOperation::Set(None) => return invalid(format!("Null value not supported for : {name}")),
            SettingOperation::Set(Some(value)) => drop(after.insert(name, value)),
            SettingOperation::Delete => {
                // As Kafka: nothing is wrong with a group that does not have it.
                if kind == ResourceKind::Topic {
                    Setting::named(&name).map_err(invalid_setting)?;
                }
                after.remove(&name);
            }
            SettingOperation::Append(values) => {
                let mut list = list_of(&after, &name, "APPEND", kind)?;
                for value in items(&values) {
                    if !list.contains(&value) {
                        list.push(value);
                    }
                }
                after.insert(name, list.join(","));
            }
            SettingOperation::Subtract(values) => {
                let mut list = list_of(&after, &name, "SUBTRACT", kind)?;
                list.retain(|value| !items(&values).contains(value));
                after.insert(name, list.join(","));
            }
        }
    }
    Ok(after)
}

fn invalid_setting(error: InvalidSetting) -> AdminError {
    AdminError::new(ErrorCode::InvalidConfig, error.to_string())
}

/// The values of a list as it is now, its default where the topic has none of its own.
fn list_of(
    own: &BTreeMap<String, String>,
    name: &str,
    operation: &str,
    kind: ResourceKind,
) -> Result<Vec<String>, AdminError> {
    let no_list = || {
        let reason = format!("Can't {operation} to key {name} because its type is not LIST.");
        AdminError::new(ErrorCode::InvalidConfig, reason)
    };
    // No setting of a group is one.
    if kind == ResourceKind::Group {
        return Err(no_list());
    }
    let setting = Setting::named(name).map_err(invalid_setting)?;
    if setting.value_type() != ValueType::List {
        return Err(no_list());
    }
    let value = own.get(name).cloned().or_else(|| setting.default_value());
    Ok(items(&value.unwrap_or_default()))
}

fn items(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &[(&str, &str)], change: &SettingsChange) -> Result<String, ErrorCode> {
        let after =
            changed(&before.iter().copied().collect(), change, ResourceKind::Topic).map_err(|error| error.code)?;
        Ok(after.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn settings_are_replaced_whole_or_changed_one_by_one() {
        use SettingOperation::{Append, Delete, Set, Subtract};
        let each = |operations: &[(&str, SettingOperation)]| {
            SettingsChange::Each(operations.iter().map(|(name, of)| ((*name).to_owned(), of.clone())).collect())
        };
        let set = |value: &str| Set(Some(value.to_owned()));
        let replace = |settings: &[(&str, Option<&str>)]| {
            let owned = |(name, value): &(&str, Option<&str>)| ((*name).to_owned(), value.map(str::to_owned));
            SettingsChange::Replace(settings.iter().map(owned).collect())
        };
        let before = [("retention.ms", "5"), ("segment.ms", "7")];
        for (change, expected) in [
            (each(&[("retention.ms", set("6"))]), Ok("retention.ms=6 segment.ms=7")),
            (each(&[("retention.ms", Delete)]), Ok("segment.ms=7")),
            (each(&[("retention.bytes", Delete)]), Ok("retention.ms=5 segment.ms=7")),
            (each(&[]), Ok("retention.ms=5 segment.ms=7")),
            (replace(&[("segment.ms", Some("8"))]), Ok("segment.ms=8")),
            (replace(&[]), Ok("")),
            (
                each(&[("cleanup.policy", Append("delete".into()))]),
                Ok("cleanup.policy=delete retention.ms=5 segment.ms=7"),
            ),
            (
                each(&[("cleanup.policy", Append("compact, delete".into()))]),
                Ok("cleanup.policy=delete,compact retention.ms=5 segment.ms=7"),
            ),
            (each(&[("cleanup.policy", Subtract("delete".into()))]), Ok("cleanup.policy= retention.ms=5 segment.ms=7")),
            (each(&[("retention.ms", Append("6".into()))]), Err(ErrorCode::InvalidConfig)),
            (each(&[("no.such", Subtract("6".into()))]), Err(ErrorCode::InvalidConfig)),
            (each(&[("no.such", Delete)]), Err(ErrorCode::InvalidConfig)),
            (each(&[("retention.ms", Set(None))]), Err(ErrorCode::InvalidRequest)),
            (each(&[("retention.ms", Delete), ("retention.ms", Delete)]), Err(ErrorCode::InvalidRequest)),
            (replace(&[("retention.ms", None)]), Err(ErrorCode::InvalidRequest)),
        ] {
            assert_eq!(check(&before, &change), expected.map(str::to_owned), "{change:?}");
        }
    }
}
