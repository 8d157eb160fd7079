//! Blocks: the profiles of one service and one hour as four Parquet files, which other engines read too.
//!
//! [`tables`] is a block in memory and [`build`] makes one of profiles; [`files`] says which columns the files have, and
//! reads and writes them with [`columns`]; [`pages`] refuses files that claim to be larger than they are.

mod build;
mod columns;
mod damaged;
mod files;
mod pages;
mod tables;

pub(crate) use build::Builder;
pub(crate) use files::{NAMES, read, write};
pub(crate) use tables::{Location, Row, Tables};
