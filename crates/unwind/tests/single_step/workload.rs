//! The workload for single-stepping: a bit of everything a service does, from computing to signal handlers.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::hint::black_box;

/// Works once, stops for the tracer, works, and stops again.
pub(crate) fn run() {
    round();
    // SAFETY: stops this process until the tracer goes on.
    unsafe { libc::raise(libc::SIGSTOP) };
    round();
    // SAFETY: as above.
    unsafe { libc::raise(libc::SIGSTOP) };
}

fn round() {
    black_box(compute(black_box(900)));
    black_box(copy(black_box(5000)));
    black_box(sort(black_box(60)));
    black_box(allocate(black_box(40)));
    black_box(recurse(black_box(60)));
    black_box(large_frame(black_box(3)));
    system_calls();
    clocks();
    format_and_parse();
    catch_a_panic();
    handle_a_signal();
    read_a_file();
}

#[inline(never)]
fn compute(n: u64) -> u64 {
    (0..n).fold(1u64, |hash, i| (hash ^ i).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7))
}

#[inline(never)]
fn copy(n: usize) -> usize {
    let from = vec![7u8; n];
    let mut to = vec![0u8; n];
    to.copy_from_slice(&from);
    to.copy_within(1.., 0);
    to.iter().position(|&byte| byte == 9).unwrap_or(n)
}

extern "C" fn by_value(a: *const libc::c_void, b: *const libc::c_void) -> libc::c_int {
    // SAFETY: `qsort` passes two elements of the array.
    let (a, b) = unsafe { (*a.cast::<u32>(), *b.cast::<u32>()) };
    libc::c_int::from(a > b) - libc::c_int::from(a < b)
}

#[inline(never)]
fn sort(n: u32) -> u32 {
    let mut values: Vec<u32> = (0..n).map(|i| i.wrapping_mul(2_654_435_761) >> 7).collect();
    // SAFETY: the array has `n` elements of four bytes.
    unsafe { libc::qsort(values.as_mut_ptr().cast(), values.len(), 4, Some(by_value)) };
    values.reverse();
    values.sort_unstable();
    values[0]
}

#[inline(never)]
fn allocate(n: usize) -> usize {
    let mut boxes: Vec<Vec<u8>> = (0..n).map(|i| vec![1; i * 37]).collect();
    boxes.iter_mut().for_each(|bytes| bytes.extend_from_slice(&[2; 700]));
    let map: HashMap<usize, usize> = boxes.iter().map(Vec::len).enumerate().collect();
    let tree: BTreeMap<usize, usize> = map.iter().map(|(a, b)| (*b, *a)).collect();
    drop(vec![0u8; 1 << 20]);
    tree.values().sum()
}

#[inline(never)]
fn recurse(n: u32) -> u32 {
    if n == 0 { compute(3) as u32 } else { recurse(black_box(n - 1)).wrapping_add(n) }
}

#[inline(never)]
fn large_frame(n: u8) -> u64 {
    let mut space = [0u8; 120_000];
    space[usize::from(n) * 1000] = n;
    black_box(&mut space);
    compute(20) + u64::from(space[3000])
}

#[inline(never)]
fn system_calls() {
    for _ in 0..5 {
        // SAFETY: system calls without effect.
        unsafe {
            libc::getppid();
            libc::sched_yield();
            libc::syscall(libc::SYS_getpid);
        }
    }
}

#[inline(never)]
fn clocks() {
    for _ in 0..5 {
        black_box(std::time::Instant::now());
        black_box(std::time::SystemTime::now());
    }
}

#[inline(never)]
fn format_and_parse() {
    let mut text = String::new();
    for i in 0..20 {
        write!(text, "{i}:{:.3};", f64::from(i) / 7.0).expect("strings take anything");
    }
    let sum: f64 = text.split([';', ':']).filter_map(|part| part.parse::<f64>().ok()).sum();
    black_box(sum);
}

#[inline(never)]
fn catch_a_panic() {
    let result = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(black_box(5))));
    assert!(result.is_err());
}

extern "C" fn on_signal(_: libc::c_int) {
    black_box(compute(20));
}

#[inline(never)]
fn handle_a_signal() {
    // SAFETY: installs a handler that only computes, and raises its signal.
    unsafe {
        libc::signal(libc::SIGUSR1, on_signal as *const () as libc::sighandler_t);
        libc::raise(libc::SIGUSR1);
    }
}

#[inline(never)]
fn read_a_file() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    black_box(status.lines().filter(|line| line.contains("Vm")).count());
}
