//! What an address is, for people.

use std::sync::Arc;

/// One function at an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The name for people, demangled.
    pub name: Arc<str>,
    /// The name in the binary, mangled.
    pub system_name: Arc<str>,
    /// The source file, empty when unknown.
    pub file: Arc<str>,
    /// The line where the function starts, 0 when unknown.
    pub start_line: u32,
    /// The line, 0 when unknown.
    pub line: u32,
    /// The column, 0 when unknown.
    pub column: u32,
}
