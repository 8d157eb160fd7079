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
use std::time::{Duration, Instant};

use clap::{Subcommand, ValueHint};
use flamelet_collect::config::Config;
use flamelet_collect::{Access, Options, ScrapeJob, Scraper, Tenants};
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
    /// Print views over the blocks for an engine that reads Parquet: duckdb or clickhouse
    Sql(sql::Args),
    /// Say what got slower from one version of a service to the next, beyond noise
    Changes(changes::Args),
}

#[derive(clap::Args)]
struct CollectArgs {
    /// Listen here; use port 0 for a free one [default: 127.0.0.1:4040]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// The folder for the profiles, which is created if necessary, or a bucket that many collectors share:
    /// s3://BUCKET/PREFIX, gs://…, az://…
    #[arg(long, value_name = "DIR|URL", value_hint = ValueHint::DirPath)]
    store: Option<PathBuf>,
    /// The folder for what is accepted and not in the bucket yet [default: in ~/.local/state/flamelet/collect]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "read_only")]
    log: Option<PathBuf>,
    /// Take profiles of a service at its pprof endpoints (may be given several times)
    #[arg(long, value_name = "NAME=HOST:PORT", value_parser = parse_target)]
    scrape: Vec<(String, String)>,
    /// How long each CPU profile is, and how often other profiles are taken [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    interval: Option<Duration>,
    /// A configuration file in YAML; options given here win
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Check the configuration and exit
    #[arg(long)]
    check: bool,
    /// Answer queries about a folder or a bucket that other collectors write
    #[arg(long, conflicts_with = "scrape")]
    read_only: bool,
    /// Require one of the tokens in this file: one a line, after the name of its tenant if it has one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    token_file: Option<PathBuf>,
    /// How often blocks are written; until then profiles are in the log, which SQL engines do not see [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    flush: Option<Duration>,
    /// How long profiles are kept [default: 7d]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    keep: Option<Duration>,
    /// The most bytes of all blocks; the oldest are removed first [default: 50GiB, no limit in a bucket]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_bytes: Option<u64>,
    /// Compare the versions of all services this often, and say what got slower; also with --read-only
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    watch: Option<Duration>,
    /// What a core costs in an hour: answers and pages then say what services and functions cost in a month
    #[arg(long, value_name = "PRICE", value_parser = usage::parse_price)]
    price: Option<f64>,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Collect profiles of many services, and answer questions about them",
        examples: &[
            (
                "flamelet collect --store /var/lib/flamelet --scrape checkout=127.0.0.1:3000",
                "CPU and heap profiles of one service, again and again",
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
        more: "Pyroscope's agents, OpenTelemetry (OTLP over HTTP and gRPC), Parca's senders and `flamelet push --to URL`\n\
               can send profiles to the printed address, and Grafana's Pyroscope data source can read there.\n\
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

fn parse_time(text: &str) -> std::result::Result<Duration, String> {
    let nanos =
        moment::parse_span(text).and_then(|nanos| u64::try_from(nanos).ok()).filter(|&nanos| nanos > 0);
    nanos.map(Duration::from_nanos).ok_or_else(|| "write it as 3s, 5m or 7d".to_owned())
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
        let listed = if sources == 0 { String::new() } else { format!(", {sources} discovery sources") };
        let store = plan.store.display();
        note!("The configuration is valid: {targets} targets{listed}, store {store}");
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
    jobs: Vec<ScrapeJob>,
    is_read_only: bool,
}

impl CollectPlan {
    fn of(args: &CollectArgs) -> Result<Self> {
        let config = match &args.config {
            None => Config::default(),
            Some(path) => {
                let text = std::fs::read_to_string(path).about(path.display())?;
                Config::parse(&path.display().to_string(), &text).map_err(Failure::new)?
            }
        };
        let store = args.store.clone().or_else(|| config.store.clone());
        let store = store.ok_or_else(|| Failure::new("give the folder for the profiles with --store DIR"))?;
        let mut options = options_for(&store, args.log.as_deref(), args.read_only)?;
        options.caps = config.limits;
        options.flush = args.flush.or(config.flush).unwrap_or(options.flush);
        options.keep = args.keep.or(config.keep).unwrap_or(options.keep);
        options.keep_of = config.keep_of;
        options.max_bytes = args.max_bytes.or(config.max_bytes).unwrap_or(options.max_bytes);
        options.watch = args.watch.or(config.watch);
        options.price = args.price.or(config.price);
        let access = match args.token_file.as_ref().or(config.token_file.as_ref()) {
            None => Access::open(config.tenants),
            Some(path) => tokens(path)?,
        };
        let interval = args.interval.unwrap_or(INTERVAL);
        let mut jobs = config.jobs;
        if let Some(interval) = args.interval {
            jobs.iter_mut().for_each(|job| job.set_interval(interval));
        }
        jobs.extend(args.scrape.iter().map(|(name, address)| ScrapeJob::of_target(name, address, interval)));
        let listen = args.listen.clone().or(config.listen).unwrap_or_else(|| LISTEN.to_owned());
        Ok(Self { listen, store, options, access, jobs, is_read_only: args.read_only })
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
        output::line(&format!("http://{address}"))?;
        if !address.ip().is_loopback() && self.access.is_open() {
            note!(
                "Anyone who can reach {address} can send and read profiles; require a token with --token-file FILE."
            );
        }
        let jobs = if self.is_read_only { Vec::new() } else { self.jobs };
        let scraper = Scraper::start(tenants.main(), jobs)?;
        let upkeep = start_upkeep(&tenants, self.options.flush, &stop)?;
        let watch = self.options.watch.map(|every| start_watch(&tenants, every, &stop)).transpose()?;
        let stopped = stop.clone();
        flamelet_collect::serve(listener, tenants.clone(), self.access, move || {
            stopped.load(Ordering::Relaxed)
        })?;
        stop.store(true, Ordering::Relaxed);
        scraper.stop();
        upkeep.thread().unpark();
        let _ = upkeep.join();
        // It only reads, perhaps for minutes: the end does not wait for it.
        drop(watch);
        tenants.close();
        Ok(())
    }
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

fn tokens(path: &PathBuf) -> Result<Access> {
    let text = std::fs::read_to_string(path).about(path.display())?;
    Access::parse(&text).map_err(|why| Failure::new(format!("{}: {why}", path.display())))
}

/// When the first blocks of a new store are made; the next ones at twice the time, up to `--flush`. Whoever tries it with
/// SQL does not wait for minutes.
const FIRST_FLUSH: Duration = Duration::from_secs(5);

/// Starts a thread that makes blocks at this interval, and when very much was accepted.
fn start_upkeep(
    tenants: &Arc<Tenants>,
    every: Duration,
    stop: &Arc<AtomicBool>,
) -> Result<std::thread::JoinHandle<()>> {
    let (tenants, stop) = (tenants.clone(), stop.clone());
    let work = move || {
        let mut pause = FIRST_FLUSH.min(every);
        let mut next = Instant::now() + pause;
        while !stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(
                next.saturating_duration_since(Instant::now()).min(Duration::from_secs(1)),
            );
            let is_due = Instant::now() >= next;
            // A bug must not end it: without it, the log grows until the disk is full.
            let outcome = catch_unwind(AssertUnwindSafe(|| match is_due {
                true => tenants.maintain(),
                false => tenants.maintain_due(),
            }));
            if outcome.is_err() {
                note!("Making blocks failed (a bug in flamelet); it is tried again.");
            }
            if is_due || outcome.is_err() {
                pause = (pause * 2).min(every);
                next = Instant::now() + pause;
            }
        }
    };
    Ok(std::thread::Builder::new().name("upkeep".to_owned()).spawn(work)?)
}

/// Starts a thread that compares versions at this interval, for the first time at once.
fn start_watch(
    tenants: &Arc<Tenants>,
    every: Duration,
    stop: &Arc<AtomicBool>,
) -> Result<std::thread::JoinHandle<()>> {
    let (tenants, stop) = (tenants.clone(), stop.clone());
    let work = move || {
        let mut next = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now < next {
                std::thread::park_timeout(next.saturating_duration_since(now).min(Duration::from_secs(1)));
                continue;
            }
            // A bug must not end it.
            if catch_unwind(AssertUnwindSafe(|| tenants.watch())).is_err() {
                note!("Comparing versions failed (a bug in flamelet); it is tried again.");
            }
            next = Instant::now() + every;
        }
    };
    Ok(std::thread::Builder::new().name("watch".to_owned()).spawn(work)?)
}
