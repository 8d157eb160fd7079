//! The servers to ask for debug files.

use std::path::PathBuf;

/// Servers that store debug files by build id (the debuginfod protocol).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    /// The base URLs; empty to ask no server.
    pub urls: Vec<String>,
    /// Where fetched files are stored; nothing is fetched without it.
    pub cache: Option<PathBuf>,
    /// How long one file may take in total; `None` for 90 seconds.
    pub timeout: Option<std::time::Duration>,
}
