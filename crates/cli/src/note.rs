//! Messages on standard error, and escaping for terminals.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Write;

/// Writes a line to standard error. `eprintln!` panics if standard error is a closed terminal or a pipe without a
/// reader; a note is never worth that. Names from a profile, a file or a service are escaped.
macro_rules! note {
    ($($text:tt)*) => {{
        crate::note::say(&format!("{}", format_args!($($text)*)));
    }};
}

thread_local! {
    /// The notes of this thread while they are collected.
    static COLLECTED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Writes a note, or adds it to those that are collected.
pub(crate) fn say(text: &str) {
    use std::io::Write as _;
    let text = escaped(text);
    let is_collected = COLLECTED.with_borrow_mut(|collected| match collected {
        Some(notes) => {
            notes.push(text.clone().into_owned());
            true
        }
        None => false,
    });
    if !is_collected {
        // One write, so that lines of several processes do not mix.
        let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
    }
}

/// Runs `work`, and returns the notes of this thread meanwhile instead of writing them.
pub(crate) fn collect<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    COLLECTED.set(Some(Vec::new()));
    let result = work();
    (result, COLLECTED.take().unwrap_or_default())
}

/// Returns `text` in a form that is safe to print on a terminal: control characters become `\x1b` or `\u{202e}`. Line
/// ends and tabs stay.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    text.chars().for_each(|letter| push(&mut plain, letter));
    Cow::Owned(plain)
}

fn push(plain: &mut String, letter: char) {
    match letter {
        _ if !acts(letter) => plain.push(letter),
        '\r' => plain.push_str("\\r"),
        // Writing to a string does not fail.
        '\0'..='\x7f' => drop(write!(plain, "\\x{:02x}", u32::from(letter))),
        _ => drop(write!(plain, "\\u{{{:x}}}", u32::from(letter))),
    }
}

/// Returns whether a terminal obeys the character (control characters), may reorder or split the line because of it
/// (bidirectional and line controls), or does not show it at all (tags).
fn acts(letter: char) -> bool {
    match letter {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        '\u{feff}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => letter.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::{collect, escaped};

    #[test]
    fn notes_are_collected() {
        let (result, notes) = collect(|| {
            note!("one {}", 1);
            note!("two\x07");
            3
        });
        assert_eq!((result, notes), (3, vec!["one 1".to_owned(), "two\\x07".to_owned()]));
        assert_eq!(collect(|| ()).1, Vec::<String>::new());
    }

    #[test]
    fn what_acts_on_a_terminal_is_shown() {
        assert_eq!(escaped("\x1b]0;title\x07 \x7f\0\r"), "\\x1b]0;title\\x07 \\x7f\\x00\\r");
        // The one-byte form of ESC [, and characters that reverse the line.
        assert_eq!(escaped("\u{9b}31m \u{202e}evil\u{2066}"), "\\u{9b}31m \\u{202e}evil\\u{2066}");
    }

    #[test]
    fn what_is_only_shown_stays() {
        let text = "main::<T>\n\tgrüße 日本語 🦀 e\u{301} a\u{200d}b";
        assert!(matches!(escaped(text), std::borrow::Cow::Borrowed(same) if same == text));
    }
}
