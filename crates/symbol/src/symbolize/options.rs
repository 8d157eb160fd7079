//! The input of a symbolizer: how to search, and which file the addresses belong to.

use crate::demangle::Demangle;
use crate::limits::Limits;
use crate::locate::Search;

/// How to symbolize.
#[derive(Clone, Debug, Default)]
pub struct SymbolizeOptions {
    /// Where to look for binaries and debug files.
    pub search: Search,
    /// What one file may cost, and how much the [`Symbolizer`](super::Symbolizer) may remember.
    pub limits: Limits,
    /// What all files of a profile may cost together. No further file is opened when it is used up; the last one may exceed
    /// it by its own limits. Without it, a profile may name any number of files.
    pub together: Option<Limits>,
    /// Whether to demangle names.
    pub demangle: Demangle,
    /// Symbolize locations again that already have lines.
    pub force: bool,
    /// From the debug files of the system's libraries (those below [`Search::debug_folders`]), take only the symbols
    /// and not the lines: a service does not need the lines of its C library, and reading them costs as much as all
    /// of its own.
    pub only_symbols_of_libraries: bool,
}

/// The file that addresses belong to, as a profile names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ModuleName {
    /// The path, or a name in brackets such as `[vdso]` or `[kernel.kallsyms]`.
    pub path: String,
    /// The build id in hexadecimal, empty if unknown.
    pub build_id: String,
}
