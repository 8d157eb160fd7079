//! Where to push, and how.

use std::path::PathBuf;
use std::time::Duration;

use flamelet_remote::basic;
use flamelet_remote::push::Protocol;

use crate::{Error, Result};

/// The header with Pyroscope's tenant.
const TENANT: &str = "X-Scope-OrgID";

/// A receiver that the service sends its profiles to, see [`ProfilerBuilder::push`](crate::ProfilerBuilder::push).
///
/// ```no_run
/// use flamelet::{Profiler, Push};
///
/// let profiler = Profiler::builder()
///     .name("checkout")
///     .history("/var/lib/checkout/profiles")
///     .push(Push::pyroscope("http://pyroscope:4040").label("region", "north"))
///     .start()?;
/// # Ok::<(), flamelet::Error>(())
/// ```
#[derive(Clone)]
pub struct Push {
    pub(super) protocol: Protocol,
    pub(super) server: String,
    /// Whether `server` is the whole address to send to, to which no path is added.
    pub(super) is_whole_url: bool,
    pub(super) headers: Vec<(String, String)>,
    pub(super) labels: Vec<(String, String)>,
    pub(super) service: Option<String>,
    pub(super) max_age: Duration,
    pub(super) timeout: Duration,
    pub(super) ca_file: Option<PathBuf>,
}

impl Push {
    /// Sends to Grafana Pyroscope, at the address of its server, such as `http://pyroscope:4040`.
    pub fn pyroscope(server: impl Into<String>) -> Self {
        Self::new(Protocol::Pyroscope, server.into())
    }

    /// Sends to Parca, at the address of its server, such as `http://parca:7070`, or to Polar Signals (with a
    /// [`token`](Push::token)). The calls are gRPC-Web over HTTP/1.1, which Parca takes at its usual port.
    pub fn parca(server: impl Into<String>) -> Self {
        Self::new(Protocol::Parca, server.into())
    }

    /// Sends to an OpenTelemetry collector or another receiver of OTLP/HTTP profiles, such as `http://collector:4318`.
    pub fn otlp(server: impl Into<String>) -> Self {
        Self::new(Protocol::Otlp, server.into())
    }

    fn new(protocol: Protocol, server: String) -> Self {
        Self {
            protocol,
            server,
            is_whole_url: false,
            headers: Vec::new(),
            labels: Vec::new(),
            service: None,
            max_age: Duration::from_secs(3600),
            timeout: Duration::from_secs(10),
            ca_file: None,
        }
    }

    /// Sends to the address as it is.
    pub(super) fn with_whole_url(mut self) -> Self {
        self.is_whole_url = true;
        self
    }

    /// Returns the address of all requests.
    pub(super) fn url(&self) -> String {
        if self.is_whole_url { self.server.clone() } else { self.protocol.url(&self.server) }
    }

    /// Adds a header to each request.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
        self.headers.push((name, value.into()));
        self
    }

    /// Authorizes requests with a bearer token.
    #[must_use]
    pub fn token(self, token: impl AsRef<str>) -> Self {
        self.header("Authorization", format!("Bearer {}", token.as_ref()))
    }

    /// Authorizes requests with a name and a password.
    #[must_use]
    pub fn basic_auth(self, user: impl AsRef<str>, password: impl AsRef<str>) -> Self {
        let pair = format!("{}:{}", user.as_ref(), password.as_ref());
        self.header("Authorization", format!("Basic {}", basic::encode(pair.as_bytes())))
    }

    /// Sets Pyroscope's tenant (the header `X-Scope-OrgID`).
    #[must_use]
    pub fn tenant(self, tenant: impl Into<String>) -> Self {
        self.header(TENANT, tenant)
    }

    /// Adds a label to what this receiver gets: a label of the series, or an attribute of OTLP's resource. Labels of
    /// samples, and those of [`ProfilerBuilder::label`](crate::ProfilerBuilder::label), are sent with the samples.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((name.into(), value.into()));
        self
    }

    /// Sets the service's name at this receiver; by default the profiler's name.
    #[must_use]
    pub fn service_name(mut self, name: impl Into<String>) -> Self {
        self.service = Some(name.into());
        self
    }

    /// Sets how old windows may be when they are sent; an hour by default, which is what Pyroscope takes unless it is
    /// configured otherwise. Older ones stay in the history, are reported on standard error and counted in
    /// [`Metrics::push_dropped`](crate::Metrics::push_dropped).
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age;
        self
    }

    /// Sets how long one request may take; ten seconds by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Trusts, over https, only the certificate authorities in this file (PEM), such as a company's own. Without it, those of
    /// the file in the environment variable `SSL_CERT_FILE` are trusted, else those of the system, else a list that was
    /// built in. The file is read when the profiler starts.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// Returns a number for this receiver of a service, by which it is known again after a restart; the same for all that
    /// differ only in secrets. Labels count only on request: some are new with each version of a service.
    pub(crate) fn identity(&self, service: &str, with_labels: bool) -> u64 {
        let tenant = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(TENANT));
        let tenant = tenant.map_or("", |(_, tenant)| tenant);
        let service = self.service.as_deref().unwrap_or(service);
        let (protocol, address) = (format!("{:?}", self.protocol), self.shown_address());
        let mut parts = vec![&*protocol, &*address, tenant, service];
        if with_labels {
            parts.extend(self.labels.iter().flat_map(|(name, value)| [&**name, &**value]));
        }
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        // No text has the byte that separates them.
        let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
        bytes.fold(0xcbf2_9ce4_8422_2325, step)
    }

    pub(super) fn check(&self) -> Result<()> {
        let is_http = self.server.starts_with("http://");
        let is_https = self.server.starts_with("https://");
        let shown = self.shown_address();
        if !is_http && !is_https {
            return Err(Error::invalid(format!("{shown}: expected http://HOST:PORT or https://HOST")));
        }
        if is_https && !cfg!(feature = "push-tls") {
            return Err(Error::invalid(format!("{shown}: https needs the feature `push-tls` of flamelet")));
        }
        if self.ca_file.is_some() && !is_https {
            return Err(Error::invalid(format!("{shown}: a file of certificate authorities is for https")));
        }
        if self.max_age.is_zero() || self.timeout.is_zero() {
            return Err(Error::invalid("the age and the timeout of a push must be above 0"));
        }
        let is_bad = |text: &String| text.bytes().any(|byte| byte < b' ' || byte == 0x7f);
        if self.headers.iter().any(|(name, value)| name.is_empty() || is_bad(name) || is_bad(value)) {
            return Err(Error::invalid(format!("{shown}: a header has a character that is not allowed")));
        }
        Ok(())
    }

    /// Returns the address without a name and a password in it, and without parameters.
    pub(crate) fn shown_address(&self) -> String {
        let address = self.server.split(['?', '#']).next().unwrap_or_default();
        match address.split_once("://") {
            Some((scheme, rest)) => {
                let (authority, path) = rest.split_once('/').map_or((rest, None), |(a, p)| (a, Some(p)));
                let host = authority.rsplit('@').next().unwrap_or_default();
                let path = path.map(|path| format!("/{path}")).unwrap_or_default();
                format!("{scheme}://{host}{path}")
            }
            None => address.rsplit('@').next().unwrap_or_default().to_owned(),
        }
    }
}

impl std::fmt::Debug for Push {
    /// Without headers, which hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Push")
            .field("protocol", &self.protocol)
            .field("server", &self.shown_address())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let push = Push::pyroscope("http://me:secret@host:4040/x?token=secret").token("secret");
        assert_eq!(push.shown_address(), "http://host:4040/x");
        assert!(!format!("{push:?}").contains("secret"));
        assert!(push.check().is_ok());
    }

    #[test]
    fn receivers_are_known_by_what_they_get_and_not_by_secrets() {
        let base = || Push::pyroscope("http://host:4040");
        let identity = |push: Push| push.identity("night", true);
        let same = [base(), base().token("a"), base().basic_auth("me", "b"), base().service_name("night")];
        assert!(same.map(identity).windows(2).all(|pair| pair[0] == pair[1]));
        let different = [
            base(),
            Push::otlp("http://host:4040"),
            Push::pyroscope("http://other:4040"),
            base().tenant("a"),
            base().tenant("b"),
            base().service_name("day"),
            base().label("zone", "a"),
            base().label("zone", "b"),
        ];
        let mut all: Vec<u64> = different.into_iter().map(identity).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 8);
        // A label that is new with each version does not make another receiver of it.
        let version = |version: &str| base().label("version", version).identity("night", false);
        assert_eq!(version("1"), version("2"));
    }

    #[test]
    fn what_cannot_work_is_refused_at_the_start() {
        let long = Duration::from_secs(1);
        for bad in [
            Push::pyroscope("host:4040"),
            Push::otlp(""),
            Push::pyroscope("http://a").header("X", "a\r\nb: c"),
            Push::pyroscope("http://a").header("", "a"),
            Push::parca("http://a").max_age(Duration::ZERO),
            Push::parca("http://a").timeout(long - long),
            Push::parca("http://a").ca_file("ca.pem"),
        ] {
            let error = bad.check().expect_err("refused").to_string();
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
