// coverage THREADS MILLIS SEED: works in ten stretches, each MILLIS of CPU time of all threads together: in turns of
// random length, a fifth of them in the stretch's `wanted` function, the others in its `other` one. Prints for each
// stretch the share of CPU time that `wanted` took, by the threads' own clocks.
use std::hint::black_box;
use std::time::Duration;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanos: i64,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

fn thread_cpu() -> Duration {
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
    let mut time = Timespec { seconds: 0, nanos: 0 };
    // SAFETY: writes to the structure only.
    unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.seconds as u64, time.nanos as u32)
}

struct Random(u64);

impl Random {
    /// Returns a number from 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }
}

type Burner = fn(Duration);

macro_rules! burners {
    ($(($wanted:ident, $other:ident)),*) => {
        $(burners!(one $wanted);
        burners!(one $other);)*
        const STRETCHES: &[(Burner, Burner)] = &[$(($wanted, $other)),*];
    };
    (one $name:ident) => {
        #[inline(never)]
        fn $name(length: Duration) {
            let end = thread_cpu() + length;
            while thread_cpu() < end {
                for step in 0..5000u64 {
                    black_box(step.wrapping_mul(6364136223846793005));
                }
            }
            // Without this, the compiler makes one function of all.
            black_box(stringify!($name));
        }
    };
}

burners!(
    (wanted_0, other_0),
    (wanted_1, other_1),
    (wanted_2, other_2),
    (wanted_3, other_3),
    (wanted_4, other_4),
    (wanted_5, other_5),
    (wanted_6, other_6),
    (wanted_7, other_7),
    (wanted_8, other_8),
    (wanted_9, other_9)
);

/// Returns the CPU time of `wanted`, and of both. The turns are short beside the time between two samples: of samples
/// that share a turn, intervals know nothing.
fn work(all: Duration, random: &mut Random, (wanted, other): (Burner, Burner)) -> (Duration, Duration) {
    let (start, mut in_wanted) = (thread_cpu(), Duration::ZERO);
    while thread_cpu() - start < all {
        let turn = Duration::from_micros(20 + (random.next() * 160.0) as u64);
        if random.next() < 0.2 {
            let begin = thread_cpu();
            wanted(turn);
            in_wanted += thread_cpu() - begin;
        } else {
            other(turn);
        }
    }
    (in_wanted, thread_cpu() - start)
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [threads, millis, seed] = numbers[..] else { panic!("coverage THREADS MILLIS SEED") };
    let length = Duration::from_millis(millis) / threads as u32;
    let seed_of = move |thread: u64| (seed * 64 + thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let all_stretches = move |mut random: Random| -> Vec<(Duration, Duration)> {
        STRETCHES.iter().map(|&burners| work(length, &mut random, burners)).collect()
    };
    let workers = (0..threads).map(|at| std::thread::spawn(move || all_stretches(Random(seed_of(at)))));
    let workers: Vec<_> = workers.collect();
    let done: Vec<_> = workers.into_iter().map(|worker| worker.join().expect("no panic")).collect();
    for stretch in 0..STRETCHES.len() {
        let wanted: Duration = done.iter().map(|done| done[stretch].0).sum();
        let all: Duration = done.iter().map(|done| done[stretch].1).sum();
        println!("{}", wanted.as_secs_f64() / all.as_secs_f64());
    }
}
