//! Unwinding threads of this process: ordinary ones, deep ones, signal handlers, foreign stacks.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(unsafe_code, reason = "signal handlers and contexts")]

use flamelet_unwind::{End, Reason, Registers, Unwound, live};
use std::cell::RefCell;
use std::hint::black_box;

fn unwind() -> (Unwound, Vec<u64>) {
    let mut frames = vec![0; 2048];
    let unwound = live::unwind_here(&mut frames);
    frames.truncate(unwound.depth);
    (unwound, frames)
}

/// The file of the module at `address`.
fn module_of(address: u64) -> String {
    let modules = live::modules();
    modules.find(address).map(|module| module.name.to_string()).unwrap_or_default()
}

#[test]
fn a_thread_unwinds_to_its_start() {
    live::refresh().expect("this process can be read");
    for _ in 0..3 {
        let thread = std::thread::spawn(unwind);
        let (unwound, frames) = thread.join().expect("no panic");
        assert_eq!(unwound.end, End::Rooted, "{frames:x?}");
        assert!(frames.len() > 4);
        assert!(module_of(frames[0]).contains("live"), "{}", module_of(frames[0]));
        assert!(module_of(frames[frames.len() - 1]).contains("libc"), "threads start in libc");
    }
}

#[inline(never)]
fn recurse(depth: u32) -> (Unwound, usize) {
    if black_box(depth) == 0 {
        let (unwound, frames) = unwind();
        return (unwound, frames.len());
    }
    let found = recurse(depth - 1);
    black_box(depth);
    found
}

#[test]
fn a_thousand_frames_are_rooted() {
    live::refresh().expect("this process can be read");
    let (unwound, depth) = recurse(1000);
    assert_eq!(unwound.end, End::Rooted);
    assert!(depth > 1000);
}

/// Calls itself, and at the end unwinds to the frame that has called it.
#[inline(never)]
fn recurse_from(last: &Registers, depth: u32) -> (Unwound, Vec<u64>) {
    if black_box(depth) == 0 {
        let mut frames = vec![0; 2048];
        let unwound = live::unwind_to(last, &Registers::here(), &mut frames);
        frames.truncate(unwound.depth);
        return (unwound, frames);
    }
    let found = recurse_from(last, depth - 1);
    black_box(depth);
    found
}

#[inline(never)]
fn from_here(depth: u32) -> (Unwound, Vec<u64>) {
    let found = recurse_from(&Registers::here(), depth);
    black_box(depth);
    found
}

#[test]
fn a_walk_to_a_known_frame_ends_there() {
    live::refresh().expect("this process can be read");
    for depth in [0, 1, 300] {
        let (unwound, frames) = from_here(depth);
        assert_eq!(unwound.end, End::Truncated(Reason::OutOfStack), "{frames:x?}");
        // Those of the function that calls itself, and the one that was asked for.
        assert_eq!(frames.len(), depth as usize + 2, "{frames:x?}");
        let start = from_here as fn(u32) -> (Unwound, Vec<u64>) as usize as u64;
        let last = frames[frames.len() - 1];
        assert!((start..start + 4096).contains(&last), "{last:x} is not after {start:x}");
    }
}

#[inline(never)]
fn huge_frame() -> Unwound {
    let mut space = [0u8; 200_000];
    black_box(&mut space);
    let (unwound, _) = unwind();
    black_box(&mut space);
    unwound
}

#[test]
fn frames_over_64_kilobytes_are_passed() {
    live::refresh().expect("this process can be read");
    assert_eq!(huge_frame().end, End::Rooted);
}

thread_local! {
    static SEEN: RefCell<Option<(Unwound, Vec<u64>)>> = const { RefCell::new(None) };
}

extern "C" fn note_stack(_: libc::c_int) {
    SEEN.set(Some(unwind()));
}

fn raise_with(flags: libc::c_int) -> (Unwound, Vec<u64>) {
    // SAFETY: installs a handler for a signal that only this test raises, on this thread, where allocating
    // in the handler is fine because the signal comes at a known moment.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note_stack as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
        libc::raise(libc::SIGUSR1);
    }
    SEEN.take().expect("the handler ran")
}

#[test]
fn a_signal_handler_unwinds_into_what_it_interrupted() {
    live::refresh().expect("this process can be read");
    for flags in [0, libc::SA_ONSTACK] {
        let thread = std::thread::spawn(move || (raise_with(flags), unwind()));
        let ((unwound, frames), (_, outside)) = thread.join().expect("no panic");
        assert_eq!(unwound.end, End::Rooted, "flags {flags}: {frames:x?}");
        let roots = |frames: &[u64]| frames[frames.len() - 4..].to_vec();
        assert_eq!(roots(&frames), roots(&outside));
    }
}

/// Runs `function` on a stack of its own, as a coroutine; `prepare` may change what is at its bottom.
#[cfg(target_env = "gnu")]
fn on_another_stack(
    function: extern "C" fn(),
    prepare: impl FnOnce(&mut libc::ucontext_t),
) -> (Unwound, Vec<u64>) {
    let mut stack = vec![0u8; 256 << 10];
    // SAFETY: the contexts and the stack outlive the switch there and back.
    unsafe {
        let mut here: libc::ucontext_t = std::mem::zeroed();
        let mut there: libc::ucontext_t = std::mem::zeroed();
        assert_eq!(libc::getcontext(&raw mut there), 0);
        there.uc_stack.ss_sp = stack.as_mut_ptr().cast();
        there.uc_stack.ss_size = stack.len();
        there.uc_link = &raw mut here;
        libc::makecontext(&raw mut there, function, 0);
        prepare(&mut there);
        BACK.set(&raw const here);
        assert_eq!(libc::swapcontext(&raw mut here, &raw const there), 0);
    }
    SEEN.take().expect("the function ran")
}

#[cfg(target_env = "gnu")]
thread_local! {
    /// Where [`on_another_stack`] goes on.
    static BACK: std::cell::Cell<*const libc::ucontext_t> = const { std::cell::Cell::new(std::ptr::null()) };
}

#[cfg(target_env = "gnu")]
#[test]
fn a_foreign_stack_is_read_without_a_fault() {
    extern "C" fn on_the_other_stack() {
        SEEN.set(Some(unwind()));
    }
    live::refresh().expect("this process can be read");
    let (unwound, frames) = on_another_stack(on_the_other_stack, |_| ());
    assert!(unwound.depth >= 2, "{frames:x?}");
    assert!(module_of(frames[1]).contains("live"), "the frames of the function itself are right");
    // Only some versions of libc have a rule for the code at the bottom. The stack is complete only if that is reached.
    let ends_in_libc = module_of(frames[frames.len() - 1]).contains("libc");
    assert!(!unwound.end.is_rooted() || ends_in_libc, "{unwound:?} {frames:x?}");
}

/// A hand-made stack whose bottom is not a return address.
#[cfg(all(target_env = "gnu", target_arch = "x86_64"))]
#[test]
fn a_foreign_stack_that_leads_nowhere_is_truncated() {
    extern "C" fn on_the_other_stack() {
        SEEN.set(Some(unwind()));
        // SAFETY: continues where the context was saved. This function must not return: there is nowhere to go.
        unsafe { libc::setcontext(BACK.get()) };
    }
    const NOWHERE: u64 = 0x1234_5678_9abc;
    live::refresh().expect("this process can be read");
    let (unwound, frames) = on_another_stack(on_the_other_stack, |there| {
        let bottom = there.uc_mcontext.gregs[libc::REG_RSP as usize] as *mut u64;
        // SAFETY: `makecontext` left the return address of the function there, on the stack that it was given.
        unsafe { *bottom = NOWHERE };
        there.uc_mcontext.gregs[libc::REG_RBP as usize] = 0;
    });
    assert_eq!(unwound.end, End::Truncated(Reason::NoModule), "{frames:x?}");
    assert!(module_of(frames[1]).contains("live"), "the frames of the function itself are right");
    assert_eq!(frames.last(), Some(&(NOWHERE - 1)), "{frames:x?}");
}

#[test]
fn libraries_loaded_later_are_learned() {
    live::refresh().expect("this process can be read");
    let before = live::modules().len();
    let candidates = [c"libm.so.6", c"libz.so.1", c"libresolv.so.2", c"libanl.so.1", c"libnss_files.so.2"];
    let loaded = candidates.iter().any(|name| {
        let was = live::modules().len();
        // SAFETY: loads a library of the system.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        let changed = live::refresh().expect("this process can be read");
        !handle.is_null() && changed && live::modules().len() > was
    });
    if !loaded {
        flamelet_test_support::skip!("none of the libraries to load is there, or all were loaded already");
        return;
    }
    assert!(live::modules().len() > before);
    assert!(!live::refresh().expect("this process can be read"), "nothing changed since");
}
