//! The endpoints on a port of their own: one line for any service, whatever HTTP server it has, if any.
//!
//! ```no_run
//! # fn main() -> Result<(), flamelet::Error> {
//! flamelet::serve("127.0.0.1:6060")?;
//! # Ok(())
//! # }
//! ```
//!
//! The server is a small one of flamelet's, on threads of its own: it needs no async runtime and shares nothing with the
//! service's own server. Limits, [`Handler::authorize`] and [`Handler::hosts`] hold as they do under axum.
//!
//! | address | listens |
//! |---|---|
//! | `127.0.0.1:6060`, `[::1]:6060`, `localhost:6060` | on a port; with port 0 on a free one, see [`Server::address`] |
//! | `unix:/run/checkout/pprof.sock` | on a Unix socket that only the service's own user can open |
//!
//! The web viewer is not part of it: `flamelet view http://127.0.0.1:6060` opens the profiles of such a service.
//!
//! # Your responsibilities
//!
//! - Listen on loopback, on a Unix socket or in a network that you would trust with a debugger; anywhere else, use
//!   [`Handler::authorize`].
//! - A server on loopback answers only requests for `localhost` or for an IP address, so that a web page whose host name
//!   points at the user's own machine cannot read profiles. For a proxy that passes on its own `Host`, name it with
//!   [`Handler::hosts`].

mod connection;
mod head;
mod listener;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::http::Handler;
use crate::{Error, ErrorKind, Profiler, Result};
use listener::{Listener, Stream};

/// How many connections are served at the same time, besides the captures that the profiler allows.
const SPARE_CONNECTIONS: usize = 48;

/// How long to wait after a connection could not be accepted, for lack of file descriptors for instance.
const PAUSE: Duration = Duration::from_millis(100);

/// The variable that [`Profiler::serve_env`] reads.
const VARIABLE: &str = "FLAMELET_LISTEN";

/// Starts a profiler with default options and serves its endpoints at `address`, see the [module](mod@crate::serve).
///
/// The server runs until the process ends; the returned [`Server`] can be dropped.
///
/// ```no_run
/// # fn main() -> Result<(), flamelet::Error> {
/// let server = flamelet::serve("127.0.0.1:0")?;
/// println!("profiles at http://{}/debug/pprof/", server.address());
/// # Ok(())
/// # }
/// ```
pub fn serve(address: impl AsRef<str>) -> Result<Server> {
    Profiler::builder().start()?.serve(address)
}

impl Profiler {
    /// Serves the endpoints of this profiler at `address`, on threads of their own, see the
    /// [module](mod@crate::serve).
    pub fn serve(&self, address: impl AsRef<str>) -> Result<Server> {
        Handler::new(self.clone()).serve(address)
    }

    /// Serves where the environment variable `FLAMELET_LISTEN` says; does nothing and returns `None` if it is not set
    /// or empty.
    pub fn serve_env(&self) -> Result<Option<Server>> {
        match std::env::var(VARIABLE) {
            Ok(address) if address.is_empty() => Ok(None),
            Ok(address) => {
                let served = self.serve(address);
                served.map(Some).map_err(|error| Error::new(error.kind(), format!("{VARIABLE}: {error}")))
            }
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(error) => Err(Error::invalid(format!("{VARIABLE}: {error}"))),
        }
    }
}

impl Handler {
    /// Serves the endpoints of this handler at `address`, on threads of their own, see the
    /// [module](mod@crate::serve).
    ///
    /// ```no_run
    /// # fn example(profiler: flamelet::Profiler) -> Result<(), flamelet::Error> {
    /// let handler = flamelet::http::Handler::new(profiler).authorize(|request| {
    ///     request.headers.get("authorization").is_some_and(|token| token == "Bearer secret")
    /// });
    /// handler.serve("10.0.0.5:6060")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn serve(self, address: impl AsRef<str>) -> Result<Server> {
        let (address, most) = (address.as_ref(), self.profiler().limits().max_captures + SPARE_CONNECTIONS);
        let listener = Listener::bind(address)?;
        let server = Server { address: listener.address(), state: Arc::default() };
        let state = server.state.clone();
        let accept = move || accept_all(&listener, &self, &state, most);
        match flamelet_capture::own_threads::spawn("flamelet-serve", accept) {
            Ok(_) => Ok(server),
            Err(error) => {
                Err(Error::new(ErrorKind::Denied, format!("no thread to serve {address}: {error}")))
            }
        }
    }
}

/// A running server of profiles, see [`serve`]. Dropping this value does not stop the server.
pub struct Server {
    address: Address,
    state: Arc<ServerState>,
}

/// Where a server listens, as a client writes it: `127.0.0.1:6060` or `unix:/run/pprof.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Tcp(SocketAddr),
    #[cfg(unix)]
    Unix(std::path::PathBuf),
}

#[derive(Default)]
struct ServerState {
    is_ending: AtomicBool,
    connections: AtomicUsize,
}

impl Server {
    /// Returns where the server listens: `127.0.0.1:6060`, with the port that the system chose for port 0, or
    /// `unix:/run/pprof.sock`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Stops listening. Requests in progress are still answered; [`Profiler::shutdown`] ends those early.
    pub fn shutdown(&self) {
        self.state.is_ending.store(true, Ordering::Release);
        // The thread waits for a connection, so it gets one.
        self.address.knock();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            #[cfg(unix)]
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

fn accept_all(listener: &Listener, handler: &Handler, state: &Arc<ServerState>, most: usize) {
    let is_loopback = listener.is_loopback();
    loop {
        let accepted = listener.accept();
        if state.is_ending.load(Ordering::Acquire) {
            return listener.close();
        }
        match accepted {
            Ok(stream) => start_connection(stream, handler, state, most, is_loopback),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Serves the connection on a thread of its own, unless there are too many.
fn start_connection(
    stream: Stream,
    handler: &Handler,
    state: &Arc<ServerState>,
    most: usize,
    is_loopback: bool,
) {
    let held = Held::new(state);
    if state.connections.load(Ordering::Relaxed) > most {
        return connection::refuse_busy(stream, most);
    }
    let handler = handler.clone();
    let serve = move || {
        let _held = held;
        connection::serve(stream, &handler, is_loopback);
    };
    // Without a thread, the connection is closed without an answer.
    drop(flamelet_capture::own_threads::spawn("flamelet-conn", serve));
}

/// Counts a connection as long as it lives.
struct Held(Arc<ServerState>);

impl Held {
    fn new(state: &Arc<ServerState>) -> Self {
        state.connections.fetch_add(1, Ordering::Relaxed);
        Self(state.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
