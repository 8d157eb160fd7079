//! The arguments of verbs that ask a running service.

use clap::Args;

use super::source::FetchArgs;
use crate::error::{Failure, Result};
use crate::profiles::fetch::{self, FetchOptions};

/// The longest answer that is read.
const MAX_BYTES: u64 = 256 << 20;

/// A running service.
#[derive(Args)]
pub(crate) struct ServiceArgs {
    /// The address of a service with flamelet, such as http://localhost:3000
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    fetch: FetchArgs,
}

impl ServiceArgs {
    /// Asks the service for this endpoint and returns the answer.
    pub(crate) fn ask(&self, endpoint: &str) -> Result<Vec<u8>> {
        let Some(url) = fetch::endpoint_url(&self.url, endpoint) else {
            return Err(Failure::new(format!("{}: expected http://HOST:PORT", self.url)));
        };
        fetch::fetch(&url, &FetchOptions { max_bytes: MAX_BYTES, ..self.fetch.options() })
    }

    /// Returns the address as it was given.
    pub(crate) fn address(&self) -> &str {
        &self.url
    }
}
