//! wip
mod address;
pub mod buildid;
#[cfg(feature = "debuginfod")]
mod debuginfod;
pub mod demangle;
mod dwarf;
mod elf;
mod error;
mod file;
mod kernel;
mod limits;
pub mod locate;
mod names;
pub mod process;
pub mod symbolize;
mod symbols;

pub use address::MappedAt;
pub use error::{Error, ErrorKind, Result};
pub use limits::Limits;
