//! Blocks: the profiles of one service and one hour as four Parquet files, which other engines read too.
//!
//! [`tables`] is a block in memory and [`build`] makes one of profiles; [`files`] and [`samples`] say which columns the files have,
//! and read and write them with [`columns`]; [`stream`] reads a block a number of rows at a time, and [`join`] makes one of
//! several; [`rollup`] adds up what long ranges need; [`pages`] refuses files that claim to be larger than they are.

use flamelet_profile::Limits;

mod build;
mod columns;
mod damaged;
mod files;
mod join;
mod pages;
mod rollup;
mod samples;
mod stream;
mod tables;

/// The memory for making one block of profiles. Whoever reads it needs as much for its tables, and again for what they
/// select.
pub(crate) const MEMORY: Limits = Limits::of_memory(160 << 20);
/// The memory for making one block of several.
pub(crate) const JOINING: Limits = Limits::of_memory(256 << 20);

pub(crate) use build::{BlockBuilder, cost};
pub(crate) use files::{NAMES, Written, read_series, write};
pub(crate) use join::{Keeps, join};
pub(crate) use rollup::{HOUR_FILE, MINUTES_FILE, MinuteRow, read_minutes};
pub(crate) use stream::Block;
pub(crate) use tables::{BlockTables, CodeLocation, SampleRow};
