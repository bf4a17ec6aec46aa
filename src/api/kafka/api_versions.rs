//! ApiVersions: what is served, from the table (KIP-511).

use wire::messages::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use wire::{ApiKey, Array, ErrorCode};

use net::Reply;

use super::context::{Context, Refusal};
use super::table::TABLE;

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
    context.answer(&ApiVersionsResponse { api_keys, ..Default::default() })
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
