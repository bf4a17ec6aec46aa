//! Which version of each API a broker and this client both speak.
//!
//! Owner: a connection, for as long as it lives. Pure: made from an ApiVersions response, asked before each request.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use wire::{ApiKey, Request};

use crate::Error;

/// The question what a broker serves, with what this client says of itself (KIP-511).
pub(crate) const SOFTWARE: ApiVersionsRequest<'static> =
    ApiVersionsRequest { client_software_name: "tidemill", client_software_version: env!("CARGO_PKG_VERSION") };

/// What a broker said it serves.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct VersionTable(BTreeMap<i16, (i16, i16)>);

impl VersionTable {
    #[must_use]
    pub fn from_response(response: &ApiVersionsResponse<'_>) -> Self {
        Self(response.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version))).collect())
    }

    /// The range of an API, if the broker serves it.
    #[must_use]
    pub fn range(&self, key: ApiKey) -> Option<(i16, i16)> {
        self.0.get(&key.code()).copied()
    }

    /// The highest version of `R` that both sides speak.
    ///
    /// # Errors
    /// There is none.
    pub fn pick<'q, R: Request<'q>>(&self) -> Result<i16, Error> {
        let theirs = self.range(R::KEY);
        highest_common(&R::VERSIONS, theirs).ok_or(Error::Unsupported {
            key: R::KEY,
            ours: (*R::VERSIONS.start(), *R::VERSIONS.end()),
            theirs,
        })
    }
}

/// The highest version in both ranges.
pub(crate) fn highest_common(ours: &RangeInclusive<i16>, theirs: Option<(i16, i16)>) -> Option<i16> {
    let (min, max) = theirs?;
    let (low, high) = (min.max(*ours.start()), max.min(*ours.end()));
    (low <= high).then_some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::messages::ProduceRequest;
    use wire::messages::api_versions::ApiVersion;

    #[test]
    fn the_highest_common_version_is_picked() {
        // ours, theirs, picked
        let table = [
            (3..=13, Some((0, 13)), Some(13)),
            (3..=13, Some((0, 11)), Some(11)),
            (3..=13, Some((5, 99)), Some(13)),
            (3..=13, Some((13, 13)), Some(13)),
            (3..=13, Some((14, 15)), None),
            (3..=13, Some((0, 2)), None),
            (3..=13, Some((9, 4)), None),
            (3..=13, None, None),
            (0..=4, Some((i16::MIN, i16::MAX)), Some(4)),
        ];
        for (ours, theirs, picked) in table {
            assert_eq!(highest_common(&ours, theirs), picked, "{ours:?} {theirs:?}");
        }
    }

    #[test]
    fn an_unserved_api_is_an_error_that_says_so() {
        let keys = [ApiVersion { api_key: 0, min_version: 0, max_version: 2 }];
        let table =
            VersionTable::from_response(&ApiVersionsResponse { api_keys: (&keys).into(), ..Default::default() });
        let error = table.pick::<ProduceRequest<'_>>().expect_err("nothing in common");
        assert_eq!(error.to_string(), "no common version of Produce: the broker has 0 to 2, the client 3 to 13");
    }
}
