//! The pool in all orders of the threads that use it, see [`model`](crate::model).

use std::sync::Mutex;

use super::pool::{Pool, SampleRecord};
use crate::model::{Work, explore};

const SLOTS: usize = 3;

/// A pool, and what came out of it in the run.
struct SharedPool {
    pool: Pool,
    drained: Mutex<Vec<u64>>,
    submitted: Mutex<Vec<u64>>,
}

fn shared() -> SharedPool {
    let pool = Pool::new(SLOTS, 4).expect("memory");
    SharedPool { pool, drained: Mutex::default(), submitted: Mutex::default() }
}

fn submit(shared: &SharedPool, value: u64) {
    let Some(mut taken) = shared.pool.take() else { return };
    taken.frames().fill(value);
    taken.submit(SampleRecord { time: value, depth: 4, ..SampleRecord::default() });
    shared.submitted.lock().expect("no panic").push(value);
}

fn drain(shared: &SharedPool) {
    shared.pool.drain(|record, frames| {
        assert!(frames.iter().all(|&frame| frame == record.time), "another sample's frames");
        shared.drained.lock().expect("no panic").push(record.time);
    });
}

/// Takes two slots and gives one back unused: so the first slot of the list is the same again, and what follows
/// it is not.
fn take_two_and_give_one_back(shared: &SharedPool) {
    let (first, second) = (shared.pool.take(), shared.pool.take());
    first.into_iter().for_each(|taken| taken.give_back());
    if let Some(mut taken) = second {
        taken.frames().fill(20);
        taken.submit(SampleRecord { time: 20, depth: 4, ..SampleRecord::default() });
        shared.submitted.lock().expect("no panic").push(20);
    }
}

/// Checks that everything that was submitted came out once, and that all slots are free again.
fn is_whole(shared: &SharedPool) -> Result<(), String> {
    drain(shared);
    let (mut drained, mut submitted) =
        (shared.drained.lock().expect("no panic"), shared.submitted.lock().expect("no panic"));
    drained.sort_unstable();
    submitted.sort_unstable();
    let mut free: Vec<_> = std::iter::from_fn(|| shared.pool.take()).take(SLOTS + 1).collect();
    let mut places: Vec<_> = free.iter_mut().map(|taken| taken.frames().as_ptr().addr()).collect();
    places.sort_unstable();
    places.dedup();
    if *drained == *submitted && places.len() == SLOTS && free.len() == SLOTS {
        return Ok(());
    }
    Err(format!("{submitted:?} became {drained:?}, and {} slots are free", places.len()))
}

#[test]
fn the_pool_loses_and_doubles_nothing_in_any_order() {
    let models: [&[Work<SharedPool>]; 4] = [
        &[|shared| submit(shared, 1), take_two_and_give_one_back],
        &[|shared| submit(shared, 1), |shared| submit(shared, 2), drain],
        &[|shared| (1..=3).for_each(|value| submit(shared, value)), drain],
        &[|shared| (1..=2).for_each(|value| submit(shared, value)), drain, drain],
    ];
    for (number, works) in models.into_iter().enumerate() {
        let runs = explore(shared, works, is_whole);
        println!("model {number}: {runs:?} runs");
        assert!(runs.as_ref().is_ok_and(|&runs| runs > 100), "model {number}: {runs:?}");
    }
}
