//! Names of functions: whose code they are, and how a Rust person groups them.

mod fold;
mod go_between;

pub use fold::{NameFolding, RUNTIME_GROUP, fold};
pub(crate) use go_between::{is_standard, stands_for_itself};

/// The last part of a path. Profiles come from other machines, so paths are text and never looked up here.
pub(crate) fn base_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// The crate, Go package or C++ namespace that a function belongs to; empty when the name does not say.
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

/// The crate that a source file belongs to, for functions whose names do not say (inlined ones often have
/// none but their last step): the folder around `src`, without a version.
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

/// The crate of a source file, and the file's path below the crate's `src`.
fn split_file(file: &str) -> Option<(String, &str)> {
    let (before, inside) = file.rsplit_once("/src/")?;
    let folder = before.rsplit('/').next()?;
    let name = match folder.rsplit_once('-') {
        Some((name, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => name,
        _ => folder,
    };
    Some((name.replace('-', "_"), inside))
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
