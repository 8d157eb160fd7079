//! Maps addresses to functions, files, lines and inlined frames.
//!
//! There are three entry points:
//!
//! | to symbolize … | use |
//! |---|---|
//! | a whole profile | [`symbolize_profile`], or [`Symbolizer::symbolize_profile`] to reuse what was found |
//! | addresses of a mapped file | [`Symbolizer::frames`] |
//! | addresses of an ELF file that is already in memory | [`frames_in_elf`], which does no I/O |

mod core;
mod module;
mod options;
mod profile;
mod symbolizer;

pub use self::core::{Resolved, frames_in_elf};
pub use crate::frame::Frame;
pub use options::{ModuleName, SymbolizeOptions};
pub use profile::{MappingSummary, SymbolizeSummary, symbolize_profile};
pub use symbolizer::Symbolizer;
