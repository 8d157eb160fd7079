//! Colour by crate: the same crate has the same colour in every picture and every run.

use super::tree::name_key;
use crate::rust_names::crate_name;

/// How many hues crates share. Warm ones are missing on purpose: they are kept for heat.
pub const HUES: u32 = 24;

/// The hue of code whose crate is the standard library or is not known.
pub const NEUTRAL: u32 = HUES;

/// The fills of a picture on white, by hue; `ui/palette.css` holds the same for the page.
pub(crate) const LIGHT: [&str; HUES as usize + 1] = [
    "#b5cdeb", "#a9dcd3", "#cdc1ee", "#b2dcb8", "#b9c3ef", "#a8d8e6", "#dcc0ea", "#c8dda9", "#c3c8e0",
    "#b9d9c6", "#e6c3dc", "#d3d9b0", "#8fb3de", "#87d3c7", "#ab98e0", "#8dd398", "#929ee0", "#86c7da",
    "#c897dd", "#b3d487", "#99a5d6", "#92d1ae", "#da99c7", "#c8d18c", "#d3d7dd",
];

/// The crate, Go package or C++ namespace that a function belongs to; empty when the name does not say.
///
/// ```
/// use flamelet_report::flame::crate_of;
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
/// use flamelet_report::flame::crate_of_file;
/// assert_eq!(crate_of_file("/rustc/5980/library/core/src/ops/function.rs"), "core");
/// assert_eq!(crate_of_file("/home/a/.cargo/registry/src/index.crates.io-1/regex-automata-0.4.9/src/dfa.rs"), "regex_automata");
/// assert_eq!(crate_of_file("main.c"), "");
/// ```
pub fn crate_of_file(file: &str) -> String {
    let Some(at) = file.rfind("/src/") else { return String::new() };
    let folder = file[..at].rsplit('/').next().unwrap_or_default();
    let name = match folder.rfind('-') {
        Some(dash) if folder[dash + 1..].starts_with(|c: char| c.is_ascii_digit()) => &folder[..dash],
        _ => folder,
    };
    name.replace('-', "_")
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

/// The hue of a crate, below [`HUES`], or [`NEUTRAL`].
pub fn hue_of(krate: &str) -> u32 {
    match krate {
        "" | "std" | "core" | "alloc" | "runtime" | "<unknown>" => NEUTRAL,
        _ if krate.starts_with('[') => NEUTRAL,
        // The factor was picked so that the crates most services are made of differ from each other.
        _ => (name_key(krate).wrapping_mul(0xf47b_14c5) >> 16) % HUES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn the_page_has_the_same_colours() {
        let style = super::super::page::STYLE;
        for (hue, colour) in LIGHT.iter().enumerate() {
            assert!(style.contains(&format!("--h{hue}: {colour};")), "hue {hue}");
        }
    }

    #[test]
    fn hues_do_not_depend_on_the_run() {
        assert_eq!(hue_of("std"), NEUTRAL);
        let common = ["tokio", "hyper", "axum", "tower", "serde_json", "h2"].map(hue_of);
        assert!(common.iter().enumerate().all(|(at, hue)| !common[..at].contains(hue)), "{common:?}");
        assert_eq!(name_key("a"), 0xe40c_292c, "FNV-1a's own test vector");
    }
}
