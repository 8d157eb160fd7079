//! Answers about a profile: as data, text, SVG and HTML.
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
//! | as a picture | [`flame`] |
//! | what changed, and is it more than noise | [`diff`] |
//! | what is this file and how good is it | [`info`] |

pub mod callgrind;
pub mod diff;
pub mod dot;
pub mod flame;
pub mod graph;
pub mod info;
pub mod node;
mod options;
pub mod raw;
mod report;
pub mod rust_names;
pub mod tags;
pub mod top;
pub mod traces;
pub mod tree;

pub use options::{Command, ReportOptions, Sort};
pub use report::{DIFF_BASE_LABEL, Report, sample_index, trim_source_path};
