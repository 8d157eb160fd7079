// 300 threads, one after the other, that each spend a millisecond of CPU time or so.
use std::hint::black_box;

#[inline(never)]
fn short_work() -> u64 {
    let mut x = 1u64;
    for _ in 0..400_000 {
        x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1));
    }
    x
}

fn main() {
    for _ in 0..300 {
        black_box(std::thread::spawn(short_work).join().unwrap());
    }
}
