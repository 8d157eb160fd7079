//! A small axum service with flamelet in it.
//!
//! ```text
//! cargo run --release -p axum-service -- --listen 127.0.0.1:3000
//!
//! curl 'http://127.0.0.1:3000/burn?ms=2000'                       # give it something to do
//! go tool pprof 'http://127.0.0.1:3000/debug/pprof/profile?seconds=5'
//!
//! curl 'http://127.0.0.1:3000/queue?ms=200'                      # requests that wait
//! flamelet requests http://127.0.0.1:3000                         # for what, and how long
//! ```

mod load;
mod routes;
mod waits;

use axum::Router;
use axum::routing::get;
use flamelet::{Continuous, History, Profiler};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tracing_subscriber::layer::SubscriberExt;

// Enables heap profiles. With the features of the same names: (jemalloc), (mimalloc).
flamelet::global_allocator!();
// Makes locks visible.
flamelet::lock_profiling!();
// Samples threads from their first instruction.
flamelet::thread_sampling!();

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Spans: samples carry their path, and /debug/pprof/spans has their times.
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(flamelet::spans::layer()))?;
    let options = Options::parse(std::env::args().skip(1)).inspect_err(|_| eprintln!("{USAGE}"))?;
    // Everything has a default; with continuous sampling, `?last=60` answers at once.
    let mut builder = Profiler::builder().name("axum-service").continuous(Continuous::default());
    if let Some(folder) = &options.history {
        // With a history on disk, `?from=-2h` answers, also after a restart.
        // With PYROSCOPE_SERVER_ADDRESS set, it is pushed there too.
        builder = builder.history(History::new(folder).window(options.window)).push_from_environment();
    }
    let profiler = builder.start()?;
    // For OpenTelemetry's eBPF profiler: the service's name, and the trace that each thread works on.
    if let Err(error) = profiler.publish_context() {
        eprintln!("{error}");
    }
    let app = Router::new()
        .route("/", get(routes::home))
        .route("/burn", get(routes::burn))
        .route("/allocate", get(routes::allocate))
        .route("/wait", get(routes::wait))
        .with_state(routes::Shelf::default())
        .merge(waits::routes())
        // Watches the requests of all routes above.
        .layer(flamelet::axum::layer(&profiler))
        .merge(flamelet::axum::router(profiler.clone()));
    let listener = tokio::net::TcpListener::bind(options.listen).await?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}/, profiles at http://{address}/debug/pprof/");
    if options.busy {
        load::start();
    }
    let shutdown = async move {
        shutdown_requested().await;
        // Captures end with what they have, so that nothing waits for them.
        profiler.shutdown();
    };
    let served = axum::serve(listener, app).with_graceful_shutdown(shutdown).into_future();
    tokio::select! {
        served = served => Ok(served?),
        // Exit at once: dropping the runtime would wait for blocking work.
        () = patience() => std::process::exit(0),
    }
}

const USAGE: &str = "usage: axum-service [--listen ADDRESS:PORT] [--busy] [--history FOLDER [--window SECONDS]]\n\
                     --listen   where to listen (127.0.0.1:3000; port 0 for a free one)\n\
                     --busy     work all the time, so that there is something to see without requests\n\
                     --history  keep CPU samples in this folder, so that the past can be profiled\n\
                     --window   the length of its windows in seconds (10)";

/// The command line.
struct Options {
    listen: SocketAddr,
    busy: bool,
    history: Option<PathBuf>,
    window: Duration,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        // Loopback: only users of this machine can take profiles.
        let listen = SocketAddr::from(([127, 0, 0, 1], 3000));
        let mut options = Self { listen, busy: false, history: None, window: Duration::from_secs(10) };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--listen" => {
                    let value = arguments.next().ok_or("--listen needs an address")?;
                    options.listen = value.parse().map_err(|_| format!("{value:?} is not ADDRESS:PORT"))?;
                }
                "--busy" => options.busy = true,
                "--history" => {
                    let value = arguments.next().ok_or("--history needs a folder")?;
                    options.history = Some(value.into());
                }
                "--window" => {
                    let value = arguments.next().ok_or("--window needs a number of seconds")?;
                    let seconds =
                        value.parse().map_err(|_| format!("{value:?} is not a number of seconds"))?;
                    options.window =
                        Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
                }
                "-h" | "--help" => {
                    println!("{USAGE}");
                    std::process::exit(0);
                }
                other => return Err(format!("{other:?} is not an option")),
            }
        }
        Ok(options)
    }
}

/// How long requests in flight may take at shutdown.
const GRACE: Duration = Duration::from_secs(2);

async fn patience() {
    shutdown_requested().await;
    tokio::time::sleep(GRACE).await;
}

/// Waits for Ctrl-C, or for SIGTERM, which container runtimes send.
async fn shutdown_requested() {
    tokio::select! {
        () = interrupted() => {}
        () = terminated() => {}
    }
}

async fn interrupted() {
    // Without a signal handler the service continues.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(unix)]
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};

    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => drop(terminate.recv().await),
        Err(_) => std::future::pending().await,
    }
}

#[cfg(not(unix))]
async fn terminated() {
    std::future::pending().await
}
