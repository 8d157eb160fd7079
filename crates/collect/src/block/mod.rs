//! Blocks: the profiles of one service and one hour as four Parquet files, which other engines read too.
//!
//! [`part`] is a profile in memory; [`tables`] is a block there, and [`build`] makes one of profiles; [`files`] and [`samples`] say which columns the files have,
//! and read and write them with [`columns`]; [`stream`] reads a block a number of rows at a time, and [`join`] makes one of
//! several; [`rollup`] adds up what long ranges need; [`shared`] has the code that blocks have in common; [`pages`] refuses files that claim to be larger than they are, with the structs in [`thrift`].

use flamelet_profile::Limits;

pub(crate) mod blocks;
mod build;
mod columns;
mod damaged;
mod files;
mod join;
pub(crate) mod manifest;
pub(crate) mod merge;
mod pages;
mod part;
pub(crate) mod programs;
pub(crate) mod read_parts;
mod rollup;
mod samples;
mod shared;
mod stream;
mod tables;
mod thrift;

/// The memory for making one block of profiles. Whoever reads it needs as much for its tables, and again for what they
/// select.
pub(crate) const MEMORY: Limits = Limits::of_memory(160 << 20);
/// The memory for making one block of several.
pub(crate) const JOINING: Limits = Limits::of_memory(256 << 20);

pub(crate) use build::{BlockBuilder, SharedStacks, cost};
pub(crate) use files::{NAMES, Written, read_series, write};
pub(crate) use join::{Keeps, join};
#[cfg(test)]
pub(crate) use part::PartRow;
pub(crate) use part::{CodeStack, Part, Pool};
pub(crate) use rollup::{HOUR_FILE, MINUTES_FILE, MinuteRow, read_minutes};
pub(crate) use shared::{SHARED_NAMES, read_shared, write_shared};
pub(crate) use stream::Block;
pub(crate) use tables::{BlockTables, CodeLocation, SampleRow, SharedCode};
