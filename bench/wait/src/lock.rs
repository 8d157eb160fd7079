//! An uncontended lock.

use std::sync::Mutex;

/// The time of a pair of lock and unlock.
pub(crate) fn run() {
    crate::watch::start();
    let lock = Mutex::new(0u64);
    let nanos = crate::clock::least_nanos(400, 50_000, || {
        *std::hint::black_box(&lock).lock().expect("no panic") += 1;
    });
    println!("{{\"lock_ns\":{nanos:.3}}}");
}
