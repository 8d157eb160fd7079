//! Demangles Rust (v0 and legacy) and C++ symbol names; those of C++ without arguments, unless the feature `cpp` is on.

mod cpp_name;

use std::borrow::Cow;
use std::fmt;

#[cfg(not(feature = "cpp"))]
use cpp_name as cpp;
#[doc(hidden)] // The fuzz target `names` has the feature `cpp`, too.
pub use cpp_name::cpp_name;

/// Longer symbols are left as they are.
const LONGEST_SYMBOL: usize = 1 << 16;
/// A symbol with a longer demangled name is left as it is: a short hostile symbol can describe a name of gigabytes.
const LONGEST_NAME: usize = 1 << 16;

/// Whether to demangle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Demangle {
    /// Leave names as they are in the binary.
    Never,
    /// Demangle whole names, with template and generic arguments, without the hash of Rust's legacy names.
    #[default]
    Full,
}

/// Returns `symbol` demangled, or unchanged if it is not a Rust or C++ symbol.
///
/// ```
/// use flamelet_symbol::demangle::demangle;
/// assert_eq!(demangle("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"), "core::fmt::Write::write_fmt");
/// assert_eq!(demangle("_RNvC7mycrate3foo"), "mycrate::foo");
/// # #[cfg(feature = "cpp")]
/// assert_eq!(demangle("_ZN3foo3barEi"), "foo::bar(int)");
/// assert_eq!(demangle("main"), "main");
/// ```
pub fn demangle(symbol: &str) -> Cow<'_, str> {
    if symbol.len() > LONGEST_SYMBOL {
        return Cow::Borrowed(symbol);
    }
    rust(symbol).or_else(|| cpp(symbol)).map_or(Cow::Borrowed(symbol), Cow::Owned)
}

/// Returns the (name, system name) pair that a profile stores for a symbol.
///
/// `go tool pprof` strips `<…>` from names that equal their system name. An unmangled name with angle brackets (as in
/// debug information without linkage names) therefore gets an empty system name.
pub fn profile_names(symbol: &str, how: Demangle) -> (Cow<'_, str>, &str) {
    let name = match how {
        Demangle::Never => Cow::Borrowed(symbol),
        Demangle::Full => demangle(symbol),
    };
    let would_be_stripped = how == Demangle::Full && name == symbol && symbol.contains('<');
    (name, if would_be_stripped { "" } else { symbol })
}

fn rust(symbol: &str) -> Option<String> {
    if !may_be_mangled(symbol) {
        return None;
    }
    let demangled = rustc_demangle::try_demangle(symbol).ok()?;
    let mut name = ShortString::default();
    // The alternate form omits the hash.
    fmt::write(&mut name, format_args!("{demangled:#}")).ok()?;
    Some(name.0)
}

#[cfg(feature = "cpp")]
fn cpp(symbol: &str) -> Option<String> {
    if !symbol.starts_with("_Z") && !symbol.starts_with("__Z") && !symbol.starts_with("_GLOBAL_") {
        return None;
    }
    let whole = || {
        let parsed = cpp_demangle::Symbol::new(symbol).ok()?;
        let mut name = ShortString::default();
        parsed.structured_demangle(&mut name, &cpp_demangle::DemangleOptions::new()).ok()?;
        Some(name.0)
    };
    // Arguments may be what it does not understand.
    whole().or_else(|| cpp_name(symbol))
}

/// Quickly rules out C names, which are the most common.
fn may_be_mangled(symbol: &str) -> bool {
    let start = symbol.trim_start_matches('_');
    start.starts_with('Z') || start.starts_with('R')
}

/// A string that refuses to grow beyond [`LONGEST_NAME`].
#[derive(Default)]
struct ShortString(String);

impl fmt::Write for ShortString {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST_NAME {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_and_cpp_names() {
        let known = [
            (
                "_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE",
                "<Test + 'static as foo::Bar<Test>>::bar",
            ),
            ("_RNvMC0INtC8arrayvec8ArrayVecpKj7b_E3new", "<arrayvec::ArrayVec<_, 123>>::new"),
            ("_RNCNvCsgStHSCytQ6I_7mycrate3foo0B3_", "mycrate::foo::{closure#0}"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backERKi",
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
            ),
            ("_ZN3foo17h05af221e174051e9E.llvm.123456", "foo"),
            #[cfg(feature = "cpp")] // An expression in the type of the result.
            (
                "_ZSteqIcEN9__gnu_cxx11__enable_ifIXsrSt9__is_charIT_E7__valueEbE6__typeERKNSt7__cxx1112basic_stringI\
                 S3_St11char_traitsIS3_ESaIS3_EEESE_",
                "std::operator==",
            ),
            ("memcpy", "memcpy"),
            ("_start", "_start"),
            ("_Zgarbage", "_Zgarbage"),
            ("", ""),
        ];
        for (symbol, name) in known {
            assert_eq!(demangle(symbol), name);
        }
    }

    #[test]
    fn names_that_pprof_would_strip() {
        assert_eq!(
            profile_names("_RNvC7mycrate3foo", Demangle::Full),
            ("mycrate::foo".into(), "_RNvC7mycrate3foo")
        );
        assert_eq!(profile_names("push<u8>", Demangle::Full), ("push<u8>".into(), ""));
        assert_eq!(profile_names("main", Demangle::Full), ("main".into(), "main"));
        assert_eq!(profile_names("_ZN1a1bEv", Demangle::Never), ("_ZN1a1bEv".into(), "_ZN1a1bEv"));
    }

    #[test]
    fn a_symbol_that_doubles_with_every_letter_stays_short() {
        let mut symbol = String::from("_Z1fI1a");
        for level in 0..40 {
            let seq = if level == 0 { "_".to_owned() } else { format!("{}_", level - 1) };
            symbol.push_str(&format!("P1bIS{seq}S{seq}E"));
        }
        symbol.push_str("EvT_");
        assert!(demangle(&symbol).len() <= LONGEST_NAME);
    }
}
