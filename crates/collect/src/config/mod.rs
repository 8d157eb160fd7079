//! The configuration of a collector: YAML, with Prometheus' names where Prometheus has the same setting.
//!
//! Every mistake is one line that begins with its place in the file: `collect.yaml:12:5: unknown key "intervall"`.

mod client;
mod job;
mod read;
mod relabel;
mod sources;

use std::path::PathBuf;
use std::time::Duration;

pub use self::read::check_listen;
use crate::caps::Caps;
use crate::keep::Keep;
use crate::scraper::job::ScrapeJob;
use crate::yaml;

/// What a configuration file says. `None` where it says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// `listen`: where to listen.
    pub listen: Option<String>,
    /// `store`: the folder, or the URL of a bucket.
    pub store: Option<PlacedFile>,
    /// `token_file`: a file with one token a line.
    pub token_file: Option<PlacedFile>,
    /// `tls_server_config`: the certificate that the collector shows.
    pub tls: Option<CertificateFiles>,
    /// `tenants`: without tokens, requests say by `X-Scope-OrgID` which tenant they belong to.
    pub tenants: bool,
    /// `flush`: how long after it was accepted a profile becomes part of a block, at most.
    pub flush: Option<Duration>,
    /// `keep`: how long profiles are kept.
    pub keep: Option<Duration>,
    /// `keep` as a list: how long those of some services are kept.
    pub keep_of: Vec<Keep>,
    /// `max_bytes`: the most bytes of all blocks.
    pub max_bytes: Option<u64>,
    /// `watch`: how often versions are compared.
    pub watch: Option<Duration>,
    /// `price`: what a core costs in an hour.
    pub price: Option<f64>,
    /// `debuginfod_urls`: servers that are asked for symbols.
    pub debuginfod: Option<Vec<String>>,
    /// `limits`: what is accepted.
    pub limits: Caps,
    /// `scrape_configs`: the services to take profiles of.
    pub jobs: Vec<ScrapeJob>,
}

/// A file that the configuration names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacedFile {
    /// The file.
    pub path: PathBuf,
    /// The line and the column that name it.
    pub place: (usize, usize),
}

/// The files of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateFiles {
    /// `cert_file`: the certificate, with those that lead to an authority.
    pub cert_file: PathBuf,
    /// `key_file`: its key.
    pub key_file: PathBuf,
    /// The line and the column of the configuration that name them.
    pub place: (usize, usize),
}

impl Config {
    /// Reads a configuration; `name` is that of the file, for messages.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let config = yaml::parse(text).and_then(|node| read::config(&node));
        config.map_err(|mistake| mistake.line(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"# The collector of the shop
listen: 127.0.0.1:4040
store: "/var/lib/flamelet"
token_file: '/etc/flamelet/tokens'   # one a line
tls_server_config:
  cert_file: c.pem
  key_file: k.pem
tenants: true
flush: 1m
keep: 14d
max_bytes: 20GiB
watch: 1h
price: 0.03
debuginfod_urls: [https://debuginfod.example/, http://h:8002]
limits:
  body: 8MiB
  series: 100
scrape_configs:
  - job_name: checkout
    scrape_interval: 15s
    profiles: [cpu, heap]
    static_configs:
      - targets: [10.0.0.1:3000, "10.0.0.2:3000"]
        labels:
          region: eu
          version: '2'
      - targets:
          - 10.1.0.1:3000
  - job_name: cart
    static_configs:
      - targets: ['cart:80']
"#;

    #[test]
    fn a_whole_configuration_is_read() {
        let config = Config::parse("c.yaml", EXAMPLE).expect("read");
        assert_eq!(config.listen.as_deref(), Some("127.0.0.1:4040"));
        assert_eq!(
            config.store,
            Some(PlacedFile { path: "/var/lib/flamelet".into(), place: (3, 8) }),
            "in quotes"
        );
        let (cert_file, key_file) = ("c.pem".into(), "k.pem".into());
        assert_eq!(config.tls, Some(CertificateFiles { cert_file, key_file, place: (6, 3) }));
        assert!(config.tenants);
        assert_eq!(
            (config.flush, config.keep),
            (Some(Duration::from_secs(60)), Some(Duration::from_secs(14 * 86_400)))
        );
        assert_eq!(
            (config.max_bytes, config.limits.body, config.limits.series),
            (Some(20 << 30), 8 << 20, 100)
        );
        assert_eq!((config.watch, config.price), (Some(Duration::from_secs(3600)), Some(0.03)));
        let servers = ["https://debuginfod.example/", "http://h:8002"].map(str::to_owned);
        assert_eq!(config.debuginfod, Some(servers.to_vec()));
        assert_eq!(config.limits.labels, Caps::default().labels);
        let targets: Vec<(&str, &str, u64)> = config
            .jobs
            .iter()
            .flat_map(|job| job.targets.iter().map(move |target| (job, target)))
            .map(|(job, target)| (&*job.name, &*target["__address__"], job.interval.as_secs()))
            .collect();
        assert_eq!(
            targets,
            [
                ("checkout", "10.0.0.1:3000", 15),
                ("checkout", "10.0.0.2:3000", 15),
                ("checkout", "10.1.0.1:3000", 15),
                ("cart", "cart:80", 10),
            ]
        );
        let first = &config.jobs[0].targets[0];
        assert_eq!((&*first["region"], &*first["version"], first.len()), ("eu", "2", 3));
        assert_eq!(config.jobs[0].targets[2].len(), 1);
        assert_eq!(Config::parse("c.yaml", "").expect("empty"), Config::default());
        assert_eq!(Config::parse("c.yaml", "# nothing\n---\n").expect("empty"), Config::default());
    }

    #[test]
    fn a_job_says_how_its_targets_are_asked() {
        let text = r"scrape_configs:
  - job_name: shop
    scrape_interval: 2s
    scrape_timeout: 7s
    scheme: https
    path_prefix: /admin/
    params:
      tenant: ['a b']
    basic_auth:
      username: me
      password_file: /run/secrets/password
    tls_config:
      ca_file: /etc/ca.pem
      insecure_skip_verify: false
    profiles: [cpu]
    static_configs:
      - targets: ['h:1', 'http://other:2/x']
";
        let config = Config::parse("c.yaml", text).expect("read");
        let job = &config.jobs[0];
        let scrapes: Vec<_> =
            job.targets.iter().flat_map(|target| job.scrapes(target).expect("good")).collect();
        let urls: Vec<&str> = scrapes.iter().map(|scrape| &*scrape.url).collect();
        assert_eq!(
            urls,
            [
                "https://h:1/admin/debug/pprof/profile?seconds=2&tenant=a%20b",
                "http://other:2/x/debug/pprof/profile?seconds=2&tenant=a%20b"
            ]
        );
        assert_eq!(scrapes[0].timeout, Duration::from_secs(7));
        assert_eq!(scrapes[0].client.tls.ca_file, Some("/etc/ca.pem".into()));
        assert!(!scrapes[0].client.tls.insecure_skip_verify && scrapes[0].client.authorization.is_some());
    }

    #[test]
    fn a_job_says_where_targets_are_listed_and_what_to_do_with_them() {
        let text = r"scrape_configs:
  - job_name: pods
    kubernetes_sd_configs:
      - role: pod
        namespaces:
          names: [prod]
        selectors:
          - role: pod
            label: app=shop
    file_sd_configs:
      - files: ['/etc/flamelet/*.yml']
        refresh_interval: 1m
    http_sd_configs:
      - url: https://sd.example/targets?x=1
        authorization:
          credentials_file: /run/token
    dns_sd_configs:
      - names: [shop.prod.svc]
        type: AAAA
        port: 3000
    relabel_configs:
      - source_labels: [__address__, __meta_kubernetes_pod_label_port]
        regex: ([^:]+)(?::\d+)?;(\d+)
        replacement: $1:$2
        target_label: __address__
      - action: LabelMap
        regex: __meta_kubernetes_pod_label_(.+)
";
        let config = Config::parse("c.yaml", text).expect("read");
        let job = &config.jobs[0];
        assert_eq!((job.sources(), job.named_targets(), job.rules.len()), (4, 0, 2));
        let mut target = crate::scraper::labels::of_target("h:1");
        for (name, value) in [("port", "9000"), ("app", "shop")] {
            target.insert(format!("__meta_kubernetes_pod_label_{name}"), value.to_owned());
        }
        let scrape = &job.scrapes(&target).expect("good")[0];
        assert_eq!(scrape.address, "h:9000");
        assert!(scrape.labels.contains(&("app".to_owned(), "shop".to_owned())), "{:?}", scrape.labels);
    }

    #[test]
    fn quotes_hide_commas_and_hold_two_single_quotes_for_one() {
        let text = "\u{feff}store: 'it''s'\nscrape_configs:\n  - job_name: a\n    params:\n      select: ['{a=\"b\",c=\"it''s\"}']\n    static_configs:\n      - targets: ['h:1', \"h:2\", h:3]\n        labels:\n          plain: it''s\n          null: 'null'";
        let config = Config::parse("c.yaml", text).expect("read");
        let targets = &config.jobs[0].targets;
        let addresses: Vec<&str> = targets.iter().map(|target| &*target["__address__"]).collect();
        assert_eq!(addresses, ["h:1", "h:2", "h:3"]);
        assert_eq!((&*targets[0]["plain"], &*targets[0]["null"]), ("it''s", "null"));
        let url = &config.jobs[0].scrapes(&targets[0]).expect("good")[0].url;
        assert!(url.ends_with("&select=%7Ba%3D%22b%22%2Cc%3D%22it%27s%22%7D"), "{url}");
        assert_eq!(config.store.map(|file| file.path), Some("it's".into()));
    }

    #[test]
    fn services_are_kept_for_different_times() {
        let text = "keep:\n  - selector: '{service_name=~\"test-.*\"}'\n    age: 1d\n  - age: 30d\n";
        let config = Config::parse("c.yaml", text).expect("read");
        let day = Duration::from_secs(86_400);
        assert_eq!((config.keep, config.keep_of.len()), (Some(30 * day), 1));
        let mut options = crate::options::Options::new(std::path::Path::new("x"));
        (options.keep, options.keep_of) = (30 * day, config.keep_of);
        assert_eq!((options.kept_for("test-1"), options.kept_for("checkout")), (day, 30 * day));
        for (text, words) in [
            (
                "keep:\n  - selector: '{zone=\"a\"}'\n    age: 1d",
                "2:15: the label \"zone\" cannot be selected here",
            ),
            ("keep:\n  - selector: '{service_name'\n    age: 1d", "2:15: "),
            ("keep:\n  - selector: '{service_name=\"a\"}'", "2:5: age is missing"),
            ("keep:\n  - age: 1d\n  - age: 2d", "2:5: only the last entry may have no selector"),
            (
                "keep:\n  - age: 1d\n  - selector: '{}'\n    age: 2d",
                "2:5: only the last entry may have no selector",
            ),
            ("keep:\n  - age: soon", "2:10: \"soon\" is not a length of time"),
            ("keep: []", "1:7: the list is empty"),
        ] {
            let error = Config::parse("c.yaml", text).expect_err(text);
            assert!(error.starts_with(&format!("c.yaml:{words}")), "{error}");
        }
    }

    /// A job with one more key, on line 3.
    fn job_with(key: &str) -> String {
        format!("scrape_configs:\n  - job_name: a\n    {key}\n    static_configs:\n      - targets: ['h:1']")
    }

    #[test]
    fn mistakes_of_a_job_have_their_place() {
        for (key, message) in [
            ("scheme: ftp", "3:13: the scheme \"ftp\" is neither http nor https"),
            ("path_prefix: a b", "3:18: \"a b\" is not a path"),
            ("params:\n      seconds: ['3']", "4:7: seconds is set from scrape_interval"),
            ("params:\n      a: [b, c]", "4:10: write one value in brackets"),
            ("authorization:\n      type: Bearer", "4:7: write one of credentials or credentials_file"),
            (
                "authorization:\n      credentials: a\n      credentials_file: b",
                "4:7: write one of credentials",
            ),
            (
                "authorization:\n      type: basic\n      credentials: hunter2",
                "4:7: the type Basic is written as",
            ),
            ("basic_auth:\n      password: hunter2", "4:7: username is missing"),
            ("basic_auth:\n      username: me", "4:7: write one of password or password_file"),
            (
                "basic_auth:\n      username: me\n      password: x\n    authorization:\n      credentials: hunter2",
                "7:7: authorization and basic_auth exclude each other",
            ),
            ("tls_config:\n      server_name: x", "4:20: server_name is not supported"),
            ("tls_config:\n      insecure_skip_verify: yes", "4:29: \"yes\" is neither true nor false"),
            ("tls_config:\n      cert_file: x", "4:7: cert_file and key_file belong together"),
            ("file_sd_configs:\n      - files: [a.txt]", "4:17: write a file that ends in .json"),
            ("file_sd_configs:\n      - refresh_interval: 1m", "4:9: files is missing"),
            ("http_sd_configs:\n      - url: ftp://h", "4:14: this is not a URL"),
            (
                "http_sd_configs:\n      - url: http://me:hunter2@h/x",
                "4:14: the URL has a name or a password",
            ),
            ("http_sd_configs:\n      - refresh_interval: 1m", "4:9: url is missing"),
            ("dns_sd_configs:\n      - names: [a]\n        type: MX", "5:15: MX records are not supported"),
            ("dns_sd_configs:\n      - names: [a]\n        type: A", "4:9: port is missing"),
            ("dns_sd_configs:\n      - names: [a]\n        port: 70000", "5:15: this is not a port"),
            ("dns_sd_configs:\n      - names: ['a b']", "4:17: \"a b\" is not the name of a host"),
            ("kubernetes_sd_configs:\n      - role: node", "4:15: the role \"node\" is not supported"),
            ("kubernetes_sd_configs:\n      - refresh_interval: 1m", "4:9: role is missing"),
            (
                "kubernetes_sd_configs:\n      - role: pod\n        authorization:\n          credentials: hunter2",
                "4:9: credentials and TLS need api_server",
            ),
            (
                "relabel_configs:\n      - action: jump",
                "4:17: unknown action \"jump\"; known are replace, keep",
            ),
            ("relabel_configs:\n      - regex: '('", "4:16: not a regular expression: error: unclosed group"),
            ("relabel_configs:\n      - source_labels: [a]", "4:9: the action replace needs target_label"),
            ("relabel_configs:\n      - target_label: -a", "4:23: \"-a\" is not a label that can be written"),
            ("relabel_configs:\n      - source_labels: [a-b]", "4:25: \"a-b\" is not a label"),
            (
                "relabel_configs:\n      - action: lowercase\n        target_label: ${1}",
                "5:23: \"${1}\" is not a label that can be written",
            ),
            (
                "relabel_configs:\n      - action: labelmap\n        replacement: a-b",
                "5:22: \"a-b\" is not a label that can be written",
            ),
            (
                "relabel_configs:\n      - action: labeldrop\n        source_labels: [a]",
                "5:24: the action labeldrop has no source_labels",
            ),
            (
                "relabel_configs:\n      - action: keepequal\n        target_label: a\n        regex: b",
                "6:16: the action keepequal has no regex",
            ),
            (
                "relabel_configs:\n      - action: hashmod\n        target_label: a",
                "4:9: the action hashmod needs modulus",
            ),
            ("scrape_timeout: 0s", "3:21: \"0s\" is not a length of time"),
            ("params:\n      a: ['b,c', d]", "4:10: write one value in brackets"),
        ] {
            let error = Config::parse("c.yaml", &job_with(key)).expect_err(key);
            assert!(error.starts_with(&format!("c.yaml:{message}")), "{key:?}: {error}");
            assert!(!error.contains('\n') && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn each_mistake_is_one_line_with_its_place() {
        for (text, message) in [
            ("listen:\n\t- a", "2:1: a tab; YAML indents with spaces"),
            ("intervall: 3s", "1:1: unknown key \"intervall\"; known are listen, store, token_file"),
            ("listen: a\nlisten: b", "2:1: duplicate key \"listen\""),
            ("tls_server_config:\n  cert_file: a", "2:3: key_file is missing"),
            ("tls_server_config:\n  key_file: a", "2:3: cert_file is missing"),
            ("tls_server_config: a.pem", "1:20: expected keys with values, found a text"),
            (
                "tls_server_config:\n  ca_file: a",
                "2:3: unknown key \"ca_file\"; known are cert_file, key_file",
            ),
            ("listen: 4040", "1:9: \"4040\" is not an address and a port; write it as 127.0.0.1:4040"),
            ("listen: ::1:4040", "1:9: \"::1:4040\" is not an address and a port"),
            ("listen: h:99999", "1:9: \"h:99999\" is not an address and a port"),
            ("limits:\n  profile: 16MiB", "2:12: this can be 15MiB at most"),
            ("limits:\n  samples: 65537", "2:12: this can be 65536 at most"),
            (
                "scrape_configs:\n  - job_name: a\n    static_configs: []\n  - job_name: a\n    static_configs: []",
                "4:15: another job is also called \"a\"",
            ),
            ("flush: soon", "1:8: \"soon\" is not a length of time; write it as 30s, 5m or 7d"),
            ("tenants: maybe", "1:10: \"maybe\" is neither true nor false"),
            ("debuginfod_urls: https://h", "1:18: expected a list, found a text"),
            ("debuginfod_urls: [ftp://h]", "1:19: this is not a URL"),
            ("flush: [1s]", "1:8: expected a text, found a list"),
            ("price: -1", "1:8: \"-1\" is not a price; write it as 0.03"),
            ("max_bytes: much", "1:12: \"much\" is not a size; write it as 512MiB or 20GiB"),
            ("limits: 3", "1:9: expected keys with values, found a text"),
            ("limits:\n  series: -1", "2:11: \"-1\" is not a whole number above 0"),
            ("limits:\n  serie: 1", "2:3: unknown key \"serie\""),
            ("scrape_configs: a", "1:17: expected a list, found a text"),
            ("scrape_configs:\n  - scrape_interval: 3s", "2:5: job_name is missing"),
            ("scrape_configs:\n  - job_name: a", "2:5: static_configs is missing"),
            (
                "scrape_configs:\n  - job_name: a\n    static_configs:\n      - targets: [nowhere]",
                "4:19: \"nowhere\" is not HOST:PORT",
            ),
            (
                "scrape_configs:\n  - job_name: a\n    profiles: [cpu, ../x]\n    static_configs:\n      - targets: ['h:1']",
                "3:21: \"../x\" is not the name of a profile",
            ),
            ("store: \"a", "1:8: the text has no closing quote"),
            ("store: &a b", "1:8: anchors, aliases, tags and multi-line texts are not supported"),
            ("store: |\n  a", "1:8: anchors, aliases, tags and multi-line texts are not supported"),
            ("a", "1:1: expected \"key: value\" or \"- item\""),
            ("listen: a\n  store: b", "2:3: the indentation does not fit the lines above"),
            ("limits:\n    body: 1MiB\n  series: 2", "3:3: the indentation does not fit the lines above"),
            ("store: [a, b", "1:8: the list has no closing bracket on this line"),
            ("listen: a\n- b", "2:1: a list item among keys"),
            ("listen:", "1:1: \"listen\" has no value"),
            ("store: ~", "1:8: ~ means no value; leave out the key"),
            ("limits:\n  body: null", "2:9: null means no value; leave out the key"),
            ("store: a\n---\nkeep: 1d", "2:1: several documents in a file are not supported"),
            ("store: 'it's'", "1:8: the text has no closing quote"),
            ("store: 'it''", "1:8: the text has no closing quote"),
            ("scrape_configs:\n  - job_name: ''\n    static_configs: []", "2:15: job_name is empty"),
        ] {
            let error = Config::parse("c.yaml", text).expect_err(text);
            assert!(
                error.starts_with(&format!("c.yaml:{message}")) && !error.contains('\n'),
                "{text:?}: {error}"
            );
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        let mut seed = 1u64;
        for _ in 0..3000 {
            let mut bytes = EXAMPLE.as_bytes().to_vec();
            for _ in 0..3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (at, what) = ((seed >> 33) as usize % bytes.len(), (seed >> 20) as usize % 14);
                bytes[at] = b" \n-:[]{}'\"#\t,x"[what];
            }
            let _ = Config::parse("c.yaml", &String::from_utf8_lossy(&bytes));
        }
        let _ = Config::parse("c.yaml", &"- ".repeat(100_000));
        let _ = Config::parse("c.yaml", &"[".repeat(100_000));
    }
}
