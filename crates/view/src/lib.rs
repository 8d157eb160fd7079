//! The web viewer: a page that shows any profile, and the server behind it.
//!
//! The layout is computed in Rust: the page requests the boxes of its viewport and draws them on a canvas. The page
//! is the same one that [`page::html`](flamelet_report::page::html) writes to a file; its source is `ui/`, and this
//! crate alone is enough to serve it.
//!
//! | to … | use |
//! |---|---|
//! | show a profile, a folder or a live service in a browser | [`Server`] |
//! | put the viewer into a service's own router | [`router`] |
//!
//! # What keeps it safe
//!
//! [`Server`] listens on loopback only, unless [`ServeOptions::host`] names another address. It answers nothing
//! without the random token that is part of [`Server::url`], which other users of the machine, and other machines, do
//! not have. It refuses requests for any `Host` name that is not its own, so that a page on the internet cannot read
//! a profile by DNS rebinding. No request names a file: profiles have ids that this crate assigned. Source files are
//! shown only with [`Source::with_code`], and of those that a profile names only the ones that its own binary
//! confirms or that are below the source path; beyond loopback, none unless requested. The page may run its own
//! script and load from its own server, nothing else, and names in a profile are only ever treated as text.
//! [`router`] alone checks neither host names nor a token: the service that mounts it decides who has access.
//!
//! ```no_run
//! use flamelet_view::{ServeOptions, Server, Source};
//!
//! # fn profile() -> flamelet_report::profile::Profile { Default::default() }
//! let server = Server::bind(Source::profile("cpu.pb.gz", profile()), &ServeOptions::default())?;
//! println!("{}", server.url());
//! server.run()?;
//! # Ok::<(), flamelet_view::Error>(())
//! ```

mod answers;
mod cache;
mod cancel;
mod code;
mod folder;
mod lock;
mod memory;
mod past;
mod query;
mod requests;
mod routes;
mod server;
mod shape;
mod source;
mod taken;
mod token;
mod usage;

pub use cancel::CancelToken;
pub use code::{CodeOptions, Disassemble};
pub use flamelet_report::profile::{Error, ErrorKind, Result};
pub use memory::Memory;
pub use past::{Course, LabelValues, Past};
pub use requests::{LONGEST_REQUESTS, RequestTimes, Requests, RouteRequests};
pub use routes::{router, router_within};
pub use server::{ServeOptions, Server};
pub use source::{Source, Take, WaitKind};
pub use taken::{Taken, range_name};
pub use token::secret;
