//! Making the program's system call.

use std::ffi::c_long;
use std::sync::atomic::{AtomicPtr, Ordering};

type CFunction = unsafe extern "C-unwind" fn(c_long, ...) -> c_long;

/// The function `syscall` that the program would have without ours: the C library's, or another library's that stands
/// before it. Null until it was looked up.
static NEXT: AtomicPtr<libc::c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Looks up the next function of this name. Before, and where there is none, the kernel is called directly; so it is in
/// programs that are linked statically, where there is nobody to ask.
pub(super) fn prepare() {
    if cfg!(target_feature = "crt-static") {
        return;
    }
    // SAFETY: looks up a name; the result is checked.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"syscall".as_ptr()) };
    NEXT.store(next, Ordering::Release);
}

/// Does what the C library's `syscall` does.
///
/// # Safety
/// As for `syscall`: the arguments must be right for the call.
#[inline(always)]
pub(super) unsafe fn forward(number: c_long, arguments: [c_long; 6]) -> c_long {
    let next = NEXT.load(Ordering::Acquire);
    let [a, b, c, d, e, f] = arguments;
    if next.is_null() {
        // SAFETY: the caller's promise.
        return result(unsafe { kernel(number, arguments) });
    }
    // SAFETY: `dlsym` returned this as the function of that name, which has this type.
    let next: CFunction = unsafe { std::mem::transmute::<*mut libc::c_void, CFunction>(next) };
    // SAFETY: the caller's promise.
    unsafe { next(number, a, b, c, d, e, f) }
}

/// Turns the kernel's answer into the C library's: -1 and `errno` for an error.
fn result(answer: c_long) -> c_long {
    if !(-4095..0).contains(&answer) {
        return answer;
    }
    set_errno(-answer as i32);
    -1
}

pub(super) fn errno() -> i32 {
    // SAFETY: `errno` of this thread is always there.
    unsafe { *libc::__errno_location() }
}

pub(super) fn set_errno(value: i32) {
    // SAFETY: `errno` of this thread is always there.
    unsafe { *libc::__errno_location() = value };
}

/// # Safety
/// The arguments must be right for the call.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn kernel(number: c_long, [a, b, c, d, e, f]: [c_long; 6]) -> c_long {
    let answer;
    // SAFETY: the kernel's calling convention; it changes rax, rcx and r11, and what the call itself is asked to change.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => answer,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    answer
}

/// # Safety
/// The arguments must be right for the call.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn kernel(number: c_long, [a, b, c, d, e, f]: [c_long; 6]) -> c_long {
    let answer;
    // SAFETY: the kernel's calling convention; it changes x0, and what the call itself is asked to change.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => answer,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack)
        );
    }
    answer
}

/// Never called: the macro defines `syscall` on the machines above only.
///
/// # Safety
/// None.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn kernel(_: c_long, _: [c_long; 6]) -> c_long {
    -c_long::from(libc::ENOSYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_errno_are_those_of_the_c_library() {
        let null = [0; 6];
        for _ in 0..2 {
            set_errno(77);
            // SAFETY: a call without arguments.
            let own = unsafe { forward(libc::SYS_getpid, null) };
            assert_eq!(
                (own, errno()),
                (c_long::from(std::process::id() as i32), 77),
                "success leaves errno alone"
            );
            // SAFETY: closes no file.
            let failed = unsafe { forward(libc::SYS_close, [-1, 0, 0, 0, 0, 0]) };
            assert_eq!((failed, errno()), (-1, libc::EBADF));
            // Six arguments arrive.
            let flags = c_long::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: a new mapping, unmapped below.
            let mapped = unsafe { forward(libc::SYS_mmap, [0, 4096, libc::PROT_READ.into(), flags, -1, 0]) };
            assert!(mapped > 0);
            // SAFETY: mapped just now.
            assert_eq!(unsafe { forward(libc::SYS_munmap, [mapped, 4096, 0, 0, 0, 0]) }, 0);
            // The second time through the C library.
            prepare();
        }
    }
}
