//! The arguments of verbs that ask a running service.

use clap::Args;

use super::report::JsonArgs;
use super::source::FetchArgs;
use crate::error::{Failure, Result};
use crate::profiles::fetch::{self, FetchOptions};

/// A running service, and the form of its answer.
#[derive(Args)]
pub(crate) struct ServiceArgs {
    /// The address of a service with flamelet, such as http://localhost:3000
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    fetch: FetchArgs,
    #[command(flatten)]
    json: JsonArgs,
}

impl ServiceArgs {
    /// Asks the service for this endpoint and returns the answer, if it is not longer than `max_bytes`.
    pub(crate) fn ask(&self, endpoint: &str, max_bytes: u64) -> Result<Vec<u8>> {
        let Some(url) = fetch::endpoint_url(&self.url, endpoint) else {
            return Err(Failure::new(format!("{}: expected http://HOST:PORT", self.url)));
        };
        fetch::fetch(&url, &FetchOptions { max_bytes, ..self.fetch.options() })
    }

    /// Returns whether to print JSON.
    pub(crate) fn wants_json(&self) -> bool {
        self.json.json
    }

    pub(crate) fn address(&self) -> &str {
        &self.url
    }
}
