//! The rules of `explain`: what to look for, the share from which to report it, why it matters and what usually
//! helps.
//!
//! To add a rule, add a row. Most rules look for functions by their path; a rule that needs more has its own check in
//! [`checks`](super::checks). Each rule has a test with a profile that triggers it and a similar one that does not.

use super::about::Subject;
use super::checks;
use super::functions::functions;
use super::language::{by_language, same};
use super::rule::{Look, Rule};
use super::shown::ShownBy;
use crate::by::{
    ALLOCATORS, COMPRESSION, CRYPTOGRAPHY, JSON, LOGGING, PATTERN_COMPILERS, SERIALIZATION, SPAN_WRAPPERS,
};

/// Every rule. Rules that cast doubt on everything else come first.
pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "poor-profile",
        about: Subject::Any,
        title: "the profile is too poor for conclusions",
        look: Look::Check(checks::poor_profile),
        least: 0.0,
        // What is wrong with it says why, and what helps.
        why: "its shares may mislead",
        helps: same("profile for longer, under load"),
        shown: ShownBy::Quality,
    },
    Rule {
        id: "unoptimized",
        about: Subject::Time,
        title: "the program was built without optimization",
        look: Look::Innermost(functions(
            &[],
            &[
                "core::ops::deref::Deref",
                "core::ops::index::Index",
                "core::iter::traits::collect::IntoIterator",
                "core::iter::range::",
                "core::ops::try_trait::",
                "core::option::Option<T>::",
                "core::cmp::PartialOrd",
                "core::clone::impls::",
                "core::convert::",
                "core::ops::function::impls",
                "core::ptr::const_ptr::",
                "core::ptr::mut_ptr::",
                "core::num::<impl",
                "core::mem::replace",
                "core::slice::index::",
                "core::ops::control_flow::",
                "::is_multiple_of",
                "core::iter::range::Step",
                "::wrapping_add",
                "core::ptr::non_null::",
                "core::ub_checks::",
            ],
        )),
        least: 0.15,
        why: "functions that the optimizer always inlines were called; a release build spends its time elsewhere",
        helps: same(
            "profile a release build (`cargo build --release`), with `debug = \"limited\"` for lines",
        ),
        shown: ShownBy::Yours,
    },
    Rule {
        id: "debug-assertions",
        about: Subject::Time,
        title: "debug assertions, and the overflow checks that come with them, in hot code",
        look: Look::Anywhere(functions(&["core::ub_checks::"], &["precondition_check"])),
        least: 0.03,
        why: "checks that are meant for development run in every iteration",
        helps: same(
            "build with `debug-assertions = false` and `overflow-checks = false`, the defaults of release builds",
        ),
        shown: ShownBy::Stacks(same("precondition_check|ub_checks")),
    },
    Rule {
        id: "overflow-checks",
        about: Subject::Time,
        title: "the program checks its arithmetic for overflow",
        look: Look::Check(checks::overflow_checks),
        least: 0.0,
        why: "a branch follows every addition, subtraction and multiplication of integers, and hot loops are not vectorized",
        helps: same(
            "build with `overflow-checks = false`, the default of release builds, or use `wrapping_add` and its siblings in hot loops",
        ),
        shown: ShownBy::Yours,
    },
    Rule {
        id: "siphash",
        about: Subject::Time,
        title: "SipHash on hot maps",
        look: Look::Anywhere(functions(
            &["core::hash::sip::", "std::hash::random::", "std::collections::hash::map::DefaultHasher"],
            &["core::hash::sip::", "std::hash::random::DefaultHasher"],
        )),
        least: 0.03,
        why: "std's maps hash with SipHash, which resists crafted keys but is slow for short ones",
        helps: same(
            "use a faster hasher (rustc-hash, foldhash, ahash) as the map's third parameter if the keys are not from untrusted input",
        ),
        shown: ShownBy::Stacks(same("hash::(sip|random)|DefaultHasher")),
    },
    Rule {
        id: "allocation",
        about: Subject::Time,
        title: "allocating and freeing memory",
        look: Look::Anywhere(functions(ALLOCATORS, &[])),
        least: 0.10,
        why: "every allocation costs tens of nanoseconds, and freeing or collecting the memory as much again",
        helps: by_language(
            "reuse buffers between iterations, use `Vec::with_capacity`, borrow instead of cloning, try a faster allocator (jemalloc, mimalloc)",
            "reuse buffers and objects between iterations, reserve the size that is needed, pass references instead of copies; in C and C++, try a faster allocator (jemalloc, mimalloc)",
        ),
        shown: ShownBy::Stacks(by_language(
            r"malloc|calloc|realloc|free\b|__r(ust|dl)_|\balloc::alloc::|std::alloc::|_rjem_|\bje_|\b_?mi_",
            r"malloc|calloc|realloc|free\b|memalign|aligned_alloc|operator (new|delete)|\bje_|\b_?mi_|newobject|growslice",
        )),
    },
    Rule {
        id: "growing",
        about: Subject::Any,
        title: "vectors and strings that grow step by step",
        look: Look::Anywhere(functions(
            &["alloc::raw_vec::finish_grow", "runtime.growslice"],
            &[
                "::grow_one",
                "::grow_amortized",
                "do_reserve_and_handle",
                "alloc::raw_vec::finish_grow",
                "::_M_realloc_insert",
                "::_M_realloc_append",
            ],
        )),
        least: 0.04,
        why: "each step allocates new memory, copies the content and frees the old memory",
        helps: by_language(
            "use `with_capacity` or `reserve` where the size is known; `clear` and reuse buffers",
            "reserve the size where it is known (`reserve`, `make` with a capacity); empty and reuse buffers",
        ),
        shown: ShownBy::Stacks(same(
            "grow_one|grow_amortized|do_reserve_and_handle|finish_grow|_M_realloc|growslice",
        )),
    },
    Rule {
        id: "copying",
        about: Subject::Time,
        title: "copying memory",
        look: Look::Anywhere(
            functions(
                &[
                    "__memcpy",
                    "__memmove",
                    "memcpy",
                    "memmove",
                    "core::intrinsics::copy",
                    "alloc::slice::hack::to_vec",
                    "runtime.memmove",
                ],
                &["as core::clone::Clone>::clone", "alloc::slice::hack::ConvertVec", "::to_owned"],
            )
            // These only count.
            .except(&["alloc::sync::", "alloc::rc::"]),
        ),
        least: 0.08,
        why: "bytes are moved instead of being used where they are",
        helps: by_language(
            "pass references or slices, use `Arc` or `Bytes` for shared data, `mem::take` instead of `clone`",
            "pass references, pointers or slices instead of copies; move what is no longer needed",
        ),
        shown: ShownBy::Stacks(same(
            "memcpy|memmove|intrinsics::copy|Clone>::clone|ConvertVec|to_vec|to_owned",
        )),
    },
    Rule {
        id: "formatting",
        about: Subject::Time,
        title: "formatting text",
        look: Look::Anywhere(functions(&["core::fmt::", "alloc::fmt::"], &["alloc::string::ToString"])),
        least: 0.06,
        why: "`format!` and `to_string` allocate a string each time and format through dynamic calls",
        helps: same(
            "`write!` into a reused buffer, use itoa and ryu for numbers, compare values instead of their text",
        ),
        shown: ShownBy::Stacks(same("core::fmt|alloc::fmt|ToString|to_string")),
    },
    Rule {
        id: "regex-compilation",
        about: Subject::Time,
        title: "regular expressions are compiled in a hot path",
        look: Look::Anywhere(functions(
            PATTERN_COMPILERS,
            &["regex::regex::string::Regex::new", "regex::regex::bytes::Regex::new"],
        )),
        least: 0.02,
        why: "compiling a pattern costs about a thousand times as much as matching it",
        helps: by_language(
            "compile once: `static RE: LazyLock<Regex>`, or keep the `Regex` in a struct",
            "compile once, into a global variable or a field, and use it for every match",
        ),
        shown: ShownBy::Stacks(by_language(
            "regex_syntax|Regex::new",
            r"regexp\.(Must)?Compile|regexp/syntax",
        )),
    },
    Rule {
        id: "json",
        about: Subject::Time,
        title: "reading and writing JSON",
        look: Look::Anywhere(functions(JSON, &["serde_json::"])),
        least: 0.08,
        why: "JSON is parsed byte by byte, and each field of a generic value is allocated",
        helps: by_language(
            "deserialize into structs with borrowed fields instead of `Value`; `to_writer` into a kept buffer; a binary format between your own services",
            "decode into types of your own instead of generic maps, write into a kept buffer, a faster library; a binary format between your own services",
        ),
        shown: ShownBy::Stacks(same("serde_json|simd_json|sonic_rs|encoding/json")),
    },
    Rule {
        id: "serialization",
        about: Subject::Time,
        title: "serializing and deserializing",
        look: Look::Anywhere(functions(SERIALIZATION, &[])),
        least: 0.08,
        why: "each conversion reads and copies all of the data",
        helps: same("serialize once and share the bytes; skip unused fields; decode lazily"),
        shown: ShownBy::Stacks(same(
            "bincode|prost|rmp|ciborium|postcard|toml|yaml|csv|xml|protobuf|flatbuffers",
        )),
    },
    Rule {
        id: "compression",
        about: Subject::Time,
        title: "compressing and decompressing",
        look: Look::Anywhere(functions(COMPRESSION, &[])),
        least: 0.08,
        why: "high compression levels cost much time and save few bytes",
        helps: same(
            "use a lower level, or zstd or lz4 instead of gzip, which are also faster to decompress; compress once and cache; do not compress small responses",
        ),
        shown: ShownBy::Stacks(same(
            "flate2|miniz|zstd|ZSTD_|HUF_|FSE_|[dD]eflate|inflate|zlib|libz|[bB]rotli|lz4|LZ4_|snap::|lzma|compress/",
        )),
    },
    Rule {
        id: "cryptography",
        about: Subject::Time,
        title: "TLS, hashing and other cryptography",
        look: Look::Anywhere(functions(CRYPTOGRAPHY, &[])),
        least: 0.08,
        why: "every connection costs a handshake, every message a checksum",
        helps: same(
            "keep connections open, resume sessions, hash once, use a non-cryptographic hash for trusted data",
        ),
        shown: ShownBy::Stacks(same(
            r"rustls|\bring(::|-|_core)|aws_lc|openssl|OPENSSL_|EVP_|SHA(256|512)_|sha[123]::|blake|aes|chacha20|poly1305|argon2|bcrypt|native_tls|md5::|curve25519|ed25519|rsa::|p256|crypto/",
        )),
    },
    Rule {
        id: "reference-counts",
        about: Subject::Time,
        title: "counting references",
        look: Look::Leaf(
            functions(&["alloc::sync::", "alloc::rc::"], &["alloc::sync::Arc<", "alloc::rc::Rc<"])
                // Looking at what is shared counts nothing.
                .except(&["Deref", "::deref", "::inner", "as_ref", "alloc::sync::deref", "alloc::rc::deref"]),
        ),
        least: 0.04,
        why: "a reference count that several cores change moves between their caches",
        helps: same(
            "borrow (`&T`) inside a call instead of cloning the `Arc`; clone once for each task, not for each item",
        ),
        shown: ShownBy::Stacks(same(r"\b(Arc|Rc)<|alloc::(sync|rc)::")),
    },
    Rule {
        id: "atomics",
        about: Subject::Time,
        title: "atomic operations, including those of locks",
        look: Look::LeafWithout(
            // Loading is as cheap as reading a plain variable.
            functions(&["core::sync::atomic::"], &[]).except(&["::load", "atomic_load"]),
            functions(&["alloc::sync::"], &["alloc::sync::Arc<"]),
        ),
        least: 0.05,
        why: "a value that several cores change moves between their caches, and each change waits for it",
        helps: same(
            "count in a local variable and add it up at the end, keep one counter for each thread (on a cache line of its own), lock once for many items",
        ),
        shown: ShownBy::Stacks(same("sync::atomic")),
    },
    Rule {
        id: "spinning",
        about: Subject::Time,
        title: "spinning and parking",
        look: Look::Anywhere(functions(
            &[
                "parking_lot_core::spinwait",
                "crossbeam_utils::backoff",
                "core::hint::spin_loop",
                "sched_yield",
                "__sched_yield",
                "runtime.procyield",
                "std::thread::yield_now",
            ],
            &[
                "Mutex::spin",
                "RwLock::spin",
                "::spin_until",
                "::spin_read",
                "::spin_write",
                "::lock_contended",
            ],
        )),
        least: 0.03,
        why: "threads spend time waiting for each other, or wake up for too little work",
        helps: same("hold the lock for a shorter time, split it, hand over batches instead of single items"),
        shown: ShownBy::Stacks(same("spin|backoff|yield|lock_contended")),
    },
    Rule {
        id: "wake-ups",
        about: Subject::Time,
        title: "waking threads and putting them to sleep",
        look: Look::Anywhere(functions(
            &[
                "futex_wake",
                "futex_wait",
                "do_futex",
                "__x64_sys_futex",
                "__arm64_sys_futex",
                "try_to_wake_up",
                "wake_up_q",
                "std::sys::pal::unix::futex::",
                "std::sys::futex::",
                "runtime.futex",
            ],
            &[],
        )),
        least: 0.08,
        why: "each time a thread sleeps or is woken, two threads go through the kernel, often for very little work",
        helps: by_language(
            "hand over batches instead of single items, fewer threads, `try_lock` or a channel that spins briefly",
            "hand over batches instead of single items, use fewer threads, hold locks for a shorter time",
        ),
        shown: ShownBy::Stacks(same("futex|try_to_wake_up|wake_up_q")),
    },
    Rule {
        id: "page-faults",
        about: Subject::Time,
        title: "page faults and zeroed memory",
        look: Look::Anywhere(functions(
            &[
                "asm_exc_page_fault",
                "exc_page_fault",
                "do_user_addr_fault",
                "handle_mm_fault",
                "clear_page",
                "clear_huge_page",
                "__memset",
                "memset",
            ],
            &[],
        )),
        least: 0.06,
        why: "the program keeps touching memory that it just got from the kernel",
        helps: same(
            "keep large buffers instead of freeing them; use an allocator that returns memory later; make fewer, larger mappings",
        ),
        shown: ShownBy::Stacks(same(
            "page_fault|do_user_addr_fault|handle_mm_fault|memset|clear_(huge_)?page",
        )),
    },
    Rule {
        id: "system-calls",
        about: Subject::Time,
        title: "system calls",
        look: Look::Check(checks::system_calls),
        least: 0.12,
        why: "each call enters the kernel; many small calls cost more than a few large ones",
        helps: by_language(
            "buffer (`BufReader`, `BufWriter`), read and write more at once, keep files and sockets open",
            "buffer, read and write more at once, keep files and sockets open",
        ),
        shown: ShownBy::Stacks(same("do_syscall_64|entry_SYSCALL|el0_svc|_sys_")),
    },
    Rule {
        id: "logging",
        about: Subject::Time,
        title: "logging and tracing",
        look: Look::Anywhere(functions(LOGGING, &["tracing_subscriber::"]).except(SPAN_WRAPPERS)),
        least: 0.05,
        why: "every event is formatted and written, even if it is never read",
        helps: same(
            "use a higher level in production (`release_max_level_info`), fewer fields in hot spans, a non-blocking writer",
        ),
        shown: ShownBy::Stacks(same(r"tracing_(core|subscriber|log)|tracing::span|\blog::|slog::|logger::")),
    },
    Rule {
        id: "dropping",
        about: Subject::Time,
        title: "dropping values",
        // Not every drop frees memory: guards of locks do not.
        look: Look::Both(
            functions(&["core::ptr::drop_in_place", "core::mem::drop"], &["core::ptr::drop_in_place"]),
            functions(
                &[
                    "alloc::alloc::dealloc",
                    "__rust_dealloc",
                    "__rdl_dealloc",
                    "__rg_dealloc",
                    "free$",
                    "cfree",
                    "__libc_free",
                    "_int_free",
                    "_rjem_",
                    "je_",
                    "mi_free",
                    "_mi_free",
                    "operator delete",
                ],
                &["__rust_dealloc", "::deallocate"],
            ),
        ),
        least: 0.10,
        why: "trees of small allocations are freed one by one",
        helps: same(
            "make fewer, larger allocations (an arena, a `Vec` with indices), drop on another thread, reuse values",
        ),
        shown: ShownBy::Stacks(same("drop_in_place|mem::drop")),
    },
    Rule {
        id: "one-busy-thread",
        about: Subject::Time,
        title: "one thread does nearly all the work",
        look: Look::Check(checks::one_busy_thread),
        least: 0.0,
        why: "this thread limits the speed of the program, however many cores there are",
        helps: by_language(
            "move work off this thread (a pool, rayon, `spawn_blocking`), or split it",
            "move work off this thread, to a pool of threads or to other processes, or split it",
        ),
        shown: ShownBy::Threads,
    },
    Rule {
        id: "worker-imbalance",
        about: Subject::Time,
        title: "one worker of a pool does most of the work",
        look: Look::Check(checks::worker_imbalance),
        least: 0.0,
        why: "the other workers idle while work waits for this one",
        helps: by_language(
            "split large jobs; do not run CPU work inside one task or one connection; use rayon or `spawn_blocking` for it",
            "split large jobs; do not run long computations inside one task or one connection",
        ),
        shown: ShownBy::Threads,
    },
    Rule {
        id: "contended-lock",
        about: Subject::Locks,
        title: "threads wait for a lock",
        look: Look::Check(checks::contended_lock),
        least: 0.0,
        why: "while one thread holds the lock, the others are blocked, and so are all tasks on them",
        helps: same(
            "look at /debug/pprof/mutex for the code that holds it; do less under the lock, copy out what is needed, split it, or use an `RwLock` or a channel",
        ),
        shown: ShownBy::Stacks(same("lock")),
    },
    Rule {
        id: "lock-holder",
        about: Subject::Locks,
        title: "code that holds a lock while others wait for it",
        look: Look::Check(checks::lock_holder),
        least: 0.0,
        why: "others waited that long for these places to release their locks",
        helps: same(
            "move system calls, allocation and logging out of the locked part; drop the guard as early as possible",
        ),
        shown: ShownBy::Yours,
    },
    Rule {
        id: "dominant-await",
        about: Subject::Awaits,
        title: "one await takes most of the time spent awaiting",
        look: Look::Check(checks::dominant_await),
        least: 0.5,
        why: "requests spend most of their awaiting time here",
        helps: same(
            "start it earlier and await it later (`join!`), cache its result, set a timeout, make fewer round trips",
        ),
        shown: ShownBy::Yours,
    },
    Rule {
        id: "undersized-pool",
        about: Subject::Awaits,
        title: "waiting for a permit or a connection from a pool",
        look: Look::Check(checks::undersized_pool),
        least: 0.3,
        why: "requests queue for something that others hold",
        helps: same(
            "hold it for a shorter time, first of all not across other awaits; then enlarge the pool; refuse early instead of queueing without a limit",
        ),
        shown: ShownBy::Stacks(same("pool|semaphore|Semaphore")),
    },
    Rule {
        id: "blocked-executor",
        about: Subject::Polls,
        title: "tasks hold up the executor",
        look: Look::Check(checks::blocked_executor),
        least: 0.0,
        why: "while a poll runs, no other task of its thread makes progress",
        helps: same(
            "move blocking calls and long computations to `flamelet::spawn_blocking` or a thread; use tokio's locks, files and timers; call `yield_now` in long loops",
        ),
        shown: ShownBy::Yours,
    },
    Rule {
        id: "few-lines",
        about: Subject::Time,
        title: "a few lines account for most of a function",
        look: Look::Check(checks::few_lines),
        least: 0.0,
        why: "optimizing these lines pays off; optimizing the rest of the function does not",
        helps: same("look at the lines and their instructions (`flamelet list`, `flamelet disasm`)"),
        shown: ShownBy::Lines,
    },
    Rule {
        id: "few-owners",
        about: Subject::Memory,
        title: "a few functions hold most of the memory",
        look: Look::Check(checks::few_owners),
        least: 0.0,
        why: "they determine the size of the process",
        helps: by_language(
            "limit the size (an LRU cache, a bounded queue), use smaller types, drop values that are no longer needed",
            "limit the size (a cache with a limit, a bounded queue), use smaller types, free what is no longer needed",
        ),
        shown: ShownBy::Yours,
    },
    Rule {
        id: "leak",
        about: Subject::Memory,
        title: "memory that grows from one profile to the next",
        look: Look::Check(checks::steady_growth),
        least: 0.05,
        why: "memory that grows steadily and is never freed eventually ends the process",
        helps: same(
            "look for maps, queues and lists that are only added to; bound them, or remove what is finished",
        ),
        shown: ShownBy::Growth,
    },
    Rule {
        id: "temporary",
        about: Subject::Memory,
        title: "temporary allocations",
        look: Look::Check(checks::temporary),
        least: 0.25,
        why: "each is freed almost at once, and still costs an allocation and a free",
        helps: by_language(
            "keep one buffer and `clear` it, `write!` into it instead of `format!`, borrow instead of `to_owned`",
            "keep one buffer and reuse it, write into it instead of building new strings, pass references instead of copies",
        ),
        shown: ShownBy::Temporary,
    },
    Rule {
        id: "oversized",
        about: Subject::Memory,
        title: "buffers that are larger than their contents",
        look: Look::Check(checks::unwritten),
        least: 0.25,
        why: "capacity that is never used costs memory, and zeroing it costs time",
        helps: by_language(
            "a smaller `with_capacity`, `shrink_to_fit` for what is kept, `Box<[T]>` for what does not grow",
            "reserve less, and shrink what is kept",
        ),
        shown: ShownBy::Yours,
    },
    Rule {
        id: "fragmentation",
        about: Subject::Memory,
        title: "the process is larger than its live memory",
        look: Look::Check(checks::fragmentation),
        least: 0.5,
        why: "pages with a few live blocks stay resident, freed memory is not returned to the system, or C code holds memory that the profile does not include",
        helps: by_language(
            "to see C code's memory too, `flamelet::global_allocator!(malloc)` or `flamelet record --heap`; an allocator that returns memory (jemalloc, mimalloc), `malloc_trim` after a peak, fewer arenas (MALLOC_ARENA_MAX), blocks with similar lifetimes together",
            "an allocator that returns memory (jemalloc, mimalloc), `malloc_trim` after a peak, fewer arenas (MALLOC_ARENA_MAX), blocks with similar lifetimes together",
        ),
        shown: ShownBy::InUse,
    },
];
