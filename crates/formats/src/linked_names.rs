//! Names as other tools leave them: Rust and C++ names mangled, or Rust names taken for C++ and so only half
//! demangled.

use std::borrow::Cow;
use std::fmt;

/// The escapes for characters that the older mangled names cannot contain.
const ESCAPES: [(&str, &str); 12] = [
    ("$LT$", "<"),
    ("$GT$", ">"),
    ("$LP$", "("),
    ("$RP$", ")"),
    ("$RF$", "&"),
    ("$BP$", "*"),
    ("$C$", ","),
    ("$u20$", " "),
    ("$u27$", "'"),
    ("$u7b$", "{"),
    ("$u7d$", "}"),
    ("..", "::"),
];
/// Longer names are left as they are, and so are short names that expand to longer ones.
const LONGEST: usize = 1 << 14;

/// Returns `name` in readable form, without the hash at its end.
pub(crate) fn readable(name: &str) -> Cow<'_, str> {
    if name.len() > LONGEST {
        return Cow::Borrowed(name);
    }
    if name.starts_with("_R") || name.starts_with("_Z") {
        return rust(name).or_else(|| cpp(name)).map_or(Cow::Borrowed(name), Cow::Owned);
    }
    match without_hash(name) {
        Some(name) => Cow::Owned(unescaped(name)),
        None => Cow::Borrowed(name),
    }
}

fn rust(name: &str) -> Option<String> {
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    let mut text = ShortText::default();
    // The alternate form leaves out the hash.
    fmt::write(&mut text, format_args!("{demangled:#}")).ok()?;
    Some(text.0)
}

fn cpp(name: &str) -> Option<String> {
    let parsed = cpp_demangle::Symbol::new(name).ok()?;
    let mut text = ShortText::default();
    parsed.structured_demangle(&mut text, &cpp_demangle::DemangleOptions::new()).ok()?;
    Some(text.0)
}

/// Text that refuses to grow beyond [`LONGEST`].
#[derive(Default)]
struct ShortText(String);

impl fmt::Write for ShortText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Returns `a::b::h0123456789abcdef` without its last part, which only Rust names have.
fn without_hash(name: &str) -> Option<&str> {
    let (rest, hash) = name.rsplit_once("::h")?;
    (hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(rest)
}

fn unescaped(name: &str) -> String {
    // A part that begins with an escape is preceded by an underscore.
    let mut text = name.replace("::_$", "::$");
    if let Some(rest) = text.strip_prefix("_$") {
        text = format!("${rest}");
    }
    ESCAPES.iter().fold(text, |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn names_become_readable() {
        assert_eq!(readable("_RNvC7fixture4leaf"), "fixture::leaf");
        assert_eq!(readable("_ZN7fixture4leaf17h0123456789abcdefE"), "fixture::leaf");
        assert_eq!(readable("fixture::leaf::h0123456789abcdef"), "fixture::leaf");
        assert_eq!(
            readable("_$LT$u8$u20$as$u20$alloc..vec..Spec$GT$::from_elem::hfedd8a2127fddfc5"),
            "<u8 as alloc::vec::Spec>::from_elem"
        );
        assert_eq!(readable("_ZNSt6vectorIiE4sizeEv"), "std::vector<int>::size()");
        assert_eq!(readable("_ZNK3foo3barEPKc"), "foo::bar(char const*) const");
        for other in ["main", "std::vector<int>::push_back(int)", "_Zebra", "_R", "_Z", "a::hello", ""] {
            assert_eq!(readable(other), other);
        }
    }

    #[test]
    fn a_short_name_within_a_huge_one_is_unchanged() {
        // Each argument is a pair of the previous one, and so twice as long.
        let mut name = String::from("_Z1f1PIiiE");
        for step in 0..24 {
            let before = if step == 0 {
                "0".to_owned()
            } else {
                char::from_digit(step, 36).unwrap().to_uppercase().to_string()
            };
            name += &format!("S_IS{before}_S{before}_E");
        }
        assert!(readable(&name).len() <= super::LONGEST);
    }
}
