//! The HTTP client: one request at a time, nothing kept open between them.

use std::io::Read;

use flamelet_remote::push::Answer;

use super::Push;
use crate::{Error, ErrorKind, Result};

/// How much of an answer is read.
const MAX_ANSWER: u64 = 64 << 10;

/// Sends one body, and returns the answer, or why there is none.
pub(super) trait Transport {
    fn post(&self, body: &[u8]) -> std::result::Result<Answer, String>;
}

pub(super) struct Client {
    agent: ureq::Agent,
    url: String,
    headers: Vec<(String, String)>,
}

impl Client {
    pub(super) fn new(push: &Push) -> Result<Self> {
        let url = push.url();
        let own = push.protocol.headers().iter();
        let own = own.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(push.timeout))
            .http_status_as_error(false)
            // Another address must not get the token.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(0)
            .user_agent(concat!("flamelet/", env!("CARGO_PKG_VERSION")));
        let config = if is_on_this_machine(&push.server) { config.proxy(None) } else { config };
        #[cfg(feature = "push-tls")]
        let config = match push.server.starts_with("https://") {
            true => config.tls_config(super::tls::config(push.ca_file.as_deref())?),
            false => config,
        };
        let client =
            Self { agent: config.build().into(), url, headers: own.chain(push.headers.clone()).collect() };
        client.check(push)?;
        Ok(client)
    }

    /// Refuses an address or headers with which no request can be made.
    fn check(&self, push: &Push) -> Result<()> {
        let wrong =
            |what: &str| Error::new(ErrorKind::InvalidOption, format!("{}: {what}", push.shown_address()));
        let uri: ureq::http::Uri = self.url.parse().map_err(|_| wrong("this is not a URL"))?;
        if uri.host().is_none_or(str::is_empty) {
            return Err(wrong("the URL has no host"));
        }
        for (name, value) in &self.headers {
            let is_good = name.parse::<ureq::http::HeaderName>().is_ok()
                && value.parse::<ureq::http::HeaderValue>().is_ok();
            if !is_good {
                return Err(wrong("a header has a character that is not allowed"));
            }
        }
        Ok(())
    }
}

/// Returns whether the receiver runs on this machine, so that no proxy is asked.
fn is_on_this_machine(server: &str) -> bool {
    let after_scheme = server.split_once("://").map_or(server, |(_, rest)| rest);
    let authority = after_scheme.split(['/', '?']).next().unwrap_or_default();
    let authority = authority.rsplit('@').next().unwrap_or_default();
    ["localhost", "127.", "[::1]"].iter().any(|host| authority.starts_with(host))
}

impl Transport for Client {
    fn post(&self, body: &[u8]) -> std::result::Result<Answer, String> {
        let mut request = self.agent.post(&self.url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let mut response = request.send(body).map_err(|error| error.to_string())?;
        let header = |name: &str| response.headers().get(name)?.to_str().ok();
        let mut answer = Answer::without_body(response.status().as_u16(), header);
        let reader = response.body_mut().with_config().limit(MAX_ANSWER).reader();
        reader.take(MAX_ANSWER - 1).read_to_end(&mut answer.body).map_err(|error| error.to_string())?;
        Ok(answer)
    }
}
