//! The viewer's own server, for a single user.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use crate::Error;
use crate::cache::Cache;
use crate::routes::{failure, router_of};
use crate::source::Source;
use crate::token::{Credential, Token};

/// How a [`Server`] listens.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// The port; 0 picks a free one.
    pub port: u16,
    /// The address or name to listen on; loopback if `None`.
    pub host: Option<String>,
    /// Show this machine's source files and instructions even if other machines can reach the server.
    pub code_beyond_loopback: bool,
}

/// What the page shows instead of code when [`ServeOptions::code_beyond_loopback`] would be needed.
const NO_CODE: &str = "Source files and instructions of the viewer's machine are not shown to other machines. \
                       `flamelet view --serve-sources` shows them.";

/// A server that listens on loopback, unless told otherwise, and shows a [`Source`] to every client with its token,
/// which is part of [`Server::url`].
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    address: SocketAddr,
    checks: Arc<AccessChecks>,
    router: Router,
}

impl Server {
    /// Starts to listen, and to compute what a page requests first. Requests are answered once [`Server::run`] is
    /// called.
    pub fn bind(source: Source, options: &ServeOptions) -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let listener = match &options.host {
            None => runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)))?,
            Some(host) => runtime.block_on(TcpListener::bind((host.as_str(), options.port)))?,
        };
        let address = listener.local_addr()?;
        let is_open = address.ip().is_loopback() || options.code_beyond_loopback;
        let source = if is_open { source } else { source.without_code(NO_CODE) };
        let checks = Arc::new(AccessChecks {
            names: OwnNames { given: options.host.clone() },
            token: Token::random(address.port())?,
        });
        let guard = {
            let checks = Arc::clone(&checks);
            middleware::from_fn(move |request: Request, next: Next| guard(Arc::clone(&checks), request, next))
        };
        let cache = Arc::new(Cache::new(source));
        let prepared = Arc::clone(&cache);
        runtime.spawn_blocking(move || prepared.prepare());
        Ok(Self { runtime, listener, address, checks, router: router_of(cache).layer(guard) })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL to open in a browser on this machine. Its token is all that a client needs, and no client gets
    /// in without it.
    pub fn url(&self) -> String {
        self.address_with(&self.checks.token.query())
    }

    /// Returns a URL to pass to a program that opens it. Other users of this machine can see the program's arguments,
    /// so it has, instead of the token, a ticket that works once.
    pub fn url_once(&self) -> String {
        self.address_with(&self.checks.token.query_once().unwrap_or_default())
    }

    fn address_with(&self, query: &str) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        format!("http://{address}/?{query}")
    }

    /// Answers requests until the process ends.
    pub fn run(self) -> Result<(), Error> {
        Ok(self.runtime.block_on(async { axum::serve(self.listener, self.router).await })?)
    }
}

/// The host names, besides addresses, that requests to a server may use: only names can be made to point here. Any
/// port is accepted, since it may have been forwarded.
struct OwnNames {
    /// The name that the server was told to listen on.
    given: Option<String>,
}

impl OwnNames {
    /// Returns whether `host` is allowed.
    fn include(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => name,
            _ => host,
        };
        let is_address = || match name.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').is_some_and(|bare| bare.parse::<Ipv6Addr>().is_ok()),
            None => name.parse::<Ipv4Addr>().is_ok(),
        };
        let mut names = ["localhost"].into_iter().chain(self.given.as_deref());
        is_address() || names.any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// The checks that a request has to pass.
struct AccessChecks {
    names: OwnNames,
    token: Token,
}

/// Admits requests that name this server as users do and carry its token. A page on the internet that points its host
/// name at this machine (DNS rebinding) still sends its own name; other users of this machine do not have the token.
async fn guard(checks: Arc<AccessChecks>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !checks.names.include(host) {
        let refusal = "unknown host name; open the viewer by its IP address or as localhost";
        return failure(StatusCode::FORBIDDEN, refusal);
    }
    match checks.token.credential_in(request.uri(), request.headers()) {
        Credential::Nothing => {
            let refusal =
                "the token is missing or wrong; open the whole URL that flamelet printed, with its ?token=";
            failure(StatusCode::FORBIDDEN, refusal)
        }
        Credential::Token => next.run(request).await,
        Credential::Address => {
            let mut response = next.run(request).await;
            if let Ok(cookie) = checks.token.cookie().parse() {
                response.headers_mut().append(header::SET_COOKIE, cookie);
            }
            response
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_names(given: Option<&str>, own: &[&str], others: &[&str]) {
        let names = OwnNames { given: given.map(str::to_owned) };
        own.iter().for_each(|own| assert!(names.include(own), "{own}"));
        others.iter().for_each(|other| assert!(!names.include(other), "{other}"));
    }

    #[test]
    fn only_addresses_and_the_servers_own_names_pass() {
        let own =
            ["127.0.0.1:4000", "localhost:4000", "LOCALHOST", "[::1]:4000", "10.1.2.3:4001", "[fe80::1]"];
        let others = [
            "",
            ":4000",
            "evil.example:4000",
            "127.0.0.1.evil.example:4000",
            "localhost.evil.example",
            "[::1",
        ];
        assert_names(None, &own, &others);
        assert_names(None, &[], &["build-7:4000", "::1", "[127.0.0.1]:4000", "127.1:4000", "0x7f000001"]);
    }

    #[test]
    fn a_server_answers_to_the_name_that_it_was_given() {
        assert_names(Some("build-7"), &["Build-7:4000", "build-7:9000"], &["build-70", "evil.example:4000"]);
    }
}
