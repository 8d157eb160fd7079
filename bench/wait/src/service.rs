//! The service: each request looks into a cache behind a lock, waits for a place in a pool, and lets another task render its
//! answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use tokio::sync::{Semaphore, oneshot};

use crate::watch;

#[derive(Clone)]
struct Shared {
    cache: Arc<Mutex<HashMap<u64, u64>>>,
    pool: Arc<Semaphore>,
    next: Arc<AtomicU64>,
}

/// Serves at a free port, which it prints.
pub(crate) fn run() {
    watch::run(async {
        let shared = Shared {
            cache: Arc::new(Mutex::new(HashMap::new())),
            pool: Arc::new(Semaphore::new(16)),
            next: Arc::new(AtomicU64::new(0)),
        };
        let app = watch::router(Router::new().route("/work/{id}", get(work)).with_state(shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        println!("{}", listener.local_addr().expect("bound"));
        axum::serve(listener, app).await.expect("serves");
    });
}

async fn work(State(shared): State<Shared>) -> String {
    let key = shared.next.fetch_add(1, Ordering::Relaxed) % 256;
    let seen = {
        let mut cache = shared.cache.lock().expect("no panic");
        let seen = cache.entry(key).or_default();
        *seen += 1;
        *seen
    };
    let permit = watch::awaiting("pool", shared.pool.acquire()).await.expect("open");
    let (send, receive) = oneshot::channel();
    watch::spawn(async move {
        tokio::task::yield_now().await;
        let _ = send.send(render(key, seen));
    });
    let text = watch::awaiting("render", receive).await.expect("rendered");
    drop(permit);
    text
}

/// Some tens of microseconds of work, and a few allocations.
#[inline(never)]
fn render(key: u64, seen: u64) -> String {
    let mut hash = key ^ seen;
    let mut text = String::new();
    for line in 0..24u64 {
        for step in 0..600 {
            hash = (hash ^ step).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7);
        }
        text.push_str(&format!("{line}: {hash:016x}\n"));
    }
    text
}
