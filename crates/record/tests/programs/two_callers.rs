// Two callers alternate every 30 µs or so, above a frame that is larger than any dump (argv[1] picks the
// size). With a file as argv[3], the frames are small until that exists. The leaf shows which caller is right: `leaf_a` runs only under `caller_a`.
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
fn spin(work: u64) -> u64 {
    let mut x = work;
    for _ in 0..work {
        x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1));
    }
    x
}

#[inline(never)]
fn leaf_a() -> u64 {
    black_box(spin(8_000)) + 1
}

#[inline(never)]
fn leaf_b() -> u64 {
    black_box(spin(8_000)) + 2
}

#[inline(never)]
fn frame<const N: usize>(is_a: bool) -> u64 {
    // Only its two ends are touched: the frame is large, not the work.
    let mut local = std::mem::MaybeUninit::<[u8; N]>::uninit();
    let start = black_box(local.as_mut_ptr()) as *mut u8;
    // SAFETY: the first byte of `local`.
    unsafe { start.write_volatile(1) };
    let result = if is_a { leaf_a() } else { leaf_b() };
    // SAFETY: the byte that was written above.
    black_box(result) + unsafe { start.read_volatile() } as u64
}

#[inline(never)]
fn caller_a<const N: usize>() -> u64 {
    black_box(frame::<N>(true)) ^ 1
}

#[inline(never)]
fn caller_b<const N: usize>() -> u64 {
    black_box(frame::<N>(false)) ^ 2
}

#[inline(never)]
fn alternate<const N: usize>(millis: u64) -> u64 {
    let (mut sum, start) = (0u64, cpu_nanos());
    while cpu_nanos() - start < millis * 1_000_000 {
        sum = sum.wrapping_add(caller_a::<N>());
        sum = sum.wrapping_add(caller_b::<N>());
    }
    black_box(sum)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let size = args.next().unwrap_or_default();
    let millis: u64 = args.next().map_or(1000, |a| a.parse().unwrap());
    let signal = args.next();
    let work = move || {
        while signal.as_ref().is_some_and(|file| !std::path::Path::new(file).exists()) {
            black_box(alternate::<64>(10));
        }
        if size == "small" { alternate::<64>(millis) } else { alternate::<122_000>(millis) }
    };
    let other = std::thread::Builder::new().name("alternate".to_owned()).spawn(work.clone()).unwrap();
    black_box(work());
    black_box(other.join().unwrap());
}
