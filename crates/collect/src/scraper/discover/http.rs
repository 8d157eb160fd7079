//! `http_sd_configs`: a server that lists groups of targets.

use std::sync::Arc;
use std::time::Duration;

use super::found::FoundTargets;
use super::groups;
use crate::outside::Outside;
use crate::scraper::client::Client;
use crate::scraper::labels::LabelSet;

/// How long to wait for a list, and how long it may be.
const LIMITS: (Duration, usize) = (Duration::from_secs(30), 16 << 20);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Http {
    pub(crate) url: String,
    pub(crate) client: Arc<Client>,
}

impl Http {
    pub(super) fn find(&self, outside: &dyn Outside, refresh: Duration) -> Result<Vec<LabelSet>, String> {
        let seconds = refresh.as_secs_f64().to_string();
        let headers = [("Accept", "application/json"), ("X-Prometheus-Refresh-Interval-Seconds", &*seconds)];
        let bytes = self.client.fetch(outside, &self.url, &headers, LIMITS)?;
        let shown = self.url.split('?').next().unwrap_or_default();
        let groups = groups::of_json(&bytes).map_err(|message| format!("{shown}: {message}"))?;
        let mut found = FoundTargets::new();
        groups::add(groups, ("__meta_url", shown), &mut found)?;
        Ok(found.into_targets())
    }
}
