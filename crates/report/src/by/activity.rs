//! What others' code does when yours calls it: allocating, hashing, formatting…
//!
//! The table is searched from the top: the first row with a matching path names the activity. A path is the
//! function's own (`core::fmt::write`); if an inlined function has only its last name, the path of its file is
//! prepended (`core/src/fmt/mod.rs` and `write` make `core::fmt::write`).

use std::borrow::Cow;

use crate::names::{bare_path, crate_name, module_of_file};

/// One kind of work.
pub(crate) struct Activity {
    /// The name in reports.
    pub(crate) name: &'static str,
    /// How the paths of its functions begin.
    starts: &'static [&'static str],
    /// What the paths of its functions contain.
    parts: &'static [&'static str],
}

const fn activity(
    name: &'static str,
    starts: &'static [&'static str],
    parts: &'static [&'static str],
) -> Activity {
    Activity { name, starts, parts }
}

/// What allocators do.
pub(super) const ALLOCATING: &str = "allocating";

/// How the paths of functions begin that allocate and free memory. `free$` is `free` alone: the kernel has functions
/// such as `free_unref_page`.
pub(crate) const ALLOCATORS: &[&str] = &[
    "alloc::alloc::",
    "__rust_alloc",
    "__rust_dealloc",
    "__rust_realloc",
    "__rdl_alloc",
    "std::alloc::",
    "malloc",
    "free$",
    "calloc",
    "realloc",
    "cfree",
    "_int_malloc",
    "_int_free",
    "_int_realloc",
    "__libc_malloc",
    "__libc_free",
    "__GI___libc_malloc",
    "__GI___libc_free",
    "__libc_calloc",
    "__libc_realloc",
    "unlink_chunk",
    "sysmalloc",
    "systrim",
    "aligned_alloc",
    "posix_memalign",
    "operator new",
    "operator delete",
    "_rjem_",
    "je_",
    "mi_",
    "_mi_",
    "tikv_jemallocator::",
    "tikv_jemalloc_sys::",
    "mimalloc::",
    "runtime.mallocgc",
    "runtime.newobject",
    "runtime.growslice",
];

/// How the paths of functions begin that read and write JSON.
pub(crate) const JSON: &[&str] = &["serde_json::", "simd_json::", "sonic_rs::", "encoding/json"];

/// How the paths of functions begin that read and write other formats.
pub(crate) const SERIALIZATION: &[&str] = &[
    "bincode::",
    "prost::",
    "rmp_serde::",
    "rmp::",
    "ciborium::",
    "postcard::",
    "toml::",
    "serde_yaml::",
    "csv::",
    "quick_xml::",
    "protobuf::",
    "flatbuffers::",
];

/// How the paths of functions begin that log and trace.
pub(crate) const LOGGING: &[&str] = &[
    "log::",
    "tracing::",
    "tracing_core::",
    "tracing_subscriber::",
    "slog::",
    "env_logger::",
    "tracing_log::",
];

/// How the paths of functions begin that run other code inside a span, which is not what logging costs.
pub(crate) const SPAN_WRAPPERS: &[&str] = &[
    "tracing::instrument::",
    "tracing::span::Span::in_scope",
    "tracing::span::in_scope",
    "tracing_core::dispatcher::with_default",
    "tracing::subscriber::with_default",
];

/// How the paths of functions begin that compile regular expressions.
pub(crate) const PATTERN_COMPILERS: &[&str] = &[
    "regex_syntax::",
    "regex_automata::nfa::thompson::compiler",
    "regex_automata::meta::strategy::new",
    "regex_automata::meta::regex::Builder::",
    "regex::builders::",
    "aho_corasick::nfa::noncontiguous::Compiler",
    "aho_corasick::ahocorasick::AhoCorasickBuilder::",
    "regexp.Compile",
    "regexp.MustCompile",
    "regexp/syntax.",
];

/// How the paths of functions begin that compress and unpack.
pub(crate) const COMPRESSION: &[&str] = &[
    "flate2::",
    "miniz_oxide::",
    "zstd::",
    "zstd_safe::",
    "ZSTD_",
    "HUF_",
    "FSE_",
    "deflate",
    "inflate",
    "zlib_rs::",
    "libz",
    "lz4::",
    "lz4_flex::",
    "LZ4_",
    "snap::",
    "brotli",
    "Brotli",
    "lzma",
    "compress/",
];

/// How the paths of functions begin that encrypt, and that hash so that nobody can forge it.
pub(crate) const CRYPTOGRAPHY: &[&str] = &[
    "rustls::",
    "ring::",
    "ring_core_",
    "aws_lc_",
    "openssl::",
    "native_tls::",
    "aes::",
    "aes_gcm::",
    "chacha20",
    "poly1305::",
    "sha1::",
    "sha2::",
    "sha3::",
    "blake2::",
    "blake3::",
    "md5::",
    "argon2::",
    "bcrypt::",
    "curve25519_dalek::",
    "ed25519",
    "rsa::",
    "p256::",
    "OPENSSL_",
    "EVP_",
    "SHA256_",
    "SHA512_",
    "crypto/",
];

/// Every kind of work that reports distinguish.
pub(crate) const ACTIVITIES: &[Activity] = &[
    activity(
        "page faults",
        &["asm_exc_page_fault", "exc_page_fault", "do_user_addr_fault", "handle_mm_fault", "page_fault"],
        &[],
    ),
    activity(
        "system calls",
        &["entry_SYSCALL_64", "do_syscall_64", "el0_svc", "el0t_64_sync", "syscall"],
        &[],
    ),
    activity("logging", LOGGING, &[]),
    activity("JSON", JSON, &[]),
    activity("serializing", SERIALIZATION, &[]),
    activity("serializing", &["serde::", "serde_core::"], &[]),
    activity("compressing", COMPRESSION, &[]),
    activity("encrypting", CRYPTOGRAPHY, &[]),
    activity("compiling patterns", PATTERN_COMPILERS, &["Regex::new"]),
    activity(
        "matching patterns",
        &["regex::", "regex_automata::", "regex_lite::", "fancy_regex::", "pcre2::", "regexp."],
        &[],
    ),
    activity("searching", &["memchr::", "aho_corasick::", "core::str::pattern::", "__memchr", "memchr"], &[]),
    activity(
        "formatting",
        &[
            "core::fmt::",
            "alloc::fmt::",
            "std::fmt::",
            "itoa::",
            "ryu::",
            "dtoa::",
            "core::num::flt2dec::",
            "fmt.",
        ],
        &["alloc::string::ToString"],
    ),
    activity(
        "hashing",
        &[
            "core::hash::",
            "std::hash::",
            "std::collections::hash::",
            "hashbrown::",
            "ahash::",
            "rustc_hash::",
            "fxhash::",
            "siphasher::",
            "foldhash::",
            "indexmap::",
            "runtime.mapaccess",
            "runtime.mapassign",
            "std::unordered_map<",
            "std::unordered_set<",
            "std::_Hashtable<",
            "std::_Hash_bytes",
        ],
        &[],
    ),
    activity(
        "maps and sets",
        &[
            "alloc::collections::btree::",
            "std::collections::btree",
            "std::_Rb_tree",
            "std::map<",
            "std::set<",
        ],
        &[],
    ),
    activity(
        "sorting",
        &[
            "core::slice::sort::",
            "alloc::slice::stable_sort",
            "alloc::slice::merge_sort",
            "sort.",
            "slices.Sort",
            "slices.pdqsort",
        ],
        &["::sort_unstable", "::sort_by", "std::sort<", "std::__sort<", "std::__introsort_loop<"],
    ),
    activity("comparing", &["core::cmp::", "__memcmp", "memcmp", "bcmp", "core::slice::cmp::"], &[]),
    activity(
        "locking",
        &[
            "std::sync::",
            "std::sys::sync::",
            "parking_lot::",
            "parking_lot_core::",
            "lock_api::",
            "pthread_mutex_",
            "__pthread_mutex",
            "pthread_cond_",
            "___pthread_cond",
            "__lll_lock",
            "futex_wait",
            "futex_wake",
            "crossbeam_channel::",
            "flume::",
            "sync.(*Mutex)",
            "sync.(*RWMutex)",
            "runtime.lock2",
        ],
        &[],
    ),
    activity("counting references", &["alloc::sync::Arc", "alloc::sync::", "alloc::rc::"], &[]),
    activity(
        "dropping",
        &["core::ptr::drop_in_place", "core::mem::drop", "core::mem::manually_drop"],
        &["core::ops::drop::Drop"],
    ),
    activity(ALLOCATING, ALLOCATORS, &["core::alloc::global::GlobalAlloc"]),
    activity(ALLOCATING, &["alloc::raw_vec::", "tcache_", "arena_"], &[]),
    activity(
        "copying",
        &[
            "__memcpy",
            "__memmove",
            "memcpy",
            "memmove",
            "core::intrinsics::copy",
            "core::ptr::copy",
            "core::ptr::mut_ptr::copy",
            "core::slice::copy_from_slice",
            "alloc::slice::hack::to_vec",
            "alloc::borrow::",
            "runtime.memmove",
            "copy_nonoverlapping",
            "copy_from_slice",
            "to_vec",
            "core::clone::",
        ],
        &["core::clone::Clone", "alloc::borrow::ToOwned", "::to_owned", "extend_from_slice"],
    ),
    activity(
        "zeroing",
        &["__memset", "memset", "core::ptr::write_bytes", "clear_page", "runtime.memclr"],
        &[],
    ),
    activity("indexing", &["core::slice::index::", "core::ops::index::"], &[" as core::ops::index::Index"]),
    activity("vectors", &["alloc::vec::"], &[]),
    activity(
        "strings",
        &[
            "core::str::",
            "alloc::str::",
            "alloc::string::",
            "core::char::",
            "__strlen",
            "strlen",
            "__strcmp",
            "std::__cxx11::basic_string<",
            "strings.",
            "strconv.",
        ],
        &[],
    ),
    activity(
        "parsing numbers",
        &["core::num::dec2flt::", "core::num::parse", "lexical"],
        &["from_str_radix"],
    ),
    activity("collecting garbage", &["runtime.gcBgMarkWorker", "runtime.gcDrain", "runtime.scanobject"], &[]),
    activity("iterating", &["core::iter::", "core::slice::iter", "core::array::"], &[]),
    activity("arithmetic", &["core::num::", "core::ops::arith::", "core::ops::bit::"], &[]),
    activity(
        "files and sockets",
        // Not the traits of `std::io`: what is written through them may be compressed or formatted.
        &[
            "std::io::buffered::",
            "std::io::copy::",
            "std::io::stdio::",
            "std::fs::",
            "std::net::",
            "std::sys::net::",
            "std::sys::fs::",
        ],
        &[],
    ),
    activity("clocks", &["std::time::", "__vdso_clock_gettime", "clock_gettime", "chrono::", "time::"], &[]),
    activity("panics", &["std::panicking::begin_panic", "core::panicking::", "_Unwind_", "gimli::"], &[]),
];

/// Returns the kind of work that a function does, if the table has it.
pub(crate) fn activity_of(name: &str, file: &str) -> Option<&'static str> {
    let path = path_of(name, file);
    if SPAN_WRAPPERS.iter().any(|start| path.starts_with(start)) {
        return None;
    }
    let found = ACTIVITIES.iter().find(|activity| {
        activity.starts.iter().any(|start| begins(&path, start))
            || activity.parts.iter().any(|part| name.contains(part))
    });
    found.map(|activity| activity.name)
}

/// Returns whether a path begins with `start`; if `start` ends in `$`, whether it is that function, also in parts of it
/// (`free.part.0`) and as a stub (`free@plt`).
pub(crate) fn begins(path: &str, start: &str) -> bool {
    match start.strip_suffix('$') {
        Some(whole) => {
            path.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '@']))
        }
        None => path.starts_with(start),
    }
}

/// Returns the path of a function, from its name or else from its file.
pub(crate) fn path_of<'n>(name: &'n str, file: &str) -> Cow<'n, str> {
    let bare = bare_path(name);
    if crate_name(bare).is_some() {
        return Cow::Borrowed(bare);
    }
    match module_of_file(file) {
        Some(module) => Cow::Owned(format!("{module}::{name}")),
        None => Cow::Borrowed(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_known_by_its_path() {
        let library = "/rustc/5980/library";
        for (name, file, expected) in [
            ("core::fmt::write", "", Some("formatting")),
            ("<core::hash::sip::Hasher<S> as core::hash::Hasher>::write", "", Some("hashing")),
            ("u8to64_le", "/rustc/5980/library/core/src/hash/sip.rs", Some("hashing")),
            ("push<u8>", &format!("{library}/alloc/src/vec/mod.rs"), Some("vectors")),
            ("<alloc::vec::Vec<T,A> as core::ops::index::Index<I>>::index", "", Some("indexing")),
            ("alloc::raw_vec::RawVec<T,A>::grow_one", "", Some("allocating")),
            ("<u32>::is_multiple_of", &format!("{library}/core/src/num/uint_macros.rs"), Some("arithmetic")),
            ("core::num::dec2flt::parse::parse_number", "", Some("parsing numbers")),
            ("<alloc::string::String as core::clone::Clone>::clone", "", Some("copying")),
            ("__memmove_avx_unaligned_erms", "", Some("copying")),
            ("serde_json::de::from_str", "", Some("JSON")),
            ("do_syscall_64", "", Some("system calls")),
            ("free", "", Some("allocating")),
            ("free@plt", "", Some("allocating")),
            ("free_unref_page_list", "", None),
            ("tokio::runtime::builder::Builder::build", "", None),
            ("regex::regex::string::Regex::new", "", Some("compiling patterns")),
            (
                "<regex_automata::meta::strategy::Core as regex_automata::meta::strategy::Strategy>::search",
                "",
                Some("matching patterns"),
            ),
            ("std::io::Write::write_all", "", None),
            ("tracing_core::event::Event::dispatch", "", Some("logging")),
            ("sort.pdqsort_func", "sort/zsortfunc.go", Some("sorting")),
            ("compress/flate.(*compressor).deflate", "compress/flate/deflate.go", Some("compressing")),
            ("void std::__introsort_loop<int*, long>(int*, int*, long)", "", Some("sorting")),
            ("std::unordered_map<int, int>::operator[](int const&)", "", Some("hashing")),
            ("<tracing::instrument::Instrumented<T> as core::future::future::Future>::poll", "", None),
            ("in_scope<F, T>", "/r/tracing-0.1.41/src/span.rs", None),
            ("<std::io::buffered::bufwriter::BufWriter<W>>::flush_buf", "", Some("files and sockets")),
            ("core::ptr::drop_in_place<shop::Cart>", "", Some("dropping")),
            ("shop::cart::total", "/home/me/shop/src/cart.rs", None),
            ("total", "/home/me/shop/src/cart.rs", None),
            ("", "", None),
        ] {
            assert_eq!(activity_of(name, file), expected, "{name}");
        }
    }

    #[test]
    fn modules_of_files() {
        assert_eq!(module_of_file("/home/me/shop/src/cart/mod.rs").as_deref(), Some("shop::cart"));
        assert_eq!(module_of_file("/home/me/shop/src/main.rs").as_deref(), Some("shop"));
        assert_eq!(
            module_of_file("/r/tokio-1.47.1/src/runtime/park.rs").as_deref(),
            Some("tokio::runtime::park")
        );
        assert_eq!(module_of_file("main.c"), None);
    }
}
