//! Function names: which crate they belong to, and how Rust developers group them.

#[cfg(feature = "text")]
mod fold;
mod go_between;
mod short;

use flamelet_symbol::owner::Owner;
pub(crate) use flamelet_symbol::rust_name::{
    bare_path, crate_name, matching_angle, module_of_file, split_as, split_file,
};

#[cfg(feature = "text")]
pub use fold::NameFolding;
#[cfg(feature = "text")]
pub(crate) use fold::{fold, folded_name, folded_owner};
#[cfg(feature = "text")]
pub(crate) use go_between::is_profiled_allocator;
pub(crate) use go_between::{is_glue, is_standard, stands_for_itself};
pub(crate) use short::short_name;
#[cfg(feature = "text")]
pub(crate) use short::without_arguments;

/// Returns the name of an owner without a version: `tokio`, `std`, `libc.so.6`.
pub(crate) fn package_name(owner: &Owner) -> &str {
    match owner {
        Owner::Dependency(package) | Owner::Runtime(package) => &package.name,
        Owner::System(file) => file,
        other => other.kind(),
    }
}

/// Returns the last part of a path. Profiles come from other machines, so paths are text and are never opened.
#[cfg(feature = "text")]
pub(crate) fn base_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// Returns the crate, Go package or C++ namespace that a function belongs to; empty if the name does not say.
///
/// ```
/// use flamelet_report::names::crate_of;
/// assert_eq!(crate_of("tokio::runtime::park::Inner::park"), "tokio");
/// assert_eq!(crate_of("<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop"), "alloc");
/// assert_eq!(crate_of("<&T as core::fmt::Debug>::fmt"), "core");
/// assert_eq!(crate_of("net/http.(*conn).serve"), "net/http");
/// assert_eq!(crate_of("memcpy"), "");
/// ```
pub fn crate_of(name: &str) -> &str {
    if name.starts_with('[') {
        return name;
    }
    crate_name(name).or_else(|| go_package(name)).unwrap_or("")
}

/// Returns the crate that a source file belongs to, for functions whose names do not say (inlined ones often have
/// only their last part): the folder around `src`, without a version.
///
/// ```
/// use flamelet_report::names::crate_of_file;
/// assert_eq!(crate_of_file("/rustc/5980/library/core/src/ops/function.rs"), "core");
/// assert_eq!(crate_of_file("/home/a/.cargo/registry/src/index.crates.io-1/regex-automata-0.4.9/src/dfa.rs"), "regex_automata");
/// assert_eq!(crate_of_file("main.c"), "");
/// ```
pub fn crate_of_file(file: &str) -> String {
    split_file(file).map_or_else(String::new, |(krate, _)| krate)
}

fn go_package(name: &str) -> Option<&str> {
    let slash = name.rfind('/').map_or(0, |at| at + 1);
    let dot = slash + name[slash..].find('.')?;
    let package = &name[..dot];
    let symbol = &name[dot + 1..];
    let suffix = ["cold", "part.", "llvm.", "isra.", "constprop.", "lto_priv."];
    let is_clone = suffix.iter().any(|start| symbol.starts_with(start)) || symbol.is_empty();
    let is_path = package.chars().all(|c| c.is_alphanumeric() || "/_-.~".contains(c)) && !package.is_empty();
    (is_path && !is_clone && !symbol.starts_with(|c: char| c.is_ascii_digit())).then_some(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_found() {
        for (name, expected) in [
            ("serde_json::de::from_str::<T>", Some("serde_json")),
            ("<alloc::vec::Vec<my::T> as core::fmt::Debug>::fmt", Some("alloc")),
            ("<&T as core::fmt::Debug>::fmt", Some("core")),
            ("<hashbrown::map::HashMap<K,V>>::insert", Some("hashbrown")),
            ("push<std::path::Path>", None),
            ("memcpy", None),
            ("[folded: tokio]", None),
        ] {
            assert_eq!(crate_name(name), expected, "{name}");
        }
    }

    #[test]
    fn crates_are_found_in_names_of_all_kinds() {
        let known = [
            ("core::ptr::drop_in_place<hyper::Body>", "core"),
            ("<hyper::proto::h1::Conn<I,B> as Future>::poll", "hyper"),
            ("<[T] as alloc::slice::SliceExt>::to_vec", "alloc"),
            ("<dyn std::io::Write>::write_fmt", "std"),
            ("std::vector<int, std::allocator<int> >::push_back", "std"),
            ("runtime.mallocgc", "runtime"),
            ("github.com/a/b.(*T).M", "github.com/a/b"),
            ("push<std::path::PathBuf>", ""),
            ("foo.cold", ""),
            ("bar.part.0", ""),
            ("__libc_start_main", ""),
            ("[libc.so.6]", "[libc.so.6]"),
            ("<script>alert(1)</script>", ""),
            ("", ""),
            ("::", ""),
        ];
        for (name, krate) in known {
            assert_eq!(crate_of(name), krate, "{name}");
        }
    }
}
