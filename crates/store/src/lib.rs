//! Profiles over time: the history of a service, in a folder.
//!
//! A [`Writer`] appends one window after another (ten seconds of CPU samples, say) to segments; a [`Reader`] makes a
//! [`Profile`](flamelet_profile::Profile) of any range of time, also in another process and while the writer runs.
//!
//! ```text
//!  window ─► Writer ─► history-0000000007.open                        being written
//!                      history-0000000006-1794706806-1794710406.segment   finished, named by what it covers
//!                      history-0000000006-1794706806-1794710406.sum       the sum of its windows
//!                      names-0f3a…-0000000007.names                   function names of a build
//!                      history.lock                                   held by the writer
//! ```
//!
//! # A segment
//!
//! A segment is a header and records; a record is a header with checksums and a compressed window ([`record`]).
//! Stacks, labels and strings are stored once a segment: a record holds the new rows of these tables and then numbers.
//! Stacks are trees of frames, and a frame is a build id and an offset in that file, never a name: names are looked
//! up when the history is read. Frames and stacks are identified by a 128-bit hash of these contents, so segments of
//! several runs (and machines) merge without agreeing on numbers.
//!
//! # What holds after a crash
//!
//! A window that [`Writer::append`] has acknowledged survives the end of the process at any later moment, by SIGKILL
//! too: its bytes are with the kernel. After a power failure, the last windows may be missing. A file is never
//! appended to by another process than the one that created it, so a torn record can only be the last of its segment.
//! Damaged records are skipped; a window is served only if its checksum and all rows that it refers to are good.
//!
//! # Responsibilities of the caller
//!
//! - Call [`Writer::append`] on a thread of its own: disks can be slow.
//! - When [`Writer::append`] fails, report it once and continue: each call tries again.

mod files;
mod fuzz;
mod names;
mod reader;
mod segment;
mod writer;

pub use files::folder::{is_history, lock, unlock};
pub use files::private;
#[doc(hidden)]
pub use fuzz::{example_bodies, fuzz_bodies, fuzz_segment};
pub use reader::cursor::{Cursor, Progress};
pub use reader::follow::{Follower, NextWindow, Position};
pub use reader::query::{KeepLabels, Query};
pub use reader::totals::EachTotal;
pub use reader::{Reader, Skipped};
pub use segment::hash::ContentHash;
pub use segment::kind::{HEAP, Kind};
pub use segment::record;
pub use writer::options::Options;
pub use writer::{Status, Writer};
