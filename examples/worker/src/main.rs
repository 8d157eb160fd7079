//! A worker that takes jobs from a queue, without an HTTP server or an async runtime. `flamelet::serve` gives it the
//! endpoints on a port of their own.
//!
//! ```text
//! cargo run --release -p worker
//! flamelet top 'http://127.0.0.1:6060/debug/pprof/profile?seconds=5'
//! flamelet top 'http://127.0.0.1:6060/debug/pprof/block'    # where its threads wait for jobs
//! ```

use std::hint::black_box;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

// Enables heap profiles and lock profiles.
flamelet::global_allocator!();
flamelet::lock_profiling!();

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:6060".to_owned());
    let server = flamelet::serve(address)?;
    println!("profiles at http://{}/debug/pprof/", server.address());

    let (jobs, queue) = sync_channel(16);
    std::thread::Builder::new().name("producer".into()).spawn(move || produce(&jobs))?;
    consume(&queue);
    Ok(())
}

fn produce(jobs: &SyncSender<u64>) {
    let mut job = 0;
    while jobs.send(job).is_ok() {
        job += 1;
    }
}

fn consume(queue: &Receiver<u64>) {
    for job in queue {
        // The samples of this job carry its kind.
        let _scope = flamelet::labels! { job = if job % 4 == 0 { "large" } else { "small" } };
        black_box(compute(black_box(if job % 4 == 0 { 400_000 } else { 100_000 })));
    }
}

#[inline(never)]
fn compute(steps: u64) -> u64 {
    (0..steps).fold(1, |state, step| black_box(state.wrapping_mul(6_364_136_223_846_793_005) ^ step))
}
