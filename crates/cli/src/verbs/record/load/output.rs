//! The output of a program, passed on and looked at.

use std::io::{PipeReader, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flamelet_profile::terminal;

/// Passes everything from `from` on to `to`, and shows it to `look`, on a thread of its own.
pub(super) fn copy(
    mut from: PipeReader,
    mut to: impl Write + Send + 'static,
    mut look: impl FnMut(&[u8]) + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("flamelet-output".to_owned()).spawn(move || {
        let mut bytes = [0; 8 << 10];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            look(&bytes[..length]);
            // A closed terminal must not stop the program that prints.
            let _ = to.write_all(&bytes[..length]).and_then(|()| to.flush());
        }
    })
}

/// Waits until everything is passed on, but not forever: processes that outlive a program keep its output open.
pub(super) fn wait_for(copying: &mut Vec<JoinHandle<()>>) {
    const LONGEST: Duration = Duration::from_secs(3);
    let began = Instant::now();
    while copying.iter().any(|thread| !thread.is_finished()) && began.elapsed() < LONGEST {
        std::thread::park_timeout(Duration::from_millis(5));
    }
    copying.clear();
}

/// The last output of a program.
#[derive(Clone, Default)]
pub(super) struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    const MOST: usize = 4 << 10;

    pub(super) fn add(&self, bytes: &[u8]) {
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(bytes);
        let excess = tail.len().saturating_sub(Self::MOST);
        tail.drain(..excess);
    }

    /// Returns the last line with anything in it, safe to print.
    pub(super) fn last_line(&self) -> String {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&tail);
        let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        terminal::one_line(line.trim(), Self::MOST)
    }
}

/// Looks for a text that may come in pieces.
pub(super) struct Search {
    text: Vec<u8>,
    /// The end of what was seen, one byte shorter than the text at most.
    before: Vec<u8>,
}

impl Search {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.as_bytes().to_vec(), before: Vec::new() }
    }

    /// Returns whether the text ends in this piece.
    pub(super) fn is_in(&mut self, piece: &[u8]) -> bool {
        self.before.extend_from_slice(piece);
        let found = self.before.windows(self.text.len().max(1)).any(|window| window == self.text);
        let excess = self.before.len().saturating_sub(self.text.len().saturating_sub(1));
        self.before.drain(..excess);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_across_pieces() {
        let mut search = Search::new("ready");
        let found: Vec<bool> =
            ["xre", "ad", "y!", "reading", "ready"].map(|p| search.is_in(p.as_bytes())).into();
        assert_eq!(found, [false, false, true, false, true]);
    }

    #[test]
    fn the_last_line_is_kept() {
        let tail = Tail::default();
        assert_eq!(tail.last_line(), "");
        tail.add(&[b'x'; 10_000]);
        tail.add(b"\nsh: \x1b[1mwrk\x1b[0m: not found\n\n");
        assert_eq!(tail.last_line(), "sh:  [1mwrk [0m: not found");
        assert!(tail.0.lock().expect("no panic").len() <= Tail::MOST);
    }
}
