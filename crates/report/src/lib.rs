//! Answers about a profile as data, and their output as text, files and web page.
//!
//! A report takes [`ReportOptions`] and has two steps: [`Report::new`] prepares the profile (filters, granularity,
//! names), and the module of an answer computes it as data, which serializes to JSON.
//!
//! | question | answer |
//! |---|---|
//! | which functions cost most | [`top`] |
//! | whose code costs most: your functions, crates, threads | [`by`] |
//! | what stands out, and what usually helps | [`explain`] |
//! | which functions call a function, and which does it call | [`tree`], [`graph`] |
//! | every stack | [`traces`] |
//! | by label | [`labels`] |
//! | down to lines and instructions | [`list`], [`disasm`] |
//! | what changed, and is it more than noise | [`diff`] |
//! | what holds memory, what frees it, how long it lives, what grows | [`heap`] |
//! | what is this file and how good is it | [`info`] |
//!
//! [`text`] formats the answers for a terminal, [`files`] writes those for other programs, and [`page`] prepares them
//! for the viewer. [`flame`] lays out flame graphs. A service links only what `page` and `flame` need; the rest is
//! behind the feature `text`, which is on by default.

#[macro_use]
mod serialize;

#[cfg(feature = "text")]
pub mod by;
#[cfg(feature = "text")]
pub mod diff;
#[cfg(feature = "text")]
pub mod disasm;
#[cfg(feature = "text")]
pub mod explain;
#[cfg(feature = "text")]
pub mod files;
pub mod flame;
#[cfg(feature = "text")]
pub mod fold;
pub mod graph;
pub mod heap;
pub mod info;
pub mod labels;
#[cfg(feature = "text")]
pub mod list;
#[cfg(feature = "text")]
mod mine;
pub mod names;
mod observations;
#[cfg(feature = "text")]
mod options;
pub mod page;
#[cfg(feature = "text")]
mod report;
pub mod stacks;
#[cfg(feature = "text")]
pub mod text;
#[cfg(feature = "text")]
pub mod top;
#[cfg(feature = "text")]
pub mod traces;
#[cfg(feature = "text")]
pub mod tree;
#[cfg(feature = "text")]
mod utc;
mod verdict;
pub mod xml;

/// Whose code a function is.
pub use flamelet_symbol::owner::{Owner, Owners};

/// The data model, for crates that depend on this one.
pub use flamelet_profile as profile;
#[cfg(feature = "text")]
pub use mine::Mine;
#[cfg(feature = "text")]
pub use options::{FILTER, OPTIONS, ReportKind, ReportOption, ReportOptions, Sort, parse_switch};
#[cfg(feature = "text")]
pub use report::{Measure, Report, sample_index};
#[cfg(feature = "text")]
pub use utc::utc;
