//! Go-betweens: functions that only act for their callers. This module has the only lists of them.
//!
//! There are two kinds. Functions that start threads, tasks and closures can be folded into one frame ([`is_glue`]);
//! functions that request memory for others do not hold it ([`stands_for_itself`]).

use super::short::without_arguments;
use super::{bare_path, crate_name, crate_of, matching_angle, module_of_file, split_as};

/// The standard libraries of Rust, Go and C++.
const STANDARD: [&str; 5] = ["std", "core", "alloc", "runtime", "__gnu_cxx"];

/// What the C library puts between the start of a program or a thread and its own functions.
const STARTS: [&str; 11] = [
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "call_init",
    "_dl_init",
    "_dl_start_user",
    "start_thread",
    "clone3",
    "__clone3",
    "__clone",
];

/// Returns whether a crate is a standard library.
pub(crate) fn is_standard(krate: &str) -> bool {
    STANDARD.contains(&krate)
}

/// Crates besides the standard libraries that allocate memory on behalf of others.
const ALLOCATING: [&str; 4] = ["hashbrown", "compiler_builtins", "flamelet_capture", "flamelet_preload"];

/// Functions that allocate memory, in any language, without their leading underscores.
const ALLOCATORS: [&str; 12] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "operator new",
    "operator delete",
    "strdup",
    "rdl_alloc",
];

/// Returns whether a function acts for itself, and not for a caller that needs memory.
pub(crate) fn stands_for_itself(name: &str, file: &str) -> bool {
    // The compiler's own sources, wherever they were when the standard library was built.
    let std_files =
        ["/library/alloc/src/", "/library/core/src/", "/library/std/src/", "/hashbrown-", "/include/c++/"];
    // C++ names begin with the type of the result.
    let krate = crate_of(if file.ends_with(".rs") { name } else { without_arguments(name) });
    !is_nameless(name)
        && !std_files.iter().any(|part| file.contains(part))
        && !is_allocator(name)
        && !STARTS.contains(&name)
        && !is_standard(krate)
        && !ALLOCATING.contains(&krate)
}

/// Returns whether a path belongs to flamelet's own allocator. Where flamelet is a crate of the workspace, that is your
/// code, but what it costs was caused by the function that asked for memory.
#[cfg(feature = "text")]
pub(crate) fn is_profiled_allocator(path: &str) -> bool {
    path.starts_with("flamelet_capture::heap::")
}

/// Returns whether a name says only where a frame is and not what it does: `[libc.so.6]`.
fn is_nameless(name: &str) -> bool {
    name.is_empty() || name == "<unknown>" || name.starts_with('[')
}

fn is_allocator(name: &str) -> bool {
    let plain = name.trim_start_matches('_');
    ALLOCATORS.contains(&plain)
        || name.starts_with("operator new")
        || ["rust_", "rustc::", "rg_"].iter().any(|prefix| plain.starts_with(prefix))
}

/// Returns whether a function only passes calls on: the start of threads, closures, futures and tasks. Inlined
/// functions often have only their last name (`catch_unwind`, `with_mut`) and are recognised by their `file`.
pub(crate) fn is_glue(name: &str, file: &str) -> bool {
    const PREFIXES: &[&str] = &[
        "std::rt::",
        "std::panic::",
        "std::panicking::",
        "std::sys::backtrace::__rust_begin_short_backtrace",
        "std::sys_common::backtrace::__rust_begin_short_backtrace",
        "std::sys::thread::",
        "std::sys::pal::",
        "std::thread::",
        "core::ops::function::",
        "core::panic::unwind_safe::",
        "core::future::",
        "core::pin::",
        "tokio::runtime::",
        "tokio::task::",
        "tokio::loom::",
        "tokio::util::",
        "futures_core::",
        "futures_util::",
        "tracing::instrument::",
        "rayon_core::",
        "tower::util::",
        "async_std::task::",
        "async_executor::",
        "async_task::",
    ];
    const WHOLE: &[&str] = &[
        "main",
        "_start",
        "__libc_start_main",
        "__libc_start_main_impl",
        "__libc_start_call_main",
        "start_thread",
        "clone3",
        "__clone3",
        "clone",
        "__clone",
        "__rust_try",
    ];
    let starts = |path: &str| PREFIXES.iter().any(|prefix| path.starts_with(prefix));
    if WHOLE.contains(&name) || starts(bare_path(name)) || is_boxed_call(name) {
        return true;
    }
    crate_name(name).is_none() && module_of_file(file).is_some_and(|module| starts(&format!("{module}::")))
}

/// Returns whether a box or another pointer of the standard library calls or polls its content.
fn is_boxed_call(name: &str) -> bool {
    let Some(inside) = name.strip_prefix('<') else { return false };
    let Some(Some((own, in_trait))) = matching_angle(inside).map(|end| split_as(&inside[..end])) else {
        return false;
    };
    let passes_on = ["core::ops::function::", "core::future::"];
    matches!(crate_name(own), Some("alloc" | "core" | "std"))
        && passes_on.iter().any(|prefix| in_trait.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_betweens_do_not_hold_memory() {
        for name in [
            "alloc::raw_vec::RawVecInner<A>::finish_grow",
            "<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter",
            "__rust_alloc",
            "__rustc::__rust_alloc",
            "malloc",
            "operator new(unsigned long)",
            "[freed by]",
            "[libc.so.6]",
            "<unknown>",
            "",
            "runtime.mallocgc",
            "void std::vector<unsigned long, std::allocator<unsigned long> >::_M_realloc_insert<unsigned long>(unsigned long&&)",
            "std::basic_filebuf<char, std::char_traits<char> >::open(char const*)",
            "__gnu_cxx::new_allocator<int>::allocate(unsigned long)",
            "__libc_start_main_impl",
        ] {
            assert!(!stands_for_itself(name, ""), "{name}");
        }
        let std = "/rustc/0123/library/alloc/src/raw_vec/mod.rs";
        assert!(
            !stands_for_itself("with_capacity_in<u8>", std),
            "names of inlined functions may lack their path"
        );
        for name in [
            "shop::cart::add",
            "<shop::Cart as core::clone::Clone>::clone",
            "main",
            "main.(*Cart).Add",
            "Parser::parse(int)",
        ] {
            assert!(stands_for_itself(name, "src/main.rs"), "{name}");
        }
        let joined = "std::string app::text::joined(std::vector<int> const&)";
        assert!(stands_for_itself(joined, "/home/me/app/text.cc"));
        assert!(!stands_for_itself("push_back(int&&)", "/usr/include/c++/12/bits/stl_vector.h"));
    }

    #[test]
    fn glue_is_distinguished_from_work() {
        for glue in [
            "std::rt::lang_start_internal",
            "<core::pin::Pin<P> as core::future::future::Future>::poll",
            "core::ops::function::FnOnce::call_once{{vtable.shim}}",
            "<alloc::boxed::Box<dyn core::ops::function::FnOnce<()>> as core::ops::function::FnOnce<()>>::call_once",
            "__rust_try",
            "__clone3",
        ] {
            assert!(is_glue(glue, ""), "{glue}");
        }
        for work in [
            "my_service::handlers::checkout",
            "<my_service::Job as core::future::Future>::poll",
            "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
        ] {
            assert!(!is_glue(work, ""), "{work}");
        }
    }

    #[test]
    fn bare_names_are_glue_where_their_file_is() {
        let registry = "/home/a/.cargo/registry/src/index-1/tokio-1.47.1/src/loom/std/unsafe_cell.rs";
        assert!(is_glue("with_mut<T, R, F>", registry));
        assert!(is_glue("catch_unwind<F, R>", "/rustc/5980/library/std/src/panicking.rs"));
        assert!(is_glue("call_once", "/rustc/5980/library/core/src/ops/function.rs"));
        assert!(!is_glue("with_mut<T, R, F>", "/home/a/shop/src/cell.rs"));
        assert!(!is_glue("push", "/rustc/5980/library/alloc/src/vec/mod.rs"));
        assert!(!is_glue("shop::loom::run", registry), "a name that says whose it is");
    }
}
