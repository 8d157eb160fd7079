// Two (or argv[1]) threads that spend their time under 32 functions, for argv[2] milliseconds of CPU time each.
use std::hint::black_box;

/// CPU time of this thread: a busy machine must not change how much is done.
fn cpu_nanos() -> u64 {
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanos: i64,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    }
    let mut time = Timespec { seconds: 0, nanos: 0 };
    // SAFETY: writes the thread's CPU time into a structure of the C type.
    unsafe { clock_gettime(3, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanos as u64
}

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
                    let mut sum = 0u64;
                    while cpu_nanos() < millis * 1_000_000 {
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
