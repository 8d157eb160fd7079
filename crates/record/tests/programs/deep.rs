// Two (or argv[1]) threads that spend their time under 32 functions, for argv[2] milliseconds of CPU time each.
use std::hint::black_box;
use std::time::{Duration, Instant};

#[inline(never)]
fn descend(depth: u32, work: u64) -> u64 {
    let here = black_box([depth as u64; 12]);
    let below = if depth == 0 { spin(work) } else { descend(depth - 1, work) };
    black_box(below + here[3])
}

#[inline(never)]
fn spin(work: u64) -> u64 {
    let mut x = work;
    for _ in 0..work {
        x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1));
    }
    x
}

fn main() {
    let mut args = std::env::args().skip(1);
    let threads: usize = args.next().map_or(2, |a| a.parse().unwrap());
    let millis: u64 = args.next().map_or(500, |a| a.parse().unwrap());
    let started: Vec<_> = (0..threads)
        .map(|n| {
            std::thread::Builder::new()
                .name(format!("worker-{n}"))
                .spawn(move || {
                    let end = Instant::now() + Duration::from_millis(millis);
                    let mut sum = 0u64;
                    while Instant::now() < end {
                        sum = sum.wrapping_add(descend(30, 20_000));
                    }
                    sum
                })
                .unwrap()
        })
        .collect();
    let sum = started.into_iter().fold(0u64, |a, t| a.wrapping_add(t.join().unwrap()));
    black_box(sum);
}
