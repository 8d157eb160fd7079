//! `flamelet collect`: profiles of many services, kept in a folder or a bucket that this command and SQL engines read.

mod changes;
mod names;
mod outside;
mod sql;
pub(super) mod usage;

use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::{Subcommand, ValueHint};
use flamelet_collect::config::{Config, check_listen};
use flamelet_collect::{Access, Certificate, Options, ScrapeJob, Scraper, Tenants};
use flamelet_profile::budget::parse_size;
use flamelet_profile::moment;
use signal_hook::consts::{SIGINT, SIGTERM};

use self::outside::Command;
use crate::arguments::guide::Guide;
use crate::error::{About, Failure, Result};
use crate::output;
use crate::profiles::bucket::Url;

const LISTEN: &str = "127.0.0.1:4040";
const INTERVAL: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    collect: CollectArgs,
}

#[derive(Subcommand)]
enum What {
    /// Print SQL views over the blocks, for duckdb or clickhouse
    Sql(sql::Args),
    /// Show what got slower from one version of a service to the next, beyond noise
    Changes(changes::Args),
}

#[derive(clap::Args)]
struct CollectArgs {
    /// Listen here; use port 0 for a free one [default: 127.0.0.1:4040]
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    listen: Option<String>,
    /// The folder for the profiles, which is created if necessary, or a bucket that many collectors share:
    /// s3://BUCKET/PREFIX, gs://…, az://…
    #[arg(long, value_name = "DIR|URL", value_hint = ValueHint::DirPath)]
    store: Option<PathBuf>,
    /// The folder for profiles that are accepted but not in the bucket yet [default: in ~/.local/state/flamelet/collect]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "read_only")]
    log: Option<PathBuf>,
    /// Take profiles of a service at its pprof endpoints (may be given several times)
    #[arg(long, value_name = "NAME=HOST:PORT", value_parser = parse_target)]
    scrape: Vec<(String, String)>,
    /// How long each CPU profile is, and how often other profiles are taken [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    interval: Option<Duration>,
    /// A configuration file in YAML; options on the command line override it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Check the configuration and exit
    #[arg(long)]
    check: bool,
    /// Answer queries about a folder or a bucket that other collectors write
    #[arg(long, conflicts_with = "scrape")]
    read_only: bool,
    /// Require a token from this file (one per line, after its tenant's name if it has one)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    token_file: Option<PathBuf>,
    /// Serve over TLS with this certificate in PEM, which is read again when it changes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// How often blocks are written; until then profiles are in the log, which SQL engines do not see [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    flush: Option<Duration>,
    /// How long profiles are kept [default: 7d]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    keep: Option<Duration>,
    /// The maximum size of all blocks; the oldest are removed first [default: 50GiB, no limit in a bucket]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_bytes: Option<u64>,
    /// Compare the versions of all services at this interval and report what got slower; also with --read-only
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    watch: Option<Duration>,
    /// The price of one core-hour; answers and pages then show monthly costs
    #[arg(long, value_name = "PRICE", value_parser = usage::parse_price)]
    price: Option<f64>,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Collect profiles of many services, and answer questions about them",
        examples: &[
            (
                "flamelet collect --store /var/lib/flamelet --scrape checkout=127.0.0.1:3000",
                "CPU and heap profiles of one service, continuously",
            ),
            ("flamelet collect --config collect.yaml", "many services, from a file"),
            ("flamelet collect --config collect.yaml --check", "only check the file"),
            (
                "flamelet collect --store /var/lib/flamelet --read-only --listen 127.0.0.1:4041",
                "another process that answers queries",
            ),
            ("flamelet collect sql duckdb --store /var/lib/flamelet", "views for SQL"),
            (
                "flamelet collect --store s3://profiles/eu --config collect.yaml",
                "one of many collectors that keep their profiles in a bucket",
            ),
            (
                "flamelet collect changes --store /var/lib/flamelet --from -1d",
                "what got slower with the deploys of the last day",
            ),
        ],
        more: "Pyroscope's agents, OpenTelemetry (OTLP over HTTP and gRPC), Parca's senders and `flamelet push --to URL` \
               can send profiles to the printed address, and Grafana's Pyroscope data source can query it. \
               `flamelet top DIR --service NAME --from -1h` and the other reports read the folder itself."
            .to_owned(),
        ..Guide::default()
    }
}

fn parse_target(text: &str) -> std::result::Result<(String, String), String> {
    let (name, address) = text.split_once('=').ok_or("write it as NAME=HOST:PORT")?;
    let host = address.split_once("://").map_or(address, |(_, rest)| rest);
    let has_port = host
        .split('/')
        .next()
        .and_then(|host| host.rsplit_once(':'))
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match !name.is_empty() && (has_port || address.starts_with("http")) {
        true => Ok((name.to_owned(), address.to_owned())),
        false => Err("write it as NAME=HOST:PORT".to_owned()),
    }
}

fn parse_listen(text: &str) -> std::result::Result<String, String> {
    check_listen(text).map(|()| text.to_owned())
}

fn parse_time(text: &str) -> std::result::Result<Duration, String> {
    moment::parse_length(text).ok_or_else(|| "write it as 3s, 5m or 7d".to_owned())
}

fn parse_bytes(text: &str) -> std::result::Result<u64, String> {
    parse_size(text).ok_or_else(|| "write it as 512MiB or 20GiB".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        Some(What::Sql(args)) => sql::run(args)?,
        Some(What::Changes(args)) => return changes::run(args),
        None => collect(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn collect(args: &Args) -> Result<()> {
    let plan = CollectPlan::of(&args.collect)?;
    if args.collect.check {
        let targets: usize = plan.jobs.iter().map(ScrapeJob::named_targets).sum();
        let sources: usize = plan.jobs.iter().map(ScrapeJob::sources).sum();
        let store = plan.store.display();
        let count =
            |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        let listed =
            if sources == 0 { String::new() } else { format!(", {}", count(sources, "discovery source")) };
        note!("The configuration is valid: {}{listed}, store {store}", count(targets, "target"));
        return Ok(());
    }
    plan.run()
}

/// What to do, from the command line and the configuration file.
struct CollectPlan {
    listen: String,
    store: PathBuf,
    options: Options,
    access: Access,
    certificate: Option<Certificate>,
    jobs: Vec<ScrapeJob>,
    is_read_only: bool,
}

impl CollectPlan {
    fn of(args: &CollectArgs) -> Result<Self> {
        let config = match &args.config {
            None => Config::default(),
            Some(path) => {
                let name = path.display().to_string();
                let text = configuration(&name, std::fs::read(path).about(&name)?)?;
                Config::parse(&name, &text).map_err(Failure::new)?
            }
        };
        let certificate = certificate(args, &config)?;
        let (store, place) = match (&args.store, &config.store) {
            (Some(store), _) => (store.clone(), String::new()),
            (None, Some(file)) => (file.path.clone(), place_in_config(args, file.place)),
            (None, None) => return Err(Failure::new("give the folder for the profiles with --store DIR")),
        };
        let options = options_for(&store, args.log.as_deref(), args.read_only);
        let mut options = options.map_err(|why| Failure::new(format!("{place}{why}")))?;
        options.caps = config.limits;
        options.flush = args.flush.or(config.flush).unwrap_or(options.flush);
        options.keep = args.keep.or(config.keep).unwrap_or(options.keep);
        options.keep_of = config.keep_of;
        options.max_bytes = args.max_bytes.or(config.max_bytes).unwrap_or(options.max_bytes);
        options.watch = args.watch.or(config.watch);
        options.price = args.price.or(config.price);
        options.debuginfod = config.debuginfod.unwrap_or_else(debuginfod_servers);
        let access = match (&args.token_file, &config.token_file) {
            (Some(path), _) => tokens(path)?,
            (None, Some(file)) => {
                let place = place_in_config(args, file.place);
                tokens(&file.path).map_err(|why| Failure::new(format!("{place}{why}")))?
            }
            (None, None) => Access::open(config.tenants),
        };
        let interval = args.interval.unwrap_or(INTERVAL);
        let mut jobs = config.jobs;
        if let Some(interval) = args.interval {
            jobs.iter_mut().for_each(|job| job.set_interval(interval));
        }
        for (name, address) in &args.scrape {
            let job = ScrapeJob::of_target(name, address, interval);
            job.check().map_err(|why| Failure::new(format!("--scrape {name}={address}: {why}")))?;
            jobs.push(job);
        }
        let listen = args.listen.clone().or(config.listen).unwrap_or_else(|| LISTEN.to_owned());
        Ok(Self { listen, store, options, access, certificate, jobs, is_read_only: args.read_only })
    }

    /// Opens the store.
    fn open(&self) -> Result<Tenants> {
        let options = self.options.clone();
        let Some(url) = bucket_of(&self.store) else {
            return Ok(Tenants::open(options, self.is_read_only, || Box::new(Command))?);
        };
        let bucket = Url::parse(url)?.open()?;
        Ok(Tenants::open_shared(bucket, options, self.is_read_only, || Box::new(Command))?)
    }

    fn run(self) -> Result<()> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The second one ends the process at once.
            signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())?;
            signal_hook::flag::register(signal, stop.clone())?;
        }
        let listener = TcpListener::bind(&self.listen).about(format!("--listen {}", self.listen))?;
        let address = listener.local_addr()?;
        let tenants = Arc::new(self.open()?);
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        output::line(&format!("{scheme}://{address}"))?;
        if !address.ip().is_loopback() && self.access.is_open() {
            note!(
                "Anyone who can reach {address} can send and read profiles; require a token with --token-file FILE."
            );
        }
        let jobs = if self.is_read_only { Vec::new() } else { self.jobs };
        let scraper = Scraper::start(tenants.main(), jobs)?;
        let upkeep = start_upkeep(&tenants, self.options.flush, &stop)?;
        let is_asking = !self.options.debuginfod.is_empty() && !self.is_read_only;
        let symbols = is_asking.then(|| start_symbols(&tenants, &stop)).transpose()?;
        let watch = self.options.watch.map(|every| start_watch(&tenants, every, &stop)).transpose()?;
        let stopped = stop.clone();
        flamelet_collect::serve(listener, tenants.clone(), self.access, self.certificate, move || {
            stopped.load(Ordering::Relaxed)
        })?;
        stop.store(true, Ordering::Relaxed);
        scraper.stop();
        upkeep.thread().unpark();
        let _ = upkeep.join();
        // They may be busy for minutes: the end does not wait for them.
        drop((watch, symbols));
        tenants.close();
        Ok(())
    }
}

/// Returns the text of a configuration file.
fn configuration(name: &str, bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Failure::new(format!("{name}:{line}: the line is not UTF-8"))
    })
}

/// Returns the defaults for a store: a folder, or a bucket with a folder for the log.
fn options_for(store: &Path, log: Option<&Path>, is_read_only: bool) -> Result<Options> {
    match (bucket_of(store), log) {
        (None, None) => Ok(Options::new(store)),
        (None, Some(_)) => Err(Failure::new("--log is for a bucket; a folder has its log inside")),
        (Some(_), Some(log)) => Ok(Options::shared(log)),
        (Some(url), None) if is_read_only => Url::parse(url).map(|_| Options::shared(store)),
        (Some(url), None) => Ok(Options::shared(&Url::parse(url)?.log_folder()?)),
    }
}

/// Returns the URL of a bucket, if a store is one.
fn bucket_of(store: &Path) -> Option<&str> {
    store.to_str().filter(|text| text.contains("://"))
}

/// Reads the certificate that the command line or the configuration names.
fn certificate(args: &CollectArgs, config: &Config) -> Result<Option<Certificate>> {
    let (chain, key, place) = match (&args.tls_cert, &args.tls_key, &config.tls) {
        (Some(chain), Some(key), _) => (chain, key, String::new()),
        (.., Some(files)) => (&files.cert_file, &files.key_file, place_in_config(args, files.place)),
        _ => return Ok(None),
    };
    let read = Certificate::read(chain, key).map_err(|why| Failure::new(format!("{place}{why}")))?;
    if read.is_key_exposed() {
        note!("Every user of this machine can read {}; chmod 600 keeps it secret.", key.display());
    }
    Ok(Some(read))
}

/// Formats a place in the configuration for the beginning of a message.
fn place_in_config(args: &CollectArgs, (line, column): (usize, usize)) -> String {
    let name = args.config.as_deref().unwrap_or(Path::new("")).display();
    format!("{name}:{line}:{column}: ")
}

fn tokens(path: &PathBuf) -> Result<Access> {
    let text = std::fs::read_to_string(path).about(path.display())?;
    Access::parse(&text).map_err(|why| Failure::new(format!("{}: {why}", path.display())))
}

/// How soon the first blocks of a new store are made; the time doubles with each next one, up to `--flush`. So a person who
/// tries SQL on it does not wait for minutes.
const FIRST_FLUSH: Duration = Duration::from_secs(5);

/// Starts a thread that takes turns until the end. A bug must not end it: without upkeep, the log grows until the disk is
/// full.
fn start_thread(
    name: &str,
    what: &'static str,
    stop: &Arc<AtomicBool>,
    mut turn: impl FnMut() + Send + 'static,
) -> Result<JoinHandle<()>> {
    let stop = stop.clone();
    let work = move || {
        while !stop.load(Ordering::Relaxed) {
            if catch_unwind(AssertUnwindSafe(&mut turn)).is_err() {
                note!("{what} failed (a bug in flamelet); it is tried again.");
            }
        }
    };
    Ok(std::thread::Builder::new().name(name.to_owned()).spawn(work)?)
}

/// Waits until then, or for a second.
fn wait_for(then: Instant) {
    std::thread::park_timeout(then.saturating_duration_since(Instant::now()).min(Duration::from_secs(1)));
}

/// Makes blocks at this interval, and when a great deal was accepted.
fn start_upkeep(tenants: &Arc<Tenants>, every: Duration, stop: &Arc<AtomicBool>) -> Result<JoinHandle<()>> {
    let tenants = tenants.clone();
    let mut pause = FIRST_FLUSH.min(every);
    let mut next = Instant::now() + pause;
    start_thread("upkeep", "Making blocks", stop, move || {
        wait_for(next);
        if Instant::now() < next {
            return tenants.maintain_due();
        }
        pause = (pause * 2).min(every);
        next = Instant::now() + pause;
        tenants.maintain();
        next = Instant::now() + pause;
    })
}

/// Returns the servers that the environment names.
fn debuginfod_servers() -> Vec<String> {
    servers_in(&std::env::var("DEBUGINFOD_URLS").unwrap_or_default())
}

/// Returns the URLs in a text. Fedora's also says how files are verified (`ima:enforcing`).
fn servers_in(urls: &str) -> Vec<String> {
    let is_url = |word: &&str| word.starts_with("http://") || word.starts_with("https://");
    urls.split_whitespace().filter(is_url).map(str::to_owned).collect()
}

/// Fetches symbols that are missing.
fn start_symbols(tenants: &Arc<Tenants>, stop: &Arc<AtomicBool>) -> Result<JoinHandle<()>> {
    let (tenants, is_over) = (tenants.clone(), stop.clone());
    start_thread("symbols", "Fetching symbols", stop, move || {
        std::thread::park_timeout(Duration::from_millis(200));
        tenants.fetch_symbols(&|| is_over.load(Ordering::Relaxed));
    })
}

/// Compares versions at this interval, for the first time at once.
fn start_watch(tenants: &Arc<Tenants>, every: Duration, stop: &Arc<AtomicBool>) -> Result<JoinHandle<()>> {
    let tenants = tenants.clone();
    let mut next = Instant::now();
    start_thread("watch", "Comparing versions", stop, move || {
        if Instant::now() < next {
            return wait_for(next);
        }
        next = Instant::now() + every;
        tenants.watch();
        next = Instant::now() + every;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_not_utf_8_is_named() {
        let error = configuration("c.yaml", b"store: a\n# \xfc\n".to_vec()).expect_err("not UTF-8");
        assert_eq!(error.to_string(), "c.yaml:2: the line is not UTF-8");
        assert_eq!(configuration("c.yaml", "store: ü".into()).expect("UTF-8"), "store: ü");
    }

    #[test]
    fn servers_are_urls() {
        let fedora = "ima:enforcing https://debuginfod.fedoraproject.org/ ima:ignore http://h:8002";
        assert_eq!(servers_in(fedora), ["https://debuginfod.fedoraproject.org/", "http://h:8002"]);
        assert_eq!(servers_in(" "), Vec::<String>::new());
    }
}
