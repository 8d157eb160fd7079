//! Allocators that [`global_allocator!`](crate::global_allocator) can wrap.

#[cfg(feature = "mimalloc")]
pub use mimalloc::MiMalloc;
#[cfg(feature = "jemalloc")]
pub use tikv_jemallocator::Jemalloc;

/// Installs the allocator that heap profiling needs: around the system's allocator, or, with the feature of that
/// name, around `jemalloc` or `mimalloc`. For any other allocator, see [`Alloc`](crate::Alloc).
///
/// | | allocator | sees |
/// |---|---|---|
/// | `()` | the system's | what Rust code allocates |
/// | `(malloc)` | the system's | what Rust and C code allocate; with the GNU C library only, elsewhere as `()` |
/// | `(jemalloc)`, `(mimalloc)` | the one of that name | what Rust code allocates |
///
/// `(malloc)` defines `malloc`, `free` and the like in the program, so it belongs in the binary, not in a library.
///
/// With `(jemalloc, profiling)`, jemalloc is also prepared to sample by itself, for
/// `ProfilerBuilder::heap_by_jemalloc` and for other users of jemalloc's profiles. `(jemalloc, conf = "prof:true,…")` gives
/// it another configuration. With the feature `jemalloc-for-c`, C code allocates from jemalloc too, and its own sampling
/// sees that.
///
/// On systems other than Linux, the program gets the same allocator, without profiles.
///
/// ```
/// flamelet::global_allocator!();
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! global_allocator {
    () => {
        #[global_allocator]
        static FLAMELET_ALLOCATOR: $crate::Alloc = $crate::Alloc::system();
    };
    (jemalloc) => {
        #[global_allocator]
        static FLAMELET_ALLOCATOR: $crate::Alloc<$crate::allocators::Jemalloc> =
            $crate::Alloc::new($crate::allocators::Jemalloc);
    };
    (jemalloc, profiling) => {
        $crate::global_allocator!(@conf $crate::heap::jemalloc::CONF);
    };
    (jemalloc, conf = $conf:literal) => {
        $crate::global_allocator!(@conf $crate::heap::jemalloc::Conf::literal(concat!($conf, "\0")));
    };
    (@conf $conf:expr) => {
        $crate::global_allocator!(jemalloc);
        $crate::__jemalloc_conf!($conf);
    };
    (malloc) => {
        #[cfg(all(target_os = "linux", target_env = "gnu", not(target_feature = "crt-static")))]
        $crate::define_malloc!();

        #[cfg(not(all(target_os = "linux", target_env = "gnu", not(target_feature = "crt-static"))))]
        $crate::global_allocator!();
    };
    (mimalloc) => {
        #[global_allocator]
        static FLAMELET_ALLOCATOR: $crate::Alloc<$crate::allocators::MiMalloc> =
            $crate::Alloc::new($crate::allocators::MiMalloc);
    };
}

/// The configuration that jemalloc reads when it starts.
#[doc(hidden)]
#[cfg(target_os = "linux")]
#[macro_export]
macro_rules! __jemalloc_conf {
    ($conf:expr) => {
        #[doc(hidden)]
        #[unsafe(export_name = "_rjem_malloc_conf")]
        pub static FLAMELET_MALLOC_CONF: $crate::heap::jemalloc::Conf = $conf;

        /// The same for a jemalloc that C code allocates from too.
        #[doc(hidden)]
        #[unsafe(export_name = "malloc_conf")]
        pub static FLAMELET_C_MALLOC_CONF: $crate::heap::jemalloc::Conf = $conf;
    };
}

/// Nothing: flamelet does not use jemalloc's own samples on this system.
#[doc(hidden)]
#[cfg(not(target_os = "linux"))]
#[macro_export]
macro_rules! __jemalloc_conf {
    ($conf:expr) => {};
}
