//! Rust names as other tools leave them: mangled, or taken for C++ and so half demangled.

use std::borrow::Cow;

/// What stands for characters that the linker's older names cannot have.
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
/// Longer names are left as they are.
const LONGEST: usize = 1 << 14;

/// `name` as a person writes it, without the hash at its end.
pub(crate) fn readable(name: &str) -> Cow<'_, str> {
    if name.len() > LONGEST {
        return Cow::Borrowed(name);
    }
    if name.starts_with("_R") || name.starts_with("_ZN") {
        return match rustc_demangle::try_demangle(name) {
            Ok(demangled) => Cow::Owned(format!("{demangled:#}")),
            Err(_) => Cow::Borrowed(name),
        };
    }
    match without_hash(name) {
        Some(name) => Cow::Owned(unescaped(name)),
        None => Cow::Borrowed(name),
    }
}

/// `a::b::h0123456789abcdef` without its last part, which only Rust's names have.
fn without_hash(name: &str) -> Option<&str> {
    let (rest, hash) = name.rsplit_once("::h")?;
    (hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(rest)
}

fn unescaped(name: &str) -> String {
    // A part that begins with an escape has an underscore before it.
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
        for other in ["main", "std::vector<int>::push_back(int)", "_ZNSt6vectorIiE4sizeEv", "a::hello", ""] {
            assert_eq!(readable(other), other);
        }
    }
}
