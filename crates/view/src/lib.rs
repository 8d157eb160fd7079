//! The web viewer: a page that answers on any profile, and the server behind it.
//!
//! The layout stays here, in Rust: the page asks for the boxes of its viewport and draws them on a canvas.
//! The page itself is the one that [`flame::html`](flamelet_report::flame::html) writes to a file; its source
//! is `ui/`, and nothing but this crate is needed to serve it.
//!
//! | to … | use |
//! |---|---|
//! | show a profile, a folder or a live service in a browser | [`Server`] |
//! | put the viewer into a service's own router | [`router`] |
//!
//! # What keeps it safe
//!
//! [`Server`] listens on loopback only, unless [`ServeOptions::host`] names another place, and refuses requests for
//! any `Host` name that is not its own, so that a page on the internet cannot read a profile by DNS rebinding. No request names a file: profiles have ids that this crate
//! gave them. The page may run its own script and load from its own server, nothing else, and names in a
//! profile are only ever text. [`router`] alone checks no host names: the service that mounts it decides who
//! may ask.
//!
//! ```no_run
//! use flamelet_view::{ServeOptions, Server, Source};
//!
//! # fn profile() -> flamelet_report::flame::profile::Profile { Default::default() }
//! let server = Server::bind(Source::profile("cpu.pb.gz", profile()), &ServeOptions::default())?;
//! println!("{}", server.url());
//! server.run()?;
//! # Ok::<(), flamelet_view::Error>(())
//! ```

mod answers;
mod asker;
mod code;
mod desk;
mod error;
mod query;
mod routes;
mod server;
mod shape;
mod source;

pub use asker::Asker;
pub use code::{CodeOptions, Disassemble};
pub use error::{Error, ErrorKind};
pub use routes::router;
pub use server::{ServeOptions, Server};
pub use source::{HeapQuestion, Source, Take, Taken};
