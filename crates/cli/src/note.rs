//! Messages on standard error, and escaping for terminals.

use std::cell::RefCell;

pub(crate) use flamelet_profile::terminal::escaped;

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

/// Runs `work`, and returns the notes that this thread makes meanwhile instead of writing them.
pub(crate) fn collect<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    COLLECTED.set(Some(Vec::new()));
    let result = work();
    (result, COLLECTED.take().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::collect;

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
}
