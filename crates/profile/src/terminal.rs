//! Text that others wrote, on a terminal or in a log that may be read on one.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns `text` in a form that is safe to print on a terminal: control characters become `\x1b` or `\u{202e}`. Line
/// ends and tabs stay.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    text.chars().for_each(|letter| push(&mut plain, letter));
    Cow::Owned(plain)
}

/// Returns the first `most` characters of `text`, as one line that is safe to print: what acts on a terminal, line ends and
/// tabs become spaces.
pub fn one_line(text: &str, most: usize) -> String {
    let is_shown = |letter: char| !acts(letter) && !letter.is_control();
    text.chars().take(most).map(|letter| if is_shown(letter) { letter } else { ' ' }).collect()
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
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown() {
        assert_eq!(escaped("\x1b]0;title\x07 \x7f\0\r"), "\\x1b]0;title\\x07 \\x7f\\x00\\r");
        // The one-byte form of ESC [, and characters that reverse the line.
        assert_eq!(escaped("\u{9b}31m \u{202e}evil\u{2066}"), "\\u{9b}31m \\u{202e}evil\\u{2066}");
    }

    #[test]
    fn what_is_only_shown_stays() {
        let text = "main::<T>\n\tgrüße 日本語 🦀 e\u{301} a\u{200d}b";
        assert!(matches!(escaped(text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(one_line("a\nb\u{202e}c\x1b\td🦀", 100), "a b c  d🦀");
        assert_eq!(one_line("grüße", 3), "grü");
    }
}
