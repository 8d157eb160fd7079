//! `cdylib!(name)`: the bytes of the shared library that cargo has just built from the dependency `name`.
//!
//! A dependency whose `crate-type` has both `rlib` and `cdylib` is built as both, in the same step, with the profile
//! of the whole build. Cargo tells the compiler where the `rlib` is (`--extern name=…/libname-….rlib`), and the
//! `cdylib` is next to it. So nothing has to be built a second time, no build script runs cargo inside cargo, and
//! vendored, offline and locked builds work as they always do.
//!
//! Where only checks run (`cargo check`, clippy, rustdoc) or the target has no shared libraries (static musl), there
//! is no such file, and the slice is empty: report that at run time.

use std::path::{Path, PathBuf};

use proc_macro::{Delimiter, Group, Literal, TokenStream, TokenTree};

/// Expands to the bytes of the library as a `&'static [u8]`, see the crate's introduction.
#[proc_macro]
pub fn cdylib(input: TokenStream) -> TokenStream {
    let name = input.to_string();
    match beside_extern(name.trim()).and_then(|path| Some((std::fs::read(&path).ok()?, path))) {
        Some((library, path)) => bytes(&loadable_part(library), &path),
        None => [TokenTree::from(Literal::byte_string(&[]))].into_iter().collect(),
    }
}

/// Returns the shared library next to the file that `--extern name=` names.
fn beside_extern(name: &str) -> Option<PathBuf> {
    // Options may come before the name: `--extern priv:name=path`.
    let of_name = |argument: String| {
        let (names, path) = argument.split_once('=')?;
        (names.rsplit(':').next() == Some(name)).then(|| PathBuf::from(path))
    };
    let file = std::env::args().find_map(of_name)?;
    if file.extension()? != "rlib" {
        return None;
    }
    // Cargo adds a hash only to the names of libraries from registries.
    let plain = file.with_file_name(format!("lib{name}.so"));
    [file.with_extension("so"), plain].into_iter().find(|path| path.is_file())
}

/// Returns what the loader needs of a 64-bit ELF file: everything up to the end of its segments. Debug information,
/// symbol tables and section headers come after them.
fn loadable_part(mut library: Vec<u8>) -> Vec<u8> {
    let get = |at: usize, length: usize| {
        let bytes = library.get(at..at + length)?;
        Some(bytes.iter().rev().fold(0usize, |value, byte| value << 8 | usize::from(*byte)))
    };
    let end = || {
        let (first, size, count) = (get(0x20, 8)?, get(0x36, 2)?, get(0x38, 2)?);
        let ends =
            (0..count).map(|at| Some(get(first + at * size + 8, 8)? + get(first + at * size + 0x20, 8)?));
        ends.collect::<Option<Vec<usize>>>()?.into_iter().max()
    };
    let is_elf64_little = library.starts_with(&[0x7f, b'E', b'L', b'F', 2, 1]);
    if let Some(end) = end().filter(|&end| is_elf64_little && end >= 0x40 && end <= library.len()) {
        library.truncate(end);
        // Removes the section headers: their place, their count and the section of their names.
        library[0x28..0x30].fill(0);
        library[0x3c..0x40].fill(0);
    }
    library
}

/// `{ const _: &[u8] = include_bytes!("path"); b"…" }`: the first part makes the compiler rebuild when the file
/// changes.
fn bytes(library: &[u8], path: &Path) -> TokenStream {
    let watch = format!("const _: &[u8] = include_bytes!({:?});", path.to_string_lossy());
    let watch: TokenStream = watch.parse().expect("an item");
    let block = watch.into_iter().chain([TokenTree::from(Literal::byte_string(library))]).collect();
    [TokenTree::from(Group::new(Delimiter::Brace, block))].into_iter().collect()
}
