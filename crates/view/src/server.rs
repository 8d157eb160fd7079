//! The viewer's own server, for one person on one machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use crate::desk::Desk;
use crate::error::Error;
use crate::routes::{failure, router_of};
use crate::source::Source;

/// How a [`Server`] listens.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// The port; 0 takes one that is free.
    pub port: u16,
    /// The address or name to listen on; loopback without one. Whoever reaches another one sees the profiles.
    pub host: Option<String>,
}

/// A server that listens on loopback, unless it is told otherwise, and shows a [`Source`].
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
}

impl Server {
    /// Starts to listen, and to work out what a page asks for first. Requests are answered from
    /// [`Server::run`] on.
    pub fn bind(source: Source, options: &ServeOptions) -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let listener = match &options.host {
            None => runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)))?,
            Some(host) => runtime.block_on(TcpListener::bind((host.as_str(), options.port)))?,
        };
        let address = listener.local_addr()?;
        let names = Arc::new(OwnNames::new(address, options.host.as_deref()));
        let guard =
            middleware::from_fn(move |request: Request, next: Next| guard(Arc::clone(&names), request, next));
        let desk = Arc::new(Desk::new(source));
        let prepared = Arc::clone(&desk);
        runtime.spawn_blocking(move || prepared.prepare());
        Ok(Self { runtime, listener, address, router: router_of(desk).layer(guard) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What to open in a browser on this machine.
    pub fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        format!("http://{address}/")
    }

    /// Answers until the process ends.
    pub fn run(self) -> Result<(), Error> {
        Ok(self.runtime.block_on(async { axum::serve(self.listener, self.router).await })?)
    }
}

/// The names by which a server may be asked for.
struct OwnNames {
    port: u16,
    /// The name that it was told to listen on.
    given: Option<String>,
    is_loopback: bool,
}

impl OwnNames {
    fn new(address: SocketAddr, given: Option<&str>) -> Self {
        Self {
            port: address.port(),
            given: given.map(str::to_owned),
            is_loopback: address.ip().is_loopback(),
        }
    }

    /// Whether `host` is one. Where others may ask, any address will do: only names can be made to point here.
    fn include(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => (name, port.parse().ok()),
            _ => (host, Some(80)),
        };
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let is_address = || !self.is_loopback && bare.parse::<IpAddr>().is_ok();
        let is_given = || self.given.as_deref().is_some_and(|given| given.eq_ignore_ascii_case(bare));
        let is_own = matches!(name, "127.0.0.1" | "localhost" | "[::1]") || is_address() || is_given();
        is_own && port == Some(self.port)
    }
}

/// Lets requests through that name this server as people do. A page on the internet that had its name point
/// to this machine (DNS rebinding) still sends its own name.
async fn guard(names: Arc<OwnNames>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if names.include(host) {
        return next.run(request).await;
    }
    let way_out = if names.is_loopback { "open it as http://127.0.0.1" } else { "open it by its IP address" };
    failure(StatusCode::FORBIDDEN, &format!("this server only answers to its own name: {way_out}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(address: &str, given: Option<&str>) -> OwnNames {
        OwnNames::new(address.parse().unwrap(), given)
    }

    #[test]
    fn only_the_servers_own_names_pass() {
        let names = names("127.0.0.1:4000", None);
        for own in ["127.0.0.1:4000", "localhost:4000", "[::1]:4000"] {
            assert!(names.include(own), "{own}");
        }
        for other in [
            "",
            "localhost",
            "127.0.0.1:4001",
            "10.0.0.1:4000",
            "evil.example:4000",
            "127.0.0.1.evil.example:4000",
            "[::1",
        ] {
            assert!(!names.include(other), "{other}");
        }
    }

    #[test]
    fn a_server_for_others_answers_to_addresses_and_to_the_name_that_it_was_given() {
        let names = names("0.0.0.0:4000", Some("build-7"));
        for own in ["127.0.0.1:4000", "localhost:4000", "10.1.2.3:4000", "[fe80::1]:4000", "Build-7:4000"] {
            assert!(names.include(own), "{own}");
        }
        for other in ["evil.example:4000", "10.1.2.3:4001", "10.1.2.3.evil.example:4000"] {
            assert!(!names.include(other), "{other}");
        }
    }
}
