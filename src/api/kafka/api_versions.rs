//! ApiVersions: what is served, from the table (KIP-511), and the levels of features that clients may count on (KIP-584).

use wire::messages::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use wire::{ApiKey, Array, ErrorCode};

use net::Reply;

use super::context::{Context, Refusal};
use super::table::TABLE;

/// What clients may count on beyond the versions of calls, and its level. Each is named only once it is served: `transaction.version` 2
/// would have producers speak transactions; with `group.version` 1 consumers may speak the group protocol of KIP-848. A `metadata.version` above
/// 3.3-IV3, the lowest that Kafka 4 knows, says that SCRAM credentials, delegation tokens, several log directories and eligible leader
/// replicas are at hand; without any, tools take the cluster for one whose version they can't know.
const FEATURES: [(&str, i16); 2] = [("group.version", CONSUMER_GROUPS), ("metadata.version", METADATA_3_3_IV3)];
const CONSUMER_GROUPS: i16 = 1;
const METADATA_3_3_IV3: i16 = 7;
/// Grows whenever a level changes while brokers run, which none does: clients keep the levels of the highest epoch they have seen.
const FEATURES_EPOCH: i64 = 0;

/// Names every API of the table.
pub fn handle(context: &Context) -> Result<Reply, Refusal> {
    let request: ApiVersionsRequest<'_> = context.decode()?;
    if context.version >= 3
        && !(is_software(request.client_software_name) && is_software(request.client_software_version))
    {
        return context.answer(&ApiVersionsResponse { error_code: ErrorCode::InvalidRequest, ..Default::default() });
    }
    let api_keys = TABLE
        .iter()
        .map(|api| ApiVersion {
            api_key: api.key.code(),
            min_version: api.advertised_min,
            max_version: *api.versions.end(),
        })
        .collect();
    let supported = |(name, level)| SupportedFeatureKey { name, min_version: level, max_version: level };
    let finalized = |(name, level)| FinalizedFeatureKey { name, max_version_level: level, min_version_level: level };
    context.answer(&ApiVersionsResponse {
        api_keys,
        supported_features: FEATURES.into_iter().map(supported).collect(),
        finalized_features_epoch: FEATURES_EPOCH,
        finalized_features: FEATURES.into_iter().map(finalized).collect(),
        ..Default::default()
    })
}

/// What KIP-511 allows in the names: letters, digits, dots and dashes, not at the ends.
fn is_software(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let outer = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    name.chars().all(inner) && outer(name.chars().next()) && outer(name.chars().next_back())
}

/// The answer to a version above ours: at version 0, so that any client can read it, with the range of this API alone.
pub fn unsupported(context: &Context) -> Result<Reply, Refusal> {
    let own = TABLE.iter().filter(|api| api.key == ApiKey::ApiVersions).map(|api| ApiVersion {
        api_key: api.key.code(),
        min_version: api.advertised_min,
        max_version: *api.versions.end(),
    });
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion,
        api_keys: Array::from_iter(own),
        ..Default::default()
    };
    context.answer_at(0, &response, &[])
}

#[cfg(test)]
mod tests {
    use super::is_software;

    #[test]
    fn software_names_follow_kip_511() {
        for (name, allowed) in [
            ("apache-kafka-java", true),
            ("4.4.0", true),
            ("x", true),
            ("", false),
            ("-x", false),
            ("x.", false),
            ("a b", false),
        ] {
            assert_eq!(is_software(name), allowed, "{name:?}");
        }
    }
}
