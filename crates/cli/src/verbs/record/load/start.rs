//! Decides when a load starts.

use std::process::Command;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flamelet_record::processes::listening::{Endpoint, endpoints, started_by_us};

use super::Args;
use super::output::{Search, copy, wait_for};
use crate::error::{Failure, Result};

/// When to start the load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoadAfter {
    /// The command prints this text.
    Text(String),
    /// The command listens on this port.
    Port(u16),
    /// This much time has passed.
    Time(Duration),
}

impl std::str::FromStr for LoadAfter {
    type Err = String;

    /// Reads `:80` or `8080` (a port), `2s`, `500ms`, `2m` or `5` (a time; seconds without a unit), or a text. Whole
    /// numbers from [`FIRST_PORT`] on are ports.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err(
                "use a port such as :8080, a time such as 2s, or a text that the command prints".to_owned()
            );
        }
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let port = text.strip_prefix(':').filter(|port| is_number(port));
        if let Some(number) = port.or(Some(text).filter(|text| is_number(text))) {
            let number = number.parse::<u64>().ok();
            if port.is_some() || number.is_none_or(|number| number >= FIRST_PORT) {
                let port = number.and_then(|number| u16::try_from(number).ok()).filter(|&port| port != 0);
                return port.map(Self::Port).ok_or_else(|| "not a port; write a time as 2s".to_owned());
            }
        }
        match time(text) {
            Some(time) => time.map(Self::Time),
            None => Ok(Self::Text(text.to_owned())),
        }
    }
}

/// The first port that servers without privileges use; smaller numbers are seconds.
const FIRST_PORT: u64 = 1024;

/// Reads a number of seconds, or a number with a unit; `None` for anything else.
fn time(text: &str) -> Option<Result<Duration, String>> {
    let unit_at = text.find(|char: char| char.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let number: f64 = number.trim_end().parse().ok()?;
    Some(Duration::try_from_secs_f64(number * factor).map_err(|_| "not a time; write it as 2s".to_owned()))
}

/// For how long to wait until the command listens on any port: it may be no server.
const PATIENCE: Duration = Duration::from_secs(5);

/// Knows when what is recorded is ready for the load.
pub(super) struct Readiness {
    starting: Starting,
    text: Option<String>,
    copying: Mutex<Vec<JoinHandle<()>>>,
}

/// The part of it that waits.
#[derive(Clone)]
pub(super) struct Starting {
    after: Option<LoadAfter>,
    /// `None` for a command.
    pids: Option<Vec<u32>>,
    /// The command has printed the text.
    has_text: Arc<AtomicBool>,
}

impl Readiness {
    pub(super) fn new(args: &Args) -> Result<Self> {
        let text = match &args.load_after {
            Some(LoadAfter::Text(_)) if args.command.is_empty() => {
                return Err(Failure::new(
                    "--load-after TEXT reads the output of a command after --; use a port such as :8080 or a time such as 2s",
                ));
            }
            Some(LoadAfter::Text(text)) => Some(text.clone()),
            _ => None,
        };
        // What runs already is ready.
        let is_running = args.command.is_empty() && args.load_after.is_none();
        let after = if is_running { Some(LoadAfter::Time(Duration::ZERO)) } else { args.load_after.clone() };
        let pids = match args.command.is_empty() {
            true => Some(super::super::processes(&args.pid)?),
            false => None,
        };
        let starting = Starting { after, pids, has_text: Arc::default() };
        Ok(Self { starting, text, copying: Mutex::default() })
    }

    pub(super) fn starting(&self) -> Starting {
        self.starting.clone()
    }

    /// Reads the output of the command, which is passed on.
    pub(super) fn watch_output(&self, command: &mut Command) -> Result<()> {
        let Some(text) = &self.text else { return Ok(()) };
        let look = || {
            let (mut search, has_text) = (Search::new(text), self.starting.has_text.clone());
            move |bytes: &[u8]| {
                if search.is_in(bytes) {
                    has_text.store(true, Ordering::Relaxed);
                }
            }
        };
        let (output, their_output) = std::io::pipe()?;
        let (errors, their_errors) = std::io::pipe()?;
        command.stdout(their_output).stderr(their_errors);
        let threads = [copy(output, std::io::stdout(), look())?, copy(errors, std::io::stderr(), look())?];
        self.copying.lock().unwrap_or_else(PoisonError::into_inner).extend(threads);
        Ok(())
    }

    /// Waits until the output is passed on.
    pub(super) fn end(&self) {
        wait_for(&mut self.copying.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Starting {
    /// Returns why the load can start now, if it can.
    pub(super) fn reason(&self, began: Instant) -> Option<String> {
        match &self.after {
            Some(LoadAfter::Time(time)) => (began.elapsed() >= *time).then(|| "as asked".to_owned()),
            Some(LoadAfter::Text(text)) => {
                let has_text = self.has_text.load(Ordering::Relaxed);
                has_text.then(|| format!("the command printed {text:?}"))
            }
            Some(LoadAfter::Port(port)) => self.listens_on(|endpoint| *endpoint == Endpoint::Port(*port)),
            None => self.listens_on(|_| true).or_else(|| {
                let is_late = began.elapsed() >= PATIENCE;
                is_late.then(|| {
                    note!(
                        "flamelet: the command listens on no port after {} s; the load starts now (--load-after says when)",
                        PATIENCE.as_secs()
                    );
                    "the command listened on no port".to_owned()
                })
            }),
        }
    }

    fn listens_on(&self, is_wanted: impl Fn(&Endpoint) -> bool) -> Option<String> {
        let found = match &self.pids {
            Some(pids) => endpoints(pids),
            None => endpoints(&started_by_us()),
        };
        found.into_iter().find(is_wanted).map(|endpoint| format!("the command listens on {endpoint}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_times_and_texts() {
        let read = |text: &str| text.parse::<LoadAfter>();
        for (text, port) in [("8080", 8080), ("1024", 1024), ("65535", 65535), (":8080", 8080), (":80", 80)] {
            assert_eq!(read(text), Ok(LoadAfter::Port(port)), "{text}");
        }
        let times = [("0", 0), ("5", 5000), ("0.5", 500), ("0.5s", 500), ("500ms", 500), ("2m", 120_000)];
        for (text, millis) in times.into_iter().chain([("1023", 1_023_000), ("2 s", 2000), ("1h", 3_600_000)])
        {
            assert_eq!(read(text), Ok(LoadAfter::Time(Duration::from_millis(millis))), "{text}");
        }
        for text in ["listening on", ":", ":http", "5 workers", "5x", "s", "ms", "port 8080", "infinity"] {
            assert_eq!(read(text), Ok(LoadAfter::Text(text.to_owned())));
        }
        for text in ["", "70000", ":70000", ":0", "-3s", "-3", "99999999999999999999"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
