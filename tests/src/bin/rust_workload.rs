//! A small busy Rust program to be recorded: three quarters of its time in one function and one quarter in another,
//! called through generics, closures and trait objects as in real Rust programs.

use std::hint::black_box;
use std::time::{Duration, Instant};

trait Step {
    fn run(&self, seed: u64) -> u64;
}

struct Heavy;
struct Light<const ROUNDS: usize>;

impl Step for Heavy {
    #[inline(never)]
    fn run(&self, seed: u64) -> u64 {
        mixed(seed, 3_000)
    }
}

impl<const ROUNDS: usize> Step for Light<ROUNDS> {
    #[inline(never)]
    fn run(&self, seed: u64) -> u64 {
        mixed(seed, ROUNDS)
    }
}

/// Inlined into both steps.
#[inline(always)]
fn mixed(seed: u64, rounds: usize) -> u64 {
    (0..rounds).fold(seed, |value, n| black_box(value.rotate_left(7) ^ (n as u64).wrapping_mul(0x9E37_79B9)))
}

#[inline(never)]
fn each(steps: &[Box<dyn Step>], seed: u64) -> u64 {
    steps.iter().map(|step| step.run(seed)).fold(0, u64::wrapping_add)
}

/// Works for at least a tenth of a second.
const LEAST_ROUNDS: u32 = 5_000;

fn main() {
    let steps: Vec<Box<dyn Step>> = vec![Box::new(Heavy), Box::new(Light::<1000>)];
    let until = Instant::now() + Duration::from_millis(800);
    let (mut sum, mut rounds) = (0_u64, 0);
    // At least a few rounds: on a busy machine, the process may not run at all during that time.
    while rounds < LEAST_ROUNDS || Instant::now() < until {
        rounds += 1;
        sum = sum.wrapping_add(each(&steps, sum));
    }
    println!("{sum}");
}
