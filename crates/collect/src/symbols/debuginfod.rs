//! Symbols of builds for which none were uploaded, from servers that speak debuginfod's protocol.
//!
//! Profiles and questions only leave a note that a build is wanted ([`Debuginfod::want`]). A thread of its own asks the
//! servers ([`Debuginfod::fetch`]), so no query waits for them, and the next one has the names.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use flamelet_profile::Result;

use crate::lock::lock;
use crate::outside::{Outside, Request, Tls};

/// How long a server may take for a file.
const WAIT: Duration = Duration::from_secs(60);
/// How long to wait before asking for a build again.
const AGAIN: Duration = Duration::from_secs(86_400);
/// The most builds that are asked for in that time: whoever sends profiles can make up any number of them.
const MOST_ASKED: usize = 2000;

/// The builds whose symbols are wanted, and the servers that may have them.
#[derive(Debug, Default)]
pub(crate) struct Debuginfod {
    /// Not set if there are no servers to ask.
    servers: OnceLock<Vec<String>>,
    builds: Mutex<WantedBuilds>,
}

#[derive(Debug, Default)]
struct WantedBuilds {
    waiting: VecDeque<String>,
    /// The builds that were requested recently or are about to be, and when each was first wanted.
    since: HashMap<String, Instant>,
    /// Whether a failure of the servers was already reported to the user.
    is_failure_told: bool,
}

impl Debuginfod {
    /// Sets the addresses of the servers, which are asked in this order.
    pub(crate) fn ask(&self, servers: &[String]) {
        if !servers.is_empty() {
            // The first ones stay.
            let _ = self.servers.set(servers.to_vec());
        }
    }

    /// Returns whether there is a server to ask.
    pub(crate) fn is_on(&self) -> bool {
        self.servers.get().is_some()
    }

    /// Notes that the symbols of a build are missing.
    pub(crate) fn want(&self, id: &str) {
        let mut builds = lock(&self.builds);
        if !self.is_on() || builds.since.get(id).is_some_and(|since| since.elapsed() < AGAIN) {
            return;
        }
        if builds.since.len() >= MOST_ASKED {
            builds.since.retain(|_, since| since.elapsed() < AGAIN);
        }
        if builds.since.len() < MOST_ASKED {
            builds.since.insert(id.to_owned(), Instant::now());
            builds.waiting.push_back(id.to_owned());
        }
    }

    /// Takes the next build that is wanted.
    pub(crate) fn next(&self) -> Option<String> {
        lock(&self.builds).waiting.pop_front()
    }

    /// Asks one server after the other for a build, until `keep` accepts a file, which has at most `most` bytes.
    pub(crate) fn fetch(
        &self,
        id: &str,
        outside: &dyn Outside,
        most: usize,
        keep: &dyn Fn(&[u8]) -> Result<()>,
    ) {
        let mut has_failed = false;
        let has = |server: &String| match kept(server, id, outside, most, keep) {
            Ok(has) => has,
            Err(why) => {
                has_failed = true;
                if !std::mem::replace(&mut lock(&self.builds).is_failure_told, true) {
                    outside.note(&format!("symbols of {id}: {why} (asked again in a day)"));
                }
                false
            }
        };
        let is_found = self.servers.get().is_some_and(|servers| servers.iter().any(has));
        if is_found && !has_failed {
            lock(&self.builds).is_failure_told = false;
        }
    }
}

/// Asks a server for a build, keeps its file, and returns whether it had one.
fn kept(
    server: &str,
    id: &str,
    outside: &dyn Outside,
    most: usize,
    keep: &dyn Fn(&[u8]) -> Result<()>,
) -> std::result::Result<bool, String> {
    let url = format!("{}/buildid/{id}/debuginfo", server.trim_end_matches('/'));
    let request = Request { url: &url, wait: WAIT, most, headers: &[], tls: &Tls::default() };
    match outside.fetch(&request) {
        Ok(file) => keep(&file).map(|()| true).map_err(|error| format!("{url}: {error}")),
        Err(why) if why.contains(" 404 ") => Ok(false),
        Err(why) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts what it is asked.
    #[derive(Default)]
    struct Nothing(Mutex<Vec<String>>);

    impl Outside for Nothing {
        fn fetch(&self, request: &Request<'_>) -> std::result::Result<Vec<u8>, String> {
            self.0.lock().expect("no panic").push(request.url.to_owned());
            Err(format!("{}: answered with 404 Not Found", request.url))
        }

        fn note(&self, message: &str) {
            panic!("{message}");
        }
    }

    #[test]
    fn nobody_is_asked_unless_a_server_is_set() {
        let wanted = Debuginfod::default();
        wanted.want("aaaaaaaa");
        assert!(lock(&wanted.builds).waiting.is_empty() && !wanted.is_on());
    }

    /// The first server does not answer, and the second one has everything.
    #[derive(Default)]
    struct Half(Mutex<Vec<String>>);

    impl Outside for Half {
        fn fetch(&self, request: &Request<'_>) -> std::result::Result<Vec<u8>, String> {
            if request.url.starts_with("http://one") { Err("no answer".to_owned()) } else { Ok(Vec::new()) }
        }

        fn note(&self, message: &str) {
            self.0.lock().expect("no panic").push(message.to_owned());
        }
    }

    #[test]
    fn a_server_that_always_fails_is_told_once() {
        let (wanted, outside) = (Debuginfod::default(), Half::default());
        wanted.ask(&["http://one".to_owned(), "http://two".to_owned()]);
        ["aaaaaaaa", "bbbbbbbb"].iter().for_each(|id| wanted.fetch(id, &outside, 10, &|_| Ok(())));
        let told = outside.0.lock().expect("no panic");
        assert_eq!(*told, ["symbols of aaaaaaaa: no answer (asked again in a day)"]);
    }

    #[test]
    fn each_build_is_asked_for_once_and_only_so_many() {
        let (wanted, outside) = (Debuginfod::default(), Nothing::default());
        wanted.ask(&["http://one/".to_owned(), "http://two".to_owned()]);
        for _ in 0..2 {
            wanted.want("aaaaaaaa");
            while let Some(id) = wanted.next() {
                wanted.fetch(&id, &outside, 10, &|_| Ok(()));
            }
        }
        let asked = std::mem::take(&mut *outside.0.lock().expect("no panic"));
        assert_eq!(asked, ["one", "two"].map(|host| format!("http://{host}/buildid/aaaaaaaa/debuginfo")));
        for number in 0..2 * MOST_ASKED {
            wanted.want(&format!("{number:08x}"));
        }
        assert_eq!(lock(&wanted.builds).waiting.len(), MOST_ASKED - 1, "one was asked for already");
    }
}
