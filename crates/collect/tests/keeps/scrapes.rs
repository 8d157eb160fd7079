//! Targets that come and go, and what their services are asked.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flamelet_collect::config::Config;
use flamelet_collect::{Collector, Options, Outside, Request, Scraper};
use flamelet_profile::{LabelSetId, ProfileBuilder, pprof};

const PATIENCE: Duration = Duration::from_secs(120);

/// A network: one server that lists targets, and services that answer everywhere else.
#[derive(Default)]
struct Network {
    /// What the list is, or why there is none.
    list: Mutex<Option<String>>,
    /// URLs with the values of the header `Authorization`.
    asked: Mutex<Vec<(String, String)>>,
    notes: Mutex<Vec<String>>,
}

struct Shared(Arc<Network>);

impl Outside for Shared {
    fn fetch(&self, request: &Request<'_>) -> std::result::Result<Vec<u8>, String> {
        let header = request.headers.iter().find(|(name, _)| name == "Authorization");
        let value = header.map(|(_, value)| value.clone()).unwrap_or_default();
        self.0.asked.lock().expect("a lock").push((request.url.to_owned(), value.clone()));
        if request.url.starts_with("http://sd/") {
            let list = self.0.list.lock().expect("a lock").clone();
            return list.map(String::into_bytes).ok_or_else(|| format!("{}: down, and {value}", request.url));
        }
        Ok(profile())
    }

    fn note(&self, message: &str) {
        self.0.notes.lock().expect("a lock").push(message.to_owned());
    }
}

fn profile() -> Vec<u8> {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    let frame = builder.named_frame("main");
    let stack = builder.stack(&[frame]);
    builder.sample(stack, LabelSetId::EMPTY, &[1]);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    builder.header_mut().time_nanos = i64::try_from(now.as_nanos()).expect("not far ahead");
    pprof::encode(&builder.finish())
}

impl Network {
    fn list(&self, text: Option<&str>) {
        *self.list.lock().expect("a lock") = text.map(str::to_owned);
    }

    /// Returns the places of the requests for URLs that begin so.
    fn asked(&self, url: &str) -> Vec<usize> {
        let asked = self.asked.lock().expect("a lock");
        asked.iter().enumerate().filter(|(_, (asked, _))| asked.starts_with(url)).map(|(at, _)| at).collect()
    }

    fn notes(&self, words: &str) -> Vec<String> {
        let notes = self.notes.lock().expect("a lock");
        notes.iter().filter(|note| note.contains(words)).cloned().collect()
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn start(network: &Arc<Network>, text: &str) -> (tempfile::TempDir, Arc<Collector>, Scraper) {
    let folder = tempfile::tempdir().expect("a folder");
    let collector =
        Collector::open(Options::new(folder.path()), Box::new(Shared(network.clone()))).expect("opened");
    let collector = Arc::new(collector);
    let config = Config::parse("c.yaml", text).expect("a good configuration");
    let scraper = Scraper::start(&collector, config.jobs).expect("started");
    (folder, collector, scraper)
}

const JOB: &str = r"scrape_configs:
  - job_name: shop
    scrape_interval: 20ms
    profiles: [heap]
    authorization:
      credentials: token-of-the-service
    http_sd_configs:
      - url: http://sd/list?key=hidden
        refresh_interval: 20ms
        basic_auth:
          username: me
          password: hunter2
    relabel_configs:
      - source_labels: [zone]
        regex: closed
        action: drop
";

#[test]
fn scrapes_follow_the_list_of_targets() {
    let network = Arc::new(Network::default());
    network.list(Some(r#"[{"targets": ["h:1"]}, {"targets": ["h:9"], "labels": {"zone": "closed"}}]"#));
    let (_folder, collector, scraper) = start(&network, JOB);
    until("the first target is asked", || network.asked("http://h:1/debug/pprof/heap").len() > 1);
    network.list(Some(r#"[{"targets": ["h:2", "not a host"]}]"#));
    until("the second target is asked", || network.asked("http://h:2/").len() > 3);
    let first = network.asked("http://h:2/")[0];
    let late = network.asked("http://h:1/").into_iter().filter(|at| *at > first).count();
    assert!(late <= 1, "a request that was under way, and no more: {late}");
    assert_eq!(
        network.notes("left out"),
        ["job shop: 1 of 2 targets are left out: \"not a host\" is not HOST:PORT"]
    );
    assert!(network.asked("http://h:9/").is_empty(), "a rule leaves it out");
    scraper.stop();
    collector.close();
}

#[test]
fn a_list_that_fails_keeps_the_targets_and_is_named_once() {
    let network = Arc::new(Network::default());
    network.list(Some(r#"[{"targets": ["h:1"]}]"#));
    let (_folder, collector, scraper) = start(&network, JOB);
    until("the target is asked", || network.asked("http://h:1/").len() > 1);
    network.list(None);
    until("the failure is named", || network.notes("stay as they were").len() == 1);
    let (lists, requests) = (network.asked("http://sd/").len(), network.asked("http://h:1/").len());
    until("the list is asked again", || network.asked("http://sd/").len() > lists + 3);
    until("the target is asked still", || network.asked("http://h:1/").len() > requests + 3);
    network.list(Some("[]"));
    until("the end of the failure is named", || network.notes("targets are listed again: 0").len() == 1);
    assert_eq!(
        network.notes("stay as they were"),
        ["job shop: http://sd/list: down, and Basic …; 1 targets stay as they were"]
    );
    assert!(network.notes("hunter2").is_empty() && network.notes("hidden").is_empty());
    let asked = network.asked.lock().expect("a lock");
    for (url, value) in asked.iter() {
        let is_list = url.starts_with("http://sd/");
        let expected = if is_list { "Basic bWU6aHVudGVyMg==" } else { "Bearer token-of-the-service" };
        assert_eq!(value, expected, "{url}");
    }
    drop(asked);
    scraper.stop();
    collector.close();
}
