//! A progress line on standard error for anything that takes longer than a second, if that is a terminal.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A line that counts the seconds until it is dropped.
pub(crate) struct ProgressLine {
    is_done: Arc<AtomicBool>,
    ticker: Option<JoinHandle<()>>,
}

impl ProgressLine {
    /// Shows that `what` is in progress, and how long it will take if that is known.
    pub(crate) fn start(what: &str, expected: Option<Duration>) -> Self {
        let is_done = Arc::new(AtomicBool::new(false));
        if !std::io::stderr().is_terminal() {
            return Self { is_done, ticker: None };
        }
        let (what, is_over) = (crate::note::escaped(what).into_owned(), Arc::clone(&is_done));
        let ticker = std::thread::spawn(move || tick(&what, expected, &is_over));
        Self { is_done, ticker: Some(ticker) }
    }
}

fn tick(what: &str, expected: Option<Duration>, is_over: &AtomicBool) {
    let start = Instant::now();
    let mut next = Duration::from_secs(1);
    while !is_over.load(Ordering::Relaxed) {
        std::thread::park_timeout(next.saturating_sub(start.elapsed()));
        let elapsed = start.elapsed();
        if elapsed < next || is_over.load(Ordering::Relaxed) {
            continue;
        }
        next += Duration::from_secs(1);
        let seconds = elapsed.as_secs();
        let line = match expected.map(|expected| expected.as_secs()) {
            Some(expected @ 1..) => {
                let filled = (seconds.min(expected) * 20 / expected) as usize;
                format!("{what} [{}{}] {seconds}/{expected} s", "#".repeat(filled), ".".repeat(20 - filled))
            }
            _ => format!("{what} {seconds} s"),
        };
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }
    let _ = write!(std::io::stderr(), "\r\x1b[K");
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.is_done.store(true, Ordering::Relaxed);
        if let Some(ticker) = self.ticker.take() {
            ticker.thread().unpark();
            let _ = ticker.join();
        }
    }
}
