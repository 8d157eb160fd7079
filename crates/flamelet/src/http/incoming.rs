//! A request to be turned into a plan: everything that an endpoint may look at, without a running profiler.

use http::request::Parts;

use super::answer::Refusal;
use super::query::UrlQuery;
use super::rules::Rules;
use super::{SeenPath, address, sites};

/// One request for one endpoint.
pub(super) struct Incoming<'a> {
    /// The name of the endpoint, which is used in file names and titles.
    pub(super) name: &'static str,
    pub(super) rules: &'a Rules<'a>,
    pub(super) parts: &'a Parts,
    pub(super) query: UrlQuery,
    pub(super) body: &'a [u8],
}

impl Incoming<'_> {
    /// Returns the address of this request as the client knows it.
    pub(super) fn shown_address(&self) -> String {
        let path = self.parts.extensions.get::<SeenPath>().map_or(self.parts.uri.path(), |seen| &seen.0);
        address::shown(self.parts, sites::host_of(self.parts), path)
    }

    /// Returns `seconds`, for endpoints where it selects the change over that time.
    pub(super) fn delta_seconds(&self) -> Result<Option<u64>, Refusal> {
        let most = self.rules.limits.max_duration.as_secs();
        let seconds = self.query.number("seconds", 1..=most, " (the limit of this service)")?;
        if seconds.is_some() && self.query.wants_text()? {
            return Err(Refusal::bad_parameter("seconds and debug params are incompatible"));
        }
        Ok(seconds)
    }
}
