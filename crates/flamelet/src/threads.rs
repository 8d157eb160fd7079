//! Sampling threads from their first instruction.
//!
//! Without this, the profiler looks for new threads ten times a second, and more often where CPU time is missing. With
//! [`thread_sampling!`](crate::thread_sampling), each thread makes its own timer as it starts: threads that live for a
//! millisecond are sampled like all others, and looking for new threads costs next to nothing.

/// Lets the profiler sample every thread from its start. Put it once into the program, at the top level of any module of
/// the binary.
///
/// It defines the C function `pthread_create` in the program, through which Rust starts threads; all calls go on to the C
/// library. It does nothing on systems other than Linux on x86_64 and aarch64, and in programs that are linked
/// statically: there, new threads are found by polling, as they are without this macro. Leave it out of programs in which
/// something else intercepts `pthread_create`, such as those built with a sanitizer.
///
/// ```
/// flamelet::thread_sampling!();
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! thread_sampling {
    () => {
        #[cfg(all(
            target_os = "linux",
            not(target_feature = "crt-static"),
            any(target_arch = "x86_64", target_arch = "aarch64")
        ))]
        const _: () = {
            use ::std::ffi::{c_int, c_void};

            /// Takes the place of the C library's function.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn pthread_create(
                thread: *mut c_void,
                attributes: *const c_void,
                start: extern "C" fn(*mut c_void) -> *mut c_void,
                argument: *mut c_void,
            ) -> c_int {
                // SAFETY: the caller's arguments are passed on as they are.
                unsafe { $crate::threads::__pthread_create(thread, attributes, start, argument) }
            }

            /// Runs when the program is loaded.
            #[used]
            #[unsafe(link_section = ".init_array")]
            static RESOLVE: extern "C" fn() = $crate::threads::__resolve_create;
        };
    };
}

#[doc(hidden)]
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use flamelet_capture::cpu::{pthread_create as __pthread_create, resolve_create as __resolve_create};
