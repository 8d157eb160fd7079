//! Problems in the background: they are reported, and the service continues.

use std::io::Write as _;

use flamelet_capture::profile::terminal::escaped;

/// Standard error may be a file on the very disk that is full. That must not end the thread that reports it, so
/// `eprintln!`, which panics, is not used.
pub(crate) fn to_standard_error(problem: &str) {
    let _ = std::io::stderr().write_all(line(problem).as_bytes());
}

/// Returns the line to write. A part of it may come from another machine, and it may be read on a terminal.
fn line(problem: &str) -> String {
    format!("flamelet: {}\n", escaped(problem).replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line_that_no_terminal_obeys() {
        let problem = "it refuses (\x1b]0;owned\x07\u{202e}\nflamelet: all is well)";
        let expected = "flamelet: it refuses (\\x1b]0;owned\\x07\\u{202e} flamelet: all is well)\n";
        assert_eq!(line(problem), expected);
    }
}
