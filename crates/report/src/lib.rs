//! Answers about a profile: as data, text, SVG and HTML.
//!
//! [`flame`] is all that a service needs; the rest is behind the feature `text`, which is on by default.
//!
//! A report is asked for with [`ReportOptions`] and made in two steps: [`Report::new`] brings the profile into
//! shape (filters, granularity, names), and a module a report gives the answer as data that can be printed as
//! text (in `go tool pprof`'s columns) or serialized as JSON.
//!
//! | question | module |
//! |---|---|
//! | which functions cost most | [`top`] |
//! | who calls them, whom do they call | [`tree`] |
//! | as a graph for Graphviz or KCachegrind | [`dot`], [`callgrind`] |
//! | every stack | [`traces`], [`raw`] |
//! | by label | [`tags`] |
//! | down to lines and instructions | [`list`], [`disasm`] |
//! | as a picture | [`flame`], [`picture`] |
//! | what changed, and is it more than noise | [`diff`] |
//! | who holds memory, frees it, how long it lives, what grows | [`heap`] |
//! | what is this file and how good is it | [`info`] |

#[cfg(feature = "text")]
pub mod callgrind;
#[cfg(feature = "text")]
pub mod diff;
#[cfg(feature = "text")]
pub mod disasm;
#[cfg(feature = "text")]
pub mod dot;
pub mod flame;
#[cfg(feature = "text")]
pub mod graph;
#[cfg(feature = "text")]
pub mod heap;
#[cfg(feature = "text")]
pub mod info;
#[cfg(feature = "text")]
pub mod list;
#[cfg(feature = "text")]
pub mod node;
#[cfg(feature = "text")]
mod options;
mod paths;
#[cfg(feature = "text")]
pub mod picture;
#[cfg(feature = "text")]
pub mod raw;
#[cfg(feature = "text")]
mod report;
pub mod rust_names;
#[cfg(feature = "text")]
pub mod tags;
#[cfg(feature = "text")]
pub mod top;
#[cfg(feature = "text")]
pub mod traces;
#[cfg(feature = "text")]
pub mod tree;
#[cfg(feature = "text")]
mod utc;
mod xml;

#[cfg(feature = "text")]
pub use options::{Command, ReportOptions, Sort};
#[cfg(feature = "text")]
pub use report::{DIFF_BASE_LABEL, Report, sample_index, trim_source_path};
#[cfg(feature = "text")]
pub use utc::utc;
