//! Profiles from a service: addresses as `go tool pprof` takes them, and the request itself.

use std::io::Read;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use flamelet_remote::push::Answer;
use flamelet_remote::read::Stored;
use ureq::http::Uri;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use crate::error::{About, Failure, Result};
use crate::progress::ProgressLine;

/// How to talk to a service.
#[derive(Clone, Debug, Default)]
pub(crate) struct FetchOptions {
    /// How long the service is to profile.
    pub(crate) seconds: Option<u64>,
    /// How long to wait for the answer.
    pub(crate) timeout: Option<u64>,
    /// Headers, each `Name: value`.
    pub(crate) headers: Vec<String>,
    pub(crate) tls_ca: Option<PathBuf>,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    /// Do not check the service's certificate.
    pub(crate) insecure: bool,
    /// The most bytes to accept.
    pub(crate) max_bytes: u64,
    /// Treat an answer that leads to another address as a failure.
    pub(crate) follows_no_redirects: bool,
    /// What a message says that may help.
    pub(crate) advice: Advice,
}

/// Where the user has the options: what messages name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Flags of a command.
    #[default]
    Flags,
    /// Keys of a collector's configuration.
    Configuration,
}

impl Advice {
    fn wait_longer(self) -> &'static str {
        match self {
            Self::Flags => "wait longer with --timeout SECONDS",
            Self::Configuration => "wait longer with scrape_timeout",
        }
    }

    fn accept_more(self) -> &'static str {
        match self {
            Self::Flags => "raise the limit with --max-memory",
            Self::Configuration => "raise limits.body",
        }
    }

    fn trust(self) -> &'static str {
        match self {
            Self::Flags => "trust it with --tls-ca FILE, or skip verification with --insecure",
            Self::Configuration => "trust it with ca_file in tls_config",
        }
    }
}

/// How much of the answer to a push is read.
const MAX_ANSWER: u64 = 64 << 10;

const SECOND: i64 = 1_000_000_000;

const CPU_PATH: &str = "/debug/pprof/profile";

/// The default duration of a CPU profile.
pub(crate) const CPU_SECONDS: u64 = 30;
/// How long to wait for profiles that are available at once; for others, see [`usual_wait`].
const QUICK_WAIT: u64 = 60;
/// How long to wait until a file has been sent.
const UPLOAD_WAIT: u64 = 600;
/// The rule of [`usual_wait`], for help texts.
pub(crate) const USUAL_WAIT: &str = "1.5 times the profile's duration plus 10, else 60";

/// Returns how long to wait for an answer that takes `seconds`.
fn usual_wait(seconds: Option<u64>) -> u64 {
    seconds.map_or(QUICK_WAIT, |seconds| seconds.saturating_add(seconds / 2).saturating_add(10))
}

impl FetchOptions {
    /// Returns the names of the options that were given.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let all = [
            ("--seconds", self.seconds.is_some()),
            ("--timeout", self.timeout.is_some()),
            ("--header", !self.headers.is_empty()),
            ("--tls-ca", self.tls_ca.is_some()),
            ("--tls-cert", self.tls_cert.is_some()),
            ("--insecure", self.insecure),
        ];
        all.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }
}

/// The complete address of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProfileUrl {
    pub(crate) url: String,
    /// How long the service will take, if the address says so.
    pub(crate) seconds: Option<u64>,
    insecure: bool,
}

impl ProfileUrl {
    /// Asks for a range of the service's history, in nanoseconds since 1970, instead of a new profile.
    pub(crate) fn in_range(mut self, from: Option<i64>, to: Option<i64>) -> Self {
        let seconds = |nanos: i64| format!("{}.{:09}", nanos.max(0) / SECOND, nanos.max(0) % SECOND);
        for (name, moment) in [("from", from), ("to", to)] {
            if let Some(moment) = moment {
                let separator = if self.url.contains('?') { '&' } else { '?' };
                self.url.push_str(&format!("{separator}{name}={}", seconds(moment)));
                self.seconds = None;
            }
        }
        self
    }
}

/// Returns the address that `text` means, if it can be one: a URL, or `host:port` with or without a path. An address
/// without a path means the CPU profile.
pub(crate) fn profile_url(text: &str, seconds: Option<u64>) -> Option<ProfileUrl> {
    let (text, insecure) = match text.strip_prefix("https+insecure://") {
        Some(rest) => (format!("https://{rest}"), true),
        None => (text.to_string(), false),
    };
    let has_scheme = text.starts_with("http://") || text.starts_with("https://");
    if !has_scheme && !looks_like_host(&text) {
        return None;
    }
    let text = if has_scheme { text } else { format!("http://{text}") };
    let uri: Uri = text.split('#').next()?.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?.as_str());
    let path = match uri.path().trim_end_matches('/') {
        "" => CPU_PATH.to_string(),
        path if path.ends_with("/debug/pprof") => format!("{path}/profile"),
        path => path.to_string(),
    };
    let mut query: Vec<String> =
        uri.query().unwrap_or("").split('&').filter(|part| !part.is_empty()).map(str::to_string).collect();
    if let Some(seconds) = seconds {
        query.retain(|part| !part.starts_with("seconds="));
        query.push(format!("seconds={seconds}"));
    }
    let said = query.iter().find_map(|part| part.strip_prefix("seconds=")?.parse().ok());
    let seconds = said.or(path.ends_with("/profile").then_some(CPU_SECONDS));
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    Some(ProfileUrl { url: format!("{scheme}://{authority}{path}{query}"), seconds, insecure })
}

/// Returns the address of another endpoint of the service that `text` names, beside its CPU profile.
pub(crate) fn endpoint_url(text: &str, endpoint: &str) -> Option<ProfileUrl> {
    let url = profile_url(text, None)?;
    let (folder, _) = url.url.split('?').next()?.rsplit_once('/')?;
    Some(ProfileUrl { url: format!("{folder}/{endpoint}"), seconds: None, ..url })
}

/// Returns whether `text` is `host:port`, with or without a path.
fn looks_like_host(text: &str) -> bool {
    let authority = text.split(['/', '?']).next().unwrap_or("");
    let Some((host, port)) = authority.rsplit_once(':') else { return false };
    let is_host = !host.is_empty()
        && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '[' | ']' | ':'));
    is_host && port.parse::<u16>().is_ok()
}

/// Asks the service for the profile and returns its bytes.
pub(crate) fn fetch(url: &ProfileUrl, options: &FetchOptions) -> Result<Vec<u8>> {
    let what = format!("Fetching {}", url.url);
    let _waiting = ProgressLine::start(&what, url.seconds.map(Duration::from_secs));
    get(url, options)
}

/// Like [`fetch`], for many services at once: without a progress line.
pub(crate) fn get(url: &ProfileUrl, options: &FetchOptions) -> Result<Vec<u8>> {
    check_port(&url.url)?;
    let wait = options.timeout.unwrap_or_else(|| usual_wait(url.seconds));
    let agent = agent(url, options, Duration::from_secs(wait))?;
    let mut request = agent.get(&url.url);
    for header in &options.headers {
        let (name, value) = header_of(header)?;
        request = request.header(name, value);
    }
    let mut response = request.call().map_err(|error| explain(&error, &url.url, wait, options.advice))?;
    let status = response.status();
    let mut body = Vec::new();
    let reader = response.body_mut().with_config().limit(u64::MAX).reader();
    reader.take(options.max_bytes.saturating_add(1)).read_to_end(&mut body).about(&url.url)?;
    if body.len() as u64 > options.max_bytes {
        let cap = options.max_bytes >> 20;
        let more = options.advice.accept_more();
        let message = format!("{}: the answer exceeds {cap} MiB; {more}", url.url);
        return Err(Failure::new(message));
    }
    if !status.is_success() {
        let text = String::from_utf8_lossy(&body[..body.len().min(500)]).trim().to_string();
        return Err(Failure::new(format!("{}: the service answered {status}: {text}", url.url)));
    }
    Ok(body)
}

/// Like [`get`], for a complete URL, which is requested as it is.
pub(crate) fn get_exactly(url: &str, options: &FetchOptions) -> Result<Vec<u8>> {
    get(&ProfileUrl { url: url.to_owned(), seconds: None, insecure: false }, options)
}

/// Refuses a port that is too large: the connection would fail as if nothing listened there.
fn check_port(url: &str) -> Result<()> {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = after_scheme.split(['/', '?']).next().unwrap_or_default();
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    match port {
        Some(port) if port.chars().all(|c| c.is_ascii_digit()) && port.parse::<u16>().is_err() => {
            Err(Failure::new(format!("{url}: invalid port {port}; the largest is {}", u16::MAX)))
        }
        _ => Ok(()),
    }
}

/// Sends a file to `url`, and returns the answer.
pub(crate) fn send_file(
    url: &str,
    method: &str,
    content_type: &str,
    file: std::fs::File,
    options: &FetchOptions,
) -> Result<Answer> {
    check_port(url)?;
    let target = ProfileUrl { url: url.to_owned(), seconds: None, insecure: false };
    let wait = options.timeout.unwrap_or(UPLOAD_WAIT);
    let agent = agent(&target, options, Duration::from_secs(wait))?;
    let request = if method == "PUT" { agent.put(url) } else { agent.post(url) };
    let mut request = request.header("Content-Type", content_type);
    for header in &options.headers {
        let (name, value) = header_of(header)?;
        request = request.header(name, value);
    }
    answer_of(
        request.send(file).map_err(|error| explain(&error, url, wait, options.advice))?,
        url,
        MAX_ANSWER,
    )
}

/// Asks a store for a profile, and returns it as a pprof file.
pub(crate) fn stored(stored: &Stored, options: &FetchOptions, most: u64) -> Result<Vec<u8>> {
    let answer = post_within(&stored.url(), stored.headers(), &stored.body()?, options, most)??;
    if answer.status != 200 {
        let text = String::from_utf8_lossy(&answer.body[..answer.body.len().min(500)]).trim().to_string();
        return Err(Failure::new(format!("the server answered {}: {text}", answer.status)));
    }
    Ok(stored.profile(answer.body)?)
}

/// Sends `body` to `url`, and returns the answer.
pub(crate) fn post(
    url: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    options: &FetchOptions,
) -> Result<Answer> {
    try_post(url, headers, body, options)?
}

/// Like [`post`]; the inner failure is one of the connection, which may succeed at another time.
pub(crate) fn try_post(
    url: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    options: &FetchOptions,
) -> Result<Result<Answer>> {
    post_within(url, headers, body, options, MAX_ANSWER)
}

/// Like [`post`], but cuts answers that are longer than this many bytes.
fn post_within(
    url: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    options: &FetchOptions,
    most: u64,
) -> Result<Result<Answer>> {
    if profile_url(url, None).is_none() {
        return Err(Failure::new(format!("{url}: this is not a URL; write it as http://HOST:PORT")));
    }
    check_port(url)?;
    let target = ProfileUrl { url: url.to_owned(), seconds: None, insecure: false };
    let wait = options.timeout.unwrap_or(QUICK_WAIT);
    let agent = agent(&target, options, Duration::from_secs(wait))?;
    let mut request =
        headers.iter().fold(agent.post(url), |request, (name, value)| request.header(*name, *value));
    for header in &options.headers {
        let (name, value) = header_of(header)?;
        request = request.header(name, value);
    }
    let sent = request.send(body).map_err(|error| explain(&error, url, wait, options.advice));
    Ok(sent.and_then(|response| answer_of(response, url, most)))
}

/// Reads at most this many bytes of an answer.
fn answer_of(mut response: ureq::http::Response<ureq::Body>, url: &str, most: u64) -> Result<Answer> {
    let header = |name: &str| response.headers().get(name)?.to_str().ok();
    let mut answer = Answer::without_body(response.status().as_u16(), header);
    let reader = response.body_mut().with_config().limit(u64::MAX).reader();
    reader.take(most).read_to_end(&mut answer.body).about(url)?;
    Ok(answer)
}

/// Splits a header of the command line into its name and its value.
fn header_of(header: &str) -> Result<(&str, &str)> {
    let (name, value) = header
        .split_once(':')
        .ok_or_else(|| Failure::new(format!("--header '{header}': write it as 'Name: value'")))?;
    Ok((name.trim(), value.trim()))
}

fn agent(url: &ProfileUrl, options: &FetchOptions, wait: Duration) -> Result<ureq::Agent> {
    let mut tls = TlsConfig::builder().disable_verification(options.insecure || url.insecure);
    if let Some(path) = &options.tls_ca {
        let pem = std::fs::read(path).about(path.display())?;
        let certificates: std::result::Result<Vec<_>, _> = ureq::tls::parse_pem(&pem)
            .filter_map(|item| match item {
                Ok(ureq::tls::PemItem::Certificate(certificate)) => Some(Ok(certificate)),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            })
            .collect();
        let certificates =
            certificates.map_err(|error| Failure::new(error.to_string())).about(path.display())?;
        tls = tls.root_certs(RootCerts::new_with_certs(&certificates));
    }
    if let (Some(cert), Some(key)) = (&options.tls_cert, &options.tls_key) {
        tls = tls.client_cert(Some(client_certificate(cert, key)?));
    }
    let mut config = ureq::Agent::config_builder()
        .timeout_global(Some(wait))
        .http_status_as_error(false)
        .tls_config(tls.build());
    if options.follows_no_redirects {
        config = config.max_redirects(0);
    }
    if is_on_this_machine(&url.url) {
        config = config.proxy(None);
    }
    Ok(config.build().into())
}

/// Returns whether the service runs on this machine. It is then asked directly, as Go does: a proxy from the
/// environment is another machine.
pub(crate) fn is_on_this_machine(url: &str) -> bool {
    let uri: Option<Uri> = url.parse().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    host == "localhost" || address.is_some_and(|address| address.is_loopback())
}

fn client_certificate(cert: &PathBuf, key: &PathBuf) -> Result<ClientCert> {
    let read = |path: &PathBuf| std::fs::read(path).about(path.display());
    let chain = Certificate::from_pem(&read(cert)?)
        .map_err(|error| Failure::new(format!("{}: {error}", cert.display())))?;
    let key = PrivateKey::from_pem(&read(key)?)
        .map_err(|error| Failure::new(format!("{}: {error}", key.display())))?;
    Ok(ClientCert::new_with_certs(&[chain], key))
}

fn explain(error: &ureq::Error, url: &str, wait: u64, advice: Advice) -> Failure {
    let way_out = match error {
        ureq::Error::Timeout(_) => format!("no answer within {wait} s; {}", advice.wait_longer()),
        ureq::Error::HostNotFound => unknown_host(url),
        ureq::Error::Io(error) if error.to_string().starts_with("failed to lookup address") => {
            unknown_host(url)
        }
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            "connection refused; is the service running, and is this its port?".to_string()
        }
        other if other.to_string().contains("InvalidContentType") => {
            "the answer is not TLS; does the service speak plain HTTP (http://)?".to_owned()
        }
        other if other.to_string().contains("invalid peer certificate") => {
            format!("{other}; {}", advice.trust())
        }
        other => other.to_string(),
    };
    Failure::new(format!("{url}: {way_out}"))
}

fn unknown_host(url: &str) -> String {
    let uri: Option<Uri> = url.parse().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or("of the host");
    format!("unknown host {host}")
}

#[cfg(test)]
mod tests {
    use super::{Advice, explain, is_on_this_machine, profile_url};

    fn url(text: &str, seconds: Option<u64>) -> Option<(String, Option<u64>)> {
        profile_url(text, seconds).map(|found| (found.url, found.seconds))
    }

    #[test]
    fn addresses_are_completed_as_go_does() {
        let cpu = "http://localhost:8080/debug/pprof/profile";
        assert_eq!(url("http://localhost:8080", None), Some((cpu.into(), Some(30))));
        assert_eq!(url("localhost:8080", None), Some((cpu.into(), Some(30))));
        assert_eq!(url("localhost:8080/debug/pprof/", None), Some((cpu.into(), Some(30))));
        assert_eq!(
            url("http://h:1/debug/pprof/heap", None),
            Some(("http://h:1/debug/pprof/heap".into(), None))
        );
        assert_eq!(
            url("h:1/debug/pprof/profile?seconds=5&x=1", Some(7)),
            Some(("http://h:1/debug/pprof/profile?x=1&seconds=7".into(), Some(7)))
        );
    }

    /// Tests do not ask a name server: its answer is fixed.
    #[test]
    fn a_name_that_is_not_known_is_named() {
        let unknown = "failed to lookup address information: Name or service not known";
        let told = explain(
            &ureq::Error::Io(std::io::Error::other(unknown)),
            "http://h.invalid:80/x",
            1,
            Advice::Flags,
        );
        assert_eq!(told.to_string(), "http://h.invalid:80/x: unknown host h.invalid");
    }

    #[test]
    fn this_machine_has_several_names() {
        for host in ["localhost", "127.0.0.1", "127.1.2.3", "[::1]"] {
            assert!(is_on_this_machine(&format!("http://{host}:80/x")), "{host}");
        }
        for host in ["localhost.example", "10.0.0.1", "[2001:db8::1]", "h"] {
            assert!(!is_on_this_machine(&format!("http://{host}:80/x")), "{host}");
        }
    }

    #[test]
    fn other_endpoints_are_beside_the_cpu_profile() {
        for text in [
            "localhost:3000",
            "http://localhost:3000/debug/pprof/",
            "localhost:3000/debug/pprof/heap?debug=1",
        ] {
            let url = super::endpoint_url(text, "requests").map(|url| url.url);
            assert_eq!(url.as_deref(), Some("http://localhost:3000/debug/pprof/requests"), "{text}");
        }
        assert_eq!(super::endpoint_url("a/file.pb.gz", "requests"), None);
    }

    #[test]
    fn files_are_no_addresses() {
        for text in ["cpu.pb.gz", "./a:b", "folder/cpu.pb", "C:cpu", "profile:99999999"] {
            assert_eq!(url(text, None), None, "{text}");
        }
    }
}
