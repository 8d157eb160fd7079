//! Whom to ask for debug files.

use std::path::PathBuf;

/// Servers that know debug files by build id (the debuginfod protocol).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    /// The base addresses; empty to ask nobody.
    pub urls: Vec<String>,
    /// Where fetched files are kept; nothing is fetched without it.
    pub cache: Option<PathBuf>,
    /// How long one file may take in all; `None` for 90 seconds.
    pub timeout: Option<std::time::Duration>,
}
