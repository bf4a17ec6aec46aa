//! AlterConfigs (KIP-133) and IncrementalAlterConfigs (KIP-339): settings of topics and groups change while they are served.

use std::collections::HashMap;
use std::rc::Rc;

use net::Reply;
use replication::metadata::ResourceKind;
use wire::messages::alter_configs::AlterConfigsResourceResponse;
use wire::messages::{alter_configs as whole, incremental_alter_configs as incremental};
use wire::{Array, ErrorCode};

use super::context::{Context, Refusal};
use super::describe_configs::{is_this_broker, not_served, resource, twice};
use crate::cluster::{AdminError, AdminReply, AdminRequest, ResourceChange, SettingOperation, SettingsChange, submit};

/// A resource of a request, and what is to become of its settings.
struct Asked {
    resource_type: i8,
    resource_name: String,
    change: Result<SettingsChange, AdminError>,
}

/// Replaces all settings of each resource.
pub async fn replace(context: Rc<Context>) -> Result<Reply, Refusal> {
    let (asked, validate_only) = {
        let request: whole::AlterConfigsRequest<'_> = context.decode()?;
        let resources = request.resources.iter().map(|resource| {
            let settings = resource.configs.iter();
            let settings = settings.map(|config| (config.name.to_owned(), config.value.map(str::to_owned))).collect();
            Asked {
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.to_owned(),
                change: Ok(SettingsChange::Replace(settings)),
            }
        });
        (resources.collect::<Vec<_>>(), request.validate_only)
    };
    let outcomes = alter(&context, &asked, validate_only).await;
    let responses = responses(&asked, &outcomes);
    context.answer(&whole::AlterConfigsResponse { throttle_time_ms: 0, responses })
}

/// Changes some settings of each resource.
pub async fn change(context: Rc<Context>) -> Result<Reply, Refusal> {
    let (asked, validate_only) = {
        let request: incremental::IncrementalAlterConfigsRequest<'_> = context.decode()?;
        let resources = request.resources.iter().map(|resource| Asked {
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.to_owned(),
            change: resource
                .configs
                .iter()
                .map(|config| operation(&config))
                .collect::<Result<_, _>>()
                .map(SettingsChange::Each),
        });
        (resources.collect::<Vec<_>>(), request.validate_only)
    };
    let outcomes = alter(&context, &asked, validate_only).await;
    let responses = responses(&asked, &outcomes);
    context.answer(&incremental::IncrementalAlterConfigsResponse { throttle_time_ms: 0, responses })
}

fn responses<'r>(
    asked: &'r [Asked],
    outcomes: &'r [Result<(), AdminError>],
) -> Array<'r, AlterConfigsResourceResponse<'r>> {
    let response = |(asked, outcome): (&'r Asked, &'r Result<(), AdminError>)| {
        let (error_code, error_message) = AdminError::parts(outcome);
        let Asked { resource_type, resource_name, .. } = asked;
        AlterConfigsResourceResponse { error_code, error_message, resource_type: *resource_type, resource_name }
    };
    asked.iter().zip(outcomes).map(response).collect()
}

fn operation(config: &incremental::AlterableConfig<'_>) -> Result<(String, SettingOperation), AdminError> {
    let value = config.value.map(str::to_owned);
    let invalid = |reason: String| AdminError::new(ErrorCode::InvalidRequest, reason);
    let listed = || value.clone().ok_or_else(|| invalid(format!("Null value not supported for : {}", config.name)));
    let operation = match config.config_operation {
        0 => SettingOperation::Set(value.clone()),
        1 => SettingOperation::Delete,
        2 => SettingOperation::Append(listed()?),
        3 => SettingOperation::Subtract(listed()?),
        other => return Err(invalid(format!("Unknown operation {other} for {}", config.name))),
    };
    Ok((config.name.to_owned(), operation))
}

/// The outcome for each resource, in order.
async fn alter(context: &Context, asked: &[Asked], validate_only: bool) -> Vec<Result<(), AdminError>> {
    let mut counts: HashMap<(i8, &str), usize> = HashMap::new();
    for resource in asked {
        *counts.entry((resource.resource_type, &resource.resource_name)).or_default() += 1;
    }
    let mut outcomes: Vec<Option<Result<(), AdminError>>> = Vec::with_capacity(asked.len());
    let mut changes = Vec::new();
    for resource in asked {
        let is_unique = counts[&(resource.resource_type, resource.resource_name.as_str())] == 1;
        let kind = kind(context, resource, is_unique);
        match kind.and_then(|kind| Ok((kind, resource.change.clone()?))) {
            Err(error) => outcomes.push(Some(Err(error))),
            Ok((kind, settings)) => {
                changes.push(ResourceChange { kind, name: resource.resource_name.clone(), settings });
                outcomes.push(None);
            }
        }
    }
    let altered = match submit(&context.node, AdminRequest::AlterSettings { changes, validate_only }).await {
        AdminReply::AlterSettings(altered) => altered,
        other => unreachable!("AlterSettings is answered by AlterSettings, not {other:?}"),
    };
    let mut altered = altered.into_iter();
    let lost =
        || Err(AdminError::new(ErrorCode::UnknownServerError, "the controller gave no answer for this resource"));
    outcomes.into_iter().map(|outcome| outcome.or_else(|| altered.next()).unwrap_or_else(lost)).collect()
}

/// What the controller is to change. Told without it: only topics and groups have settings that change while the broker runs.
fn kind(context: &Context, asked: &Asked, is_unique: bool) -> Result<ResourceKind, AdminError> {
    let invalid = |reason: &str| Err(AdminError::new(ErrorCode::InvalidRequest, reason));
    if !is_unique {
        return Err(twice());
    }
    match asked.resource_type {
        resource::TOPIC => Ok(ResourceKind::Topic),
        resource::GROUP => Ok(ResourceKind::Group),
        resource::BROKER | resource::BROKER_LOGGER => {
            is_this_broker(context, &asked.resource_name)?;
            invalid(
                "a broker's settings are read from its configuration when it starts; change them there and restart it",
            )
        }
        other => Err(not_served(other)),
    }
}
