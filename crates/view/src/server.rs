//! The viewer's own server, for one person on one machine.

use std::net::{Ipv4Addr, SocketAddr};
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
#[derive(Clone, Copy, Debug, Default)]
pub struct ServeOptions {
    /// The port on loopback; 0 takes one that is free.
    pub port: u16,
}

/// A server that listens on loopback and shows a [`Source`].
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
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)))?;
        let address = listener.local_addr()?;
        let guard =
            middleware::from_fn(move |request: Request, next: Next| guard(address.port(), request, next));
        let desk = Arc::new(Desk::new(source));
        let prepared = Arc::clone(&desk);
        runtime.spawn_blocking(move || prepared.prepare());
        Ok(Self { runtime, listener, address, router: router_of(desk).layer(guard) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What to open in a browser.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Answers until the process ends.
    pub fn run(self) -> Result<(), Error> {
        Ok(self.runtime.block_on(async { axum::serve(self.listener, self.router).await })?)
    }
}

/// Lets requests through that name this server as people do. A page on the internet that had its name point
/// to this machine (DNS rebinding) still sends its own name.
async fn guard(port: u16, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if is_own_name(host, port) {
        return next.run(request).await;
    }
    failure(StatusCode::FORBIDDEN, "this server only answers to its own name: open it as http://127.0.0.1")
}

fn is_own_name(host: &str, port: u16) -> bool {
    let (name, given) = match host.rsplit_once(':') {
        Some((name, given)) if given.chars().all(|c| c.is_ascii_digit()) => (name, given.parse().ok()),
        _ => (host, Some(80)),
    };
    matches!(name, "127.0.0.1" | "localhost" | "[::1]") && given == Some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_servers_own_names_pass() {
        for own in ["127.0.0.1:4000", "localhost:4000", "[::1]:4000"] {
            assert!(is_own_name(own, 4000), "{own}");
        }
        for other in
            ["", "localhost", "127.0.0.1:4001", "evil.example:4000", "127.0.0.1.evil.example:4000", "[::1"]
        {
            assert!(!is_own_name(other, 4000), "{other}");
        }
    }
}
