//! A job of the configuration: how its targets are asked, and which requests follow from the labels of a target.

use std::sync::Arc;
use std::time::Duration;

use crate::scraper::client::Client;
use crate::scraper::discover::{TargetSource, annotations};
use crate::scraper::labels::{self, ADDRESS, INSTANCE, JOB, LabelSet, PARAM, PATH_PREFIX, SCHEME, get, set};
use crate::scraper::relabel::{self, RelabelRule};
use crate::scraper::scrape::Scrape;
use crate::scraper::url::{escaped, is_path};
use crate::series::{SERVICE, check_service};

/// How long to wait for an answer, beyond the length of a CPU profile.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The profiles that are taken unless the job says otherwise.
const PROFILES: [&str; 2] = ["cpu", "heap"];

/// Services whose profiles are taken in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapeJob {
    pub(crate) name: String,
    /// How long a CPU profile is; the next begins when it ends.
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    /// `cpu`, `heap`, or any other name below `/debug/pprof/`; `None` if the job does not say.
    pub(crate) profiles: Option<Vec<String>>,
    /// Labels of every target unless it has them: scheme, prefix of the path and parameters.
    pub(crate) defaults: LabelSet,
    pub(crate) client: Arc<Client>,
    /// Targets that the configuration names.
    pub(crate) targets: Vec<LabelSet>,
    /// Where other targets are listed.
    pub(crate) sources: Vec<TargetSource>,
    pub(crate) rules: Vec<RelabelRule>,
}

impl ScrapeJob {
    /// Returns a job without targets.
    pub fn new(name: &str, interval: Duration) -> Self {
        let mut defaults = LabelSet::new();
        set(&mut defaults, JOB, name);
        set(&mut defaults, SCHEME, "http");
        Self {
            name: name.to_owned(),
            interval,
            timeout: TIMEOUT,
            profiles: None,
            defaults,
            client: Arc::default(),
            targets: Vec::new(),
            sources: Vec::new(),
            rules: Vec::new(),
        }
    }

    /// Returns a job of one target: `HOST:PORT`, or a URL that ends before `/debug/pprof/`.
    pub fn of_target(name: &str, address: &str, interval: Duration) -> Self {
        Self { targets: vec![labels::of_target(address)], ..Self::new(name, interval) }
    }

    /// Sets how long CPU profiles are, and how often others are taken.
    pub fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }

    /// Returns why nothing can be taken of a target that the configuration names.
    pub fn check(&self) -> Result<(), String> {
        self.targets.iter().try_for_each(|target| self.scrapes(target).map(drop))
    }

    /// Returns how many targets the configuration names.
    pub fn named_targets(&self) -> usize {
        self.targets.len()
    }

    /// Returns how many places list other targets.
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    /// Returns what to take of a target (nothing if a rule leaves it out), or why nothing can be taken.
    pub(crate) fn scrapes(&self, found: &LabelSet) -> Result<Vec<Scrape>, String> {
        let mut labels = self.defaults.clone();
        labels.extend(found.iter().map(|(name, value)| (name.clone(), value.clone())));
        let Some(mut labels) = relabel::apply(&self.rules, labels) else { return Ok(Vec::new()) };
        let wanted = self.wanted(&labels);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let address = get(&labels, ADDRESS).to_owned();
        if !labels::is_address(&address) {
            return Err(format!("{:?} is not HOST:PORT", shortened(&address)));
        }
        if !labels.contains_key(INSTANCE) {
            set(&mut labels, INSTANCE, address.as_str());
        }
        let service = self.service(&labels);
        check_service(&service).map_err(|error| format!("{address}: {error}"))?;
        let own: Vec<(String, String)> = labels
            .iter()
            .filter(|(name, _)| !name.starts_with("__") && *name != SERVICE)
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let mut scrapes = Vec::new();
        for wanted in wanted {
            let url = self.url(&labels, &wanted).map_err(|message| format!("{address}: {message}"))?;
            scrapes.push(Scrape {
                service: service.clone(),
                profile: wanted.profile,
                address: address.clone(),
                url,
                interval: self.interval,
                timeout: self.timeout,
                labels: own.clone(),
                client: self.client.clone(),
            });
        }
        Ok(scrapes)
    }

    fn service(&self, labels: &LabelSet) -> String {
        let given = |name: &str| Some(get(labels, name).to_owned()).filter(|value| !value.is_empty());
        let found = given(SERVICE).or_else(|| annotations::service(labels)).or_else(|| given(JOB));
        found.unwrap_or_else(|| self.name.clone())
    }

    /// Returns the profiles that the job names; else those that a pod's annotations name; else the usual ones.
    fn wanted(&self, labels: &LabelSet) -> Vec<WantedProfile> {
        let usual = |name: &str| WantedProfile { profile: name.to_owned(), scheme: None, path: None };
        match &self.profiles {
            Some(profiles) => profiles.iter().map(|name| usual(name)).collect(),
            None if annotations::is_pod(labels) => {
                let own = annotations::wanted(labels).into_iter();
                own.map(|own| WantedProfile {
                    profile: own.profile.to_owned(),
                    scheme: own.scheme,
                    path: own.path,
                })
                .collect()
            }
            None => PROFILES.iter().map(|name| usual(name)).collect(),
        }
    }

    fn url(&self, labels: &LabelSet, wanted: &WantedProfile) -> Result<String, String> {
        let scheme = wanted.scheme.as_deref().unwrap_or(get(labels, SCHEME));
        if scheme != "http" && scheme != "https" {
            return Err(format!("the scheme {:?} is neither http nor https", shortened(scheme)));
        }
        let prefix = get(labels, PATH_PREFIX).trim_end_matches('/');
        let path = match (&wanted.path, &*wanted.profile) {
            (Some(path), _) => path.clone(),
            (None, "cpu") => format!("{prefix}/debug/pprof/profile"),
            (None, other) => format!("{prefix}/debug/pprof/{other}"),
        };
        if !is_path(&path) {
            return Err(format!("{:?} is not a path", shortened(&path)));
        }
        let mut query = Vec::new();
        if wanted.profile == "cpu" {
            query.push(format!("seconds={}", seconds(self.interval)));
        }
        for (name, value) in
            labels.iter().filter_map(|(name, value)| Some((name.strip_prefix(PARAM)?, value)))
        {
            query.push(format!("{}={}", escaped(name), escaped(value)));
        }
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        Ok(format!("{scheme}://{}{path}{query}", get(labels, ADDRESS)))
    }
}

/// A profile to take of a target.
struct WantedProfile {
    profile: String,
    /// In place of the target's.
    scheme: Option<String>,
    /// In place of the usual one.
    path: Option<String>,
}

/// Returns the length of a CPU profile in whole seconds, as Go's endpoint takes it.
pub(crate) fn seconds(interval: Duration) -> u64 {
    interval.as_secs().max(1)
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(job: &ScrapeJob, target: &LabelSet) -> Vec<String> {
        job.scrapes(target).expect("good").into_iter().map(|scrape| scrape.url).collect()
    }

    #[test]
    fn addresses_are_completed() {
        let job = ScrapeJob::of_target("shop", "127.0.0.1:3000", Duration::from_secs(3));
        assert_eq!(
            urls(&job, &job.targets[0]),
            ["http://127.0.0.1:3000/debug/pprof/profile?seconds=3", "http://127.0.0.1:3000/debug/pprof/heap"]
        );
        let job = ScrapeJob::of_target("shop", "https://h/x/", Duration::from_millis(10));
        assert_eq!(urls(&job, &job.targets[0])[0], "https://h/x/debug/pprof/profile?seconds=1");
        let scrape = &job.scrapes(&job.targets[0]).expect("good")[0];
        let labels = [("instance", "h"), ("job", "shop")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!((&*scrape.service, &scrape.labels[..]), ("shop", &labels[..]));
    }

    #[test]
    fn rules_see_what_the_job_says_and_decide_what_is_asked() {
        let rule = |source: &str, target: &str, replacement: &str| RelabelRule {
            source_labels: vec![source.to_owned()],
            target_label: target.to_owned(),
            replacement: replacement.to_owned(),
            ..RelabelRule::new().expect("good")
        };
        let mut job = ScrapeJob::of_target("shop", "h:1", Duration::from_secs(3));
        job.rules = vec![
            rule("job", "service_name", "$1-api"),
            rule("__scheme__", "was", "$1"),
            rule("x", "__scheme__", "https"),
            rule("__address__", "__address__", "other:2"),
            rule("x", "__profile_path_prefix__", "/p"),
            rule("x", "__tmp", "gone"),
        ];
        let scrape = &job.scrapes(&job.targets[0]).expect("good")[1];
        assert_eq!(scrape.url, "https://other:2/p/debug/pprof/heap");
        let labels = [("instance", "other:2"), ("job", "shop"), ("was", "http")];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!((&*scrape.service, &scrape.labels[..]), ("shop-api", &labels[..]));
        job.rules = vec![RelabelRule { action: relabel::Action::Drop, ..RelabelRule::new().expect("good") }];
        assert_eq!(job.scrapes(&job.targets[0]), Ok(Vec::new()));
    }

    #[test]
    fn annotations_decide_unless_the_job_does() {
        let mut pod = labels::of_target("10.0.0.1:3000");
        for (name, value) in [
            ("namespace", "prod"),
            ("pod_name", "p"),
            ("pod_container_name", "web"),
            ("pod_container_port_number", "3000"),
        ] {
            set(&mut pod, &format!("__meta_kubernetes_{name}"), value);
        }
        let mut job = ScrapeJob::new("pods", Duration::from_secs(3));
        assert_eq!(job.scrapes(&pod), Ok(Vec::new()), "nothing is annotated");
        for (name, value) in
            [("cpu_scrape", "true"), ("cpu_port", "3000"), ("cpu_scheme", "https"), ("cpu_path", "/prof")]
        {
            set(&mut pod, &format!("__meta_kubernetes_pod_annotation_profiles_grafana_com_{name}"), value);
        }
        assert_eq!(urls(&job, &pod), ["https://10.0.0.1:3000/prof?seconds=3"]);
        assert_eq!(job.scrapes(&pod).expect("good")[0].service, "prod/web");
        job.profiles = Some(vec!["heap".to_owned()]);
        assert_eq!(urls(&job, &pod), ["http://10.0.0.1:3000/debug/pprof/heap"]);
    }

    #[test]
    fn parameters_are_escaped() {
        let mut target = labels::of_target("h:1");
        set(&mut target, "__param_a", "x&y z=%/é");
        let job = ScrapeJob::new("shop", Duration::from_secs(3));
        assert_eq!(urls(&job, &target)[1], "http://h:1/debug/pprof/heap?a=x%26y%20z%3D%25%2F%C3%A9");
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        let job = ScrapeJob::new("shop", Duration::from_secs(3));
        for (name, value, message) in [
            (ADDRESS, "", "\"\" is not HOST:PORT"),
            (ADDRESS, "evil@h:1", "\"evil@h:1\" is not HOST:PORT"),
            (SCHEME, "file", "h:1: the scheme \"file\" is neither http nor https"),
            (PATH_PREFIX, "/a?b#c", "h:1: \"/a?b#c/debug/pprof/profile\" is not a path"),
            (PATH_PREFIX, "/\r\nX: y", "h:1: \"/\\r\\nX: y/debug/pprof/profile\" is not a path"),
            (SERVICE, "a\nb", "h:1: the service name"),
        ] {
            let mut target = labels::of_target("h:1");
            target.insert(name.to_owned(), value.to_owned());
            let error = job.scrapes(&target).expect_err(value);
            assert!(error.starts_with(message), "{error}");
        }
    }
}
