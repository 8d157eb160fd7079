//! Rust names as a Rust person thinks of them: without type parameters, without the glue between their own
//! functions, or only the crate.

use flamelet_profile::{Line, LocationId, Profile, Renamed};

use crate::paths::base_name;

/// How Rust names are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NameFolding {
    /// Leave type parameters out: `Vec<u8>::push` and `Vec<String>::push` are one.
    pub generics: bool,
    /// Fold the frames of the standard library's and the async runtime's glue into one.
    pub runtime: bool,
    /// Show crates instead of functions.
    pub crates: bool,
}

/// The name of frames that [`NameFolding::runtime`] folds.
pub const RUNTIME_GROUP: &str = "[runtime glue]";

/// Groups the names of a profile.
pub fn fold(profile: &mut Profile, folding: NameFolding) {
    if folding.runtime {
        profile.regroup_frames(|profile, _, line| {
            let function = profile.function(line.function?);
            let (name, file) = (profile.string(function.name), profile.string(function.filename));
            is_glue(name, file).then(|| RUNTIME_GROUP.to_string())
        });
    }
    if folding.crates {
        profile.regroup_frames(|profile, location, line| Some(crate_of(profile, location, line)));
    } else if folding.generics {
        profile.rename_functions(|name, _| {
            let folded = without_generics(name);
            Renamed { name: (folded != name).then_some(folded), filename: None }
        });
    }
}

/// The crate of a frame, or its binary when it is not Rust.
fn crate_of(profile: &Profile, location: LocationId, line: &Line) -> String {
    let name = line.function.map_or("", |function| profile.string(profile.function(function).name));
    if name == RUNTIME_GROUP {
        return name.to_string();
    }
    crate_name(name).map(str::to_string).unwrap_or_else(|| {
        let mapping = profile.location(location).mapping.map(|id| profile.mapping(id).filename);
        match mapping.map(|file| base_name(profile.string(file))).filter(|file| !file.is_empty()) {
            Some(file) => format!("[{}]", file.trim_matches(['[', ']'])),
            None => "[native]".into(),
        }
    })
}

/// The crate that a Rust name belongs to; `None` for names that are not Rust's.
pub fn crate_name(name: &str) -> Option<&str> {
    // `<T as Trait>::f` belongs to its type; a type that is no path (`&T`, `[T]`, `F`) to its trait.
    if let Some(inside) = name.strip_prefix('<') {
        let end = matching_angle(inside)?;
        let (inside, _) = inside.split_at(end);
        let (self_type, in_trait) = match split_as(inside) {
            Some((self_type, in_trait)) => (self_type, Some(in_trait)),
            None => (inside, None),
        };
        return crate_name(bare_type(self_type)).or_else(|| crate_name(in_trait?));
    }
    // In `push<std::path::Path>` the path stands in the parameters: it says nothing about the function.
    let (first, _) = name.split_once("::").filter(|(first, _)| !first.contains('<'))?;
    let first = first.split(' ').next().unwrap_or(first);
    let is_identifier = !first.is_empty() && first.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_identifier.then_some(first)
}

fn bare_type(mut name: &str) -> &str {
    for prefix in ["&", "mut ", "*const ", "*mut ", "dyn ", "impl ", "[", "("] {
        name = name.strip_prefix(prefix).unwrap_or(name);
    }
    name
}

/// Where the angle bracket that was opened before `text` closes.
fn matching_angle(text: &str) -> Option<usize> {
    let mut depth = 1usize;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            // An arrow (`->`) closes nothing.
            '>' if before != '-' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
        before = c;
    }
    None
}

/// Splits `Type as Trait` outside of brackets.
fn split_as(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 && text[at..].starts_with(" as ") => {
                return Some((&text[..at], &text[at + 4..]));
            }
            _ => {}
        }
    }
    None
}

/// The name without type parameters. The type in `<Type as Trait>::f` stays, without its own parameters.
pub fn without_generics(name: &str) -> String {
    if !name.contains('<') {
        return name.to_string();
    }
    if let Some(inside) = name.strip_prefix('<') {
        if let Some(end) = matching_angle(inside) {
            let rest = without_generics(&inside[end + 1..]);
            let inside = &inside[..end];
            return match split_as(inside) {
                Some((own, in_trait)) => {
                    format!("<{} as {}>{rest}", without_generics(own), without_generics(in_trait))
                }
                None => format!("<{}>{rest}", without_generics(inside)),
            };
        }
        return name.to_string();
    }
    let Some(open) = name.find('<') else { return name.to_string() };
    let Some(close) = matching_angle(&name[open + 1..]) else { return name.to_string() };
    let before = name[..open].trim_end_matches("::");
    format!("{before}{}", without_generics(&name[open + close + 2..]))
}

/// Whether a function only passes calls on: the start of threads, closures, futures and tasks. Inlined functions
/// often have none but their last name (`catch_unwind`, `with_mut`): those are known by their `file`.
fn is_glue(name: &str, file: &str) -> bool {
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
    crate_name(name).is_none() && path_of_file(file).is_some_and(|path| starts(&path))
}

/// Whether a box or another pointer of the standard library calls or polls what it holds.
fn is_boxed_call(name: &str) -> bool {
    let Some(inside) = name.strip_prefix('<') else { return false };
    let Some(Some((own, in_trait))) = matching_angle(inside).map(|end| split_as(&inside[..end])) else {
        return false;
    };
    let passes_on = ["core::ops::function::", "core::future::"];
    matches!(crate_name(own), Some("alloc" | "core" | "std"))
        && passes_on.iter().any(|prefix| in_trait.starts_with(prefix))
}

/// The module that a source file of a crate is, as a path with its end: `tokio::runtime::task::core::`.
fn path_of_file(file: &str) -> Option<String> {
    let (before, inside) = file.rsplit_once("/src/")?;
    let folder = before.rsplit('/').next()?;
    let name = match folder.rsplit_once('-') {
        Some((name, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => name,
        _ => folder,
    };
    let module = inside.strip_suffix(".rs")?.trim_end_matches("/mod").replace('/', "::");
    Some(format!("{}::{module}::", name.replace('-', "_")))
}

/// For `<Type as Trait>::f`, the path that says whose code it is: the type's, or the trait's when the type
/// is no path of its own.
fn bare_path(name: &str) -> &str {
    let Some(inside) = name.strip_prefix('<') else { return name };
    let Some(end) = matching_angle(inside) else { return name };
    match split_as(&inside[..end]) {
        Some((own, in_trait)) => {
            let own = bare_type(own);
            if crate_name(own).is_some() { own } else { in_trait }
        }
        None => bare_type(&inside[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generics_go_and_types_stay() {
        for (name, folded) in [
            ("alloc::vec::Vec<u8>::push", "alloc::vec::Vec::push"),
            ("core::mem::swap::<alloc::string::String>", "core::mem::swap"),
            (
                "<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend",
                "<alloc::vec::Vec as core::iter::Extend>::extend",
            ),
            ("<F as core::ops::FnOnce<(A, fn() -> B)>>::call_once", "<F as core::ops::FnOnce>::call_once"),
            ("plain", "plain"),
            ("a::b<c", "a::b<c"),
        ] {
            assert_eq!(without_generics(name), folded, "{name}");
        }
    }

    #[test]
    fn crates_are_found() {
        for (name, expected) in [
            ("serde_json::de::from_str::<T>", Some("serde_json")),
            ("<alloc::vec::Vec<my::T> as core::fmt::Debug>::fmt", Some("alloc")),
            ("<&T as core::fmt::Debug>::fmt", Some("core")),
            ("<hashbrown::map::HashMap<K,V>>::insert", Some("hashbrown")),
            ("push<std::path::Path>", None),
            ("memcpy", None),
            ("[runtime glue]", None),
        ] {
            assert_eq!(crate_name(name), expected, "{name}");
        }
    }

    #[test]
    fn glue_is_told_from_work() {
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
