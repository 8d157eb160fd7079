//! Routes that wait, each for something else.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tokio::sync::Semaphore;

use crate::routes::{Parameters, amount};

pub(crate) fn routes() -> Router {
    Router::new()
        .route("/lock", get(lock))
        .route("/queue", get(queue))
        .route("/await", get(await_timer))
        .route("/blocking", get(blocking))
}

fn time(parameters: &Parameters) -> Duration {
    Duration::from_millis(amount(parameters).ms)
}

/// Sleeps with a lock held: one request at a time, and the others block their threads.
async fn lock(parameters: Parameters) -> &'static str {
    static LOCK: Mutex<()> = Mutex::new(());
    let held = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::sleep(time(&parameters));
    drop(held);
    "had the lock\n"
}

/// One request at a time; the others await their turn.
async fn queue(parameters: Parameters) -> &'static str {
    static PERMITS: Semaphore = Semaphore::const_new(1);
    let permit = PERMITS.acquire().await;
    tokio::time::sleep(time(&parameters)).await;
    drop(permit);
    "had the permit\n"
}

async fn await_timer(parameters: Parameters) -> &'static str {
    tokio::time::sleep(time(&parameters)).await;
    "awaited\n"
}

/// Blocks a thread of the executor, which it should not.
async fn blocking(parameters: Parameters) -> &'static str {
    std::thread::sleep(time(&parameters));
    "blocked\n"
}
