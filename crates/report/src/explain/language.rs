//! Texts that depend on the language of the program.

/// A text of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByLanguage {
    rust: &'static str,
    elsewhere: &'static str,
}

/// A text that holds in every language.
pub(super) const fn same(text: &'static str) -> ByLanguage {
    ByLanguage { rust: text, elsewhere: text }
}

/// A text for programs in Rust, and one for others.
pub(super) const fn by_language(rust: &'static str, elsewhere: &'static str) -> ByLanguage {
    ByLanguage { rust, elsewhere }
}

impl ByLanguage {
    pub(super) fn of(&self, is_rust: bool) -> &'static str {
        if is_rust { self.rust } else { self.elsewhere }
    }
}
