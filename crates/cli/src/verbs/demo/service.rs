//! The demo's service: routes that burn CPU, allocate, wait and contend, each in a function whose name says so.

use std::collections::HashMap;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use flamelet::Profiler;

use crate::error::Result;

/// The running service; it ends with the process or when dropped.
pub(super) struct DemoService {
    address: SocketAddr,
    /// The path of its endpoints, which is random: other users of this machine cannot guess it, and so cannot profile
    /// it.
    secret: String,
    _runtime: tokio::runtime::Runtime,
}

impl DemoService {
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the profiler's endpoints.
    pub(super) fn endpoints(&self) -> String {
        format!("http://{}/{}/debug/pprof/", self.address, self.secret)
    }
}

type Orders = Arc<Mutex<HashMap<u64, Vec<u8>>>>;

/// Starts the service on a free port of loopback, with the profiler's endpoints.
pub(super) fn start(profiler: Profiler) -> Result<DemoService> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("demo-worker")
        .enable_all()
        .build()?;
    let listener = runtime.block_on(tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    let address = listener.local_addr()?;
    let secret = flamelet_view::secret()?;
    let app = Router::new()
        .route("/primes", get(primes))
        .route("/words", get(words))
        .route("/orders", get(orders))
        .route("/wait", get(wait))
        .with_state(Orders::default())
        .nest(&format!("/{secret}"), flamelet::axum::router(profiler));
    runtime.spawn(async move { axum::serve(listener, app).await });
    Ok(DemoService { address, secret, _runtime: runtime })
}

/// Burns CPU in one hot loop.
async fn primes() -> String {
    let _scope = flamelet::labels! { route = "/primes" };
    format!("{} primes", count_primes(black_box(20_000)))
}

#[inline(never)]
fn count_primes(limit: u32) -> usize {
    (2..limit).filter(|&number| is_prime(number)).count()
}

#[inline(never)]
fn is_prime(number: u32) -> bool {
    (2..).take_while(|divisor| divisor * divisor <= number).all(|divisor| !number.is_multiple_of(divisor))
}

/// Allocates and sorts.
async fn words() -> String {
    let _scope = flamelet::labels! { route = "/words" };
    let counted = count_words(black_box(2_000));
    format!("{} words", counted.len())
}

#[inline(never)]
fn count_words(words: usize) -> Vec<(String, usize)> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for number in 0..words {
        *counts.entry(format!("word-{}", number * 7919 % 500)).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts
}

/// Holds on to memory, behind a lock that all requests contend for.
async fn orders(State(orders): State<Orders>) -> String {
    let _scope = flamelet::labels! { route = "/orders" };
    let mut orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
    remember_order(&mut orders);
    format!("{} orders", orders.len())
}

#[inline(never)]
fn remember_order(orders: &mut HashMap<u64, Vec<u8>>) {
    let number = orders.len() as u64;
    // Bounded: the demo may be left running.
    let slot = number % 20_000;
    orders.insert(slot, vec![slot as u8; 4096]);
}

/// Waits, as a service waits for its database.
async fn wait() -> &'static str {
    tokio::time::sleep(Duration::from_millis(5)).await;
    "done"
}
