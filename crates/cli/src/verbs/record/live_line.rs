//! The line on the terminal that shows how a recording is going.

use std::io::{IsTerminal, Write};

use terminal_size::{Height, Width, terminal_size_of};

/// A line that is rewritten in place, on standard error if that is a terminal. If the recorded program may write to
/// the same terminal, the line occupies the last row, and everything else scrolls above it.
pub(crate) struct LiveLine {
    is_watched: bool,
    has_own_row: bool,
    /// The row that is reserved, if any.
    row: Option<u16>,
}

impl LiveLine {
    /// With `is_shared`, other programs write to the same terminal.
    pub(crate) fn new(is_shared: bool) -> Self {
        let is_watched = std::io::stderr().is_terminal();
        Self { is_watched, has_own_row: is_shared && std::io::stdout().is_terminal(), row: None }
    }

    /// Shows `text` in place of what was shown before.
    pub(crate) fn show(&mut self, text: &str) {
        if !self.is_watched {
            return;
        }
        let Some((Width(columns), Height(rows))) = terminal_size_of(std::io::stderr()) else { return };
        let text: String =
            crate::note::escaped(text).chars().take(usize::from(columns.saturating_sub(1))).collect();
        let _ = if self.has_own_row && rows > 5 {
            let reserved = if self.row == Some(rows) { String::new() } else { reserve(rows) };
            self.row = Some(rows);
            // Put the cursor back where the program left it.
            write!(std::io::stderr(), "{reserved}\x1b7\x1b[{rows};1H\x1b[K{text}\x1b8")
        } else {
            write!(std::io::stderr(), "\r\x1b[K{text}")
        };
    }
}

/// Limits scrolling to the rows above the last one.
fn reserve(rows: u16) -> String {
    // A new line first: the cursor may be in the last row.
    format!("\n\x1b7\x1b[1;{}r\x1b8\x1b[1A", rows - 1)
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        if !self.is_watched {
            return;
        }
        let _ = match self.row {
            Some(row) => write!(std::io::stderr(), "\x1b7\x1b[r\x1b[{row};1H\x1b[K\x1b8"),
            None => write!(std::io::stderr(), "\r\x1b[K"),
        };
    }
}
