//! The function, file and line of an address.

use std::sync::Arc;

/// One function at an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The demangled name.
    pub name: Arc<str>,
    /// The mangled name in the binary.
    pub system_name: Arc<str>,
    /// The source file, empty if unknown.
    pub file: Arc<str>,
    /// The line where the function starts, 0 if unknown.
    pub start_line: u32,
    /// The line, 0 if unknown.
    pub line: u32,
    /// The column, 0 if unknown.
    pub column: u32,
}
