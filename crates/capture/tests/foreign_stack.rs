//! Code that runs on its own stack, as coroutines do, whose bottom has no valid return address: its samples are kept,
//! marked and counted as truncated, and nothing ever faults.

#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
#![allow(unsafe_code, reason = "makes a stack and jumps to it")]

mod support;

use flamelet_capture::cpu::{self, Options};
use flamelet_profile::Profile;
use std::cell::Cell;
use std::time::{Duration, Instant};
use support::{Names, burn_blue, burn_red, is_truncated};

const STACK: usize = 256 << 10;
const PAGE: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(60);
const ENOUGH: i64 = 30;

thread_local! {
    static BACK: Cell<*const libc::ucontext_t> = const { Cell::new(std::ptr::null()) };
}

/// Uses CPU time on the foreign stack until there are enough samples, and jumps back.
extern "C" fn on_the_foreign_stack() {
    burn_until_sampled();
    // SAFETY: continues where the context was saved. This function must not return: there is nowhere to go.
    unsafe { libc::setcontext(BACK.get()) };
}

#[inline(never)]
fn burn_until_sampled() {
    let (begin, before) = (Instant::now(), cpu::status().samples);
    while cpu::status().samples < before + ENOUGH as u64 && begin.elapsed() < PATIENCE {
        burn_red(Duration::from_millis(20));
    }
}

/// Runs [`on_the_foreign_stack`] on memory that is followed by an unreadable page; it would return to `bottom`.
fn run_above(bottom: u64) {
    // SAFETY: the stack is new memory with a page above it that must not be touched; the contexts and the stack outlive
    // the switch there and back; `makecontext` left the return address where the stack pointer is.
    unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let stack = libc::mmap(std::ptr::null_mut(), STACK + PAGE, access, kind, -1, 0);
        assert_ne!(stack, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(stack.byte_add(STACK), PAGE, libc::PROT_NONE), 0);
        let mut here: libc::ucontext_t = std::mem::zeroed();
        let mut there: libc::ucontext_t = std::mem::zeroed();
        assert_eq!(libc::getcontext(&raw mut there), 0);
        (there.uc_stack.ss_sp, there.uc_stack.ss_size) = (stack, STACK);
        libc::makecontext(&raw mut there, on_the_foreign_stack, 0);
        // As high as a stack pointer can be there when a function is called.
        let top = stack.byte_add(STACK - 8).cast::<u64>();
        *top = bottom;
        there.uc_mcontext.gregs[libc::REG_RSP as usize] = top as i64;
        there.uc_mcontext.gregs[libc::REG_RBP as usize] = 0;
        BACK.set(&raw const here);
        assert_eq!(libc::swapcontext(&raw mut here, &raw const there), 0);
        assert_eq!(libc::munmap(stack, STACK + PAGE), 0);
    }
}

/// Returns the number of samples on the foreign stack, and how many of them are marked as truncated.
fn on_foreign_stack(profile: &Profile, names: &Names) -> (i64, i64) {
    let mut counts = (0, 0);
    for sample in profile.samples() {
        let stack = profile.stack(sample.stack);
        if names.stack(profile, stack).iter().any(|name| name.contains("on_the_foreign_stack")) {
            counts.0 += sample.values[0];
            counts.1 += sample.values[0] * i64::from(is_truncated(profile, stack));
        }
    }
    counts
}

#[test]
fn stacks_that_lead_nowhere_are_marked_and_counted_and_never_a_fault() {
    let names = Names::new();
    // An invalid address; and the start of a function, whose caller would be in unreadable memory.
    let bottoms = [0x1234_5678_9abc, burn_blue as *const () as u64 + 1];
    for bottom in bottoms {
        let mut options = Options::with_frequency(499);
        options.overhead_budget = None;
        let session = cpu::start(&options).expect("starts");
        let thread = std::thread::spawn(move || {
            run_above(bottom);
            burn_blue(Duration::from_millis(100))
        });
        thread.join().expect("no panic");
        let profile = session.finish();
        let (there, marked) = on_foreign_stack(&profile, &names);
        let quality = profile.quality.expect("said");
        println!("{there} samples there, {marked} marked, {quality:?}");
        assert!(there >= ENOUGH / 2, "{there} samples");
        assert!(marked * 10 >= there * 9, "{marked} of {there} are marked");
        assert!(quality.truncated >= marked as u64, "{quality:?}");
        let has = |stack: &[&str], part: &str| stack.iter().any(|name| name.contains(part));
        let home =
            names.sum(&profile, |stack| has(stack, "burn_blue") && !has(stack, "on_the_foreign_stack"));
        assert!(home > Duration::ZERO, "the thread goes on as before");
    }
}
