//! Lock profiles: which code waits for locks, and which code makes it wait.
//!
//! ```
//! flamelet::lock_profiling!();
//!
//! # fn main() -> Result<(), flamelet::Error> {
//! let profiler = flamelet::Profiler::builder().name("checkout").start()?;
//! let waiters = profiler.block()?; // as at /debug/pprof/block
//! let holders = profiler.mutex()?; // as at /debug/pprof/mutex
//! # Ok(())
//! # }
//! ```
//!
//! With the macro in the program, starting a profiler also starts counting waits: one sample for each 100 µs that a
//! thread is blocked. [`set_rate`] changes that at run time. It sees std's `Mutex`, `RwLock`, `Condvar`, `Once`,
//! channels, thread parking and joins, parking_lot's locks, and everything else in Rust that waits by futex. A lock that
//! no thread waits for costs nothing.
//!
//! It does not see locks inside C libraries, nor the locks of async code (`tokio::sync`), which block no thread.

use std::time::Duration;

use crate::Result;

/// Lets the profiler see who waits for locks. Put it once into the program, at the top level of any module of the binary.
///
/// It defines the C functions `syscall`, through which Rust code waits for locks, and `pthread_join`, by which it waits for
/// the end of threads; all calls go on to the C library, or to a library that is preloaded and defines the same functions. In
/// programs that are linked statically, calls go to the kernel, and joins are not seen.
/// On systems other than Linux on x86_64 and aarch64 it does nothing, and lock profiles are empty.
///
/// ```
/// flamelet::lock_profiling!();
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! lock_profiling {
    () => {
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
        const _: () = {
            use ::std::ffi::c_long;

            /// Takes the place of the C library's function, whose variable arguments are passed like these on the
            /// machines above.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn syscall(
                number: c_long,
                a: c_long,
                b: c_long,
                c: c_long,
                d: c_long,
                e: c_long,
                f: c_long,
            ) -> c_long {
                // SAFETY: the caller's arguments are passed on as they are.
                unsafe { $crate::locks::__syscall(number, [a, b, c, d, e, f]) }
            }
        };

        #[cfg(all(
            target_os = "linux",
            not(target_feature = "crt-static"),
            any(target_arch = "x86_64", target_arch = "aarch64")
        ))]
        const _: () = {
            use ::std::ffi::{c_int, c_void};

            /// Takes the place of the C library's function; a thread is named by a number or a pointer.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn pthread_join(thread: usize, value: *mut *mut c_void) -> c_int {
                // SAFETY: the caller's arguments are passed on as they are.
                unsafe { $crate::locks::__pthread_join(thread, value) }
            }

            /// Runs when the program is loaded.
            #[used]
            #[unsafe(link_section = ".init_array")]
            static RESOLVE: extern "C" fn() = $crate::locks::__resolve;
        };
    };
}

#[doc(hidden)]
#[cfg(target_os = "linux")]
pub use flamelet_capture::wait::locks::{
    pthread_join as __pthread_join, resolve as __resolve, syscall as __syscall,
};

/// Returns whether the program has [`lock_profiling!`](crate::lock_profiling).
pub fn is_installed() -> bool {
    #[cfg(target_os = "linux")]
    return flamelet_capture::wait::locks::is_installed();
    #[cfg(not(target_os = "linux"))]
    false
}

/// Takes one sample for each `rate` that a thread is blocked, from now on: waits that last longer are all counted,
/// shorter ones in proportion to their length. Zero stops counting; what was counted stays in the profiles.
///
/// Fails if the program has no [`lock_profiling!`](crate::lock_profiling), or the rate is above an hour.
pub fn set_rate(rate: Duration) -> Result<()> {
    #[cfg(target_os = "linux")]
    return flamelet_capture::wait::locks::set_rate(u64::try_from(rate.as_nanos()).unwrap_or(u64::MAX));
    #[cfg(not(target_os = "linux"))]
    match rate.is_zero() {
        true => Ok(()),
        false => Err(crate::Error::new(crate::ErrorKind::Unsupported, "locks are profiled on Linux only")),
    }
}

/// Returns the rate; zero when waits are not counted.
pub fn rate() -> Duration {
    #[cfg(target_os = "linux")]
    return Duration::from_nanos(flamelet_capture::wait::locks::rate());
    #[cfg(not(target_os = "linux"))]
    Duration::ZERO
}
