//! Routes that burn CPU time, allocate, and wait.

use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Query, State};

/// Memory that requests leak.
pub(crate) type Shelf = Arc<Mutex<Vec<Vec<u8>>>>;

/// The parameters of a request.
#[derive(Clone, Copy)]
pub(crate) struct Amount {
    pub(crate) ms: u64,
    mb: usize,
}

pub(crate) type Parameters = Query<std::collections::HashMap<String, String>>;

pub(crate) fn amount(parameters: &Parameters) -> Amount {
    let number = |name: &str| parameters.get(name).and_then(|text| text.parse::<u64>().ok());
    let ms = number("ms").unwrap_or(500).min(60_000);
    let mb = number("mb").and_then(|mb| usize::try_from(mb).ok()).unwrap_or(16).min(256);
    Amount { ms, mb }
}

pub(crate) async fn home() -> &'static str {
    "/burn?ms=500  /allocate?mb=16  /wait?ms=500  /lock?ms=500  /queue?ms=500  /await?ms=500  /blocking?ms=500  \
     /debug/pprof/\n"
}

/// Three quarters of the time in one function, a quarter in another.
pub(crate) async fn burn(parameters: Parameters) -> String {
    let Amount { ms, .. } = amount(&parameters);
    // The layer gives the request the label `route`, and this carries it to a thread of tokio's pool.
    let work = flamelet::spawn_blocking(move || burn_for(Duration::from_millis(ms)));
    let rounds = work.await.unwrap_or_default();
    format!("{rounds} rounds\n")
}

pub(crate) fn burn_for(duration: Duration) -> u64 {
    let _scope = flamelet::labels! { work = "burn" };
    let _span = tracing::info_span!("burn").entered();
    let end = Instant::now() + duration;
    let mut rounds = 0;
    while Instant::now() < end {
        black_box(three_quarters(black_box(30_000)));
        black_box(one_quarter(black_box(10_000)));
        rounds += 1;
    }
    rounds
}

#[inline(never)]
fn three_quarters(steps: u64) -> u64 {
    mix(steps, 3)
}

#[inline(never)]
fn one_quarter(steps: u64) -> u64 {
    mix(steps, 1)
}

#[inline(always)]
fn mix(steps: u64, seed: u64) -> u64 {
    (0..steps).fold(seed, |state, step| black_box(state.wrapping_mul(6_364_136_223_846_793_005) ^ step))
}

/// Keeps what it allocates, up to a limit: a leak that `/debug/pprof/growth` shows.
pub(crate) async fn allocate(State(shelf): State<Shelf>, parameters: Parameters) -> String {
    let Amount { mb, .. } = amount(&parameters);
    let mut shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
    shelf.extend((0..mb).map(|_| one_megabyte()));
    let too_many = shelf.len().saturating_sub(512);
    shelf.drain(..too_many);
    format!("holding {} MB\n", shelf.len())
}

#[inline(never)]
pub(crate) fn one_megabyte() -> Vec<u8> {
    vec![1; 1 << 20]
}

pub(crate) async fn wait(parameters: Parameters) -> &'static str {
    let Amount { ms, .. } = amount(&parameters);
    tokio::time::sleep(Duration::from_millis(ms)).await;
    "waited\n"
}
