// Sleeps, waits for a lock that another thread holds meanwhile, and works. Prints how long its main thread slept,
// waited, worked and lived, by its own clock, in nanoseconds.
use std::hint::black_box;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

#[inline(never)]
fn sleepy() -> u128 {
    let start = Instant::now();
    for _ in 0..10 {
        std::thread::sleep(black_box(Duration::from_millis(20)));
    }
    start.elapsed().as_nanos()
}

#[inline(never)]
fn contended(lock: &Mutex<u32>) -> u128 {
    let start = Instant::now();
    *lock.lock().unwrap() += 1;
    start.elapsed().as_nanos()
}

#[inline(never)]
fn busy() -> u128 {
    let start = Instant::now();
    let mut x = 1u64;
    for _ in 0..60_000_000 {
        x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1));
    }
    start.elapsed().as_nanos()
}

fn main() {
    let start = Instant::now();
    let slept = sleepy();
    let lock = Arc::new(Mutex::new(0));
    let both = Arc::new(Barrier::new(2));
    let (theirs, ready) = (lock.clone(), both.clone());
    let holder = std::thread::spawn(move || {
        let held = theirs.lock().unwrap();
        ready.wait();
        std::thread::sleep(Duration::from_millis(500));
        drop(held);
    });
    both.wait();
    let waited = contended(&lock);
    let worked = busy();
    holder.join().unwrap();
    println!("{slept} {waited} {worked} {}", start.elapsed().as_nanos());
}
