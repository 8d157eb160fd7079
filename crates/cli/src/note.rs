//! What is said to a person beside the result.

/// Writes a line to standard error. The standard library's macro for it would panic where nobody can be told any more: a
/// terminal that was closed, a pipe without a reader. What is said is never worth what is still to be done. Whatever a
/// profile, a file name or a service put into the line, it cannot act on a terminal.
macro_rules! note {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        // One write, so that lines of several processes do not mix.
        let line = format!("{}\n", format_args!($($text)*));
        let _ = std::io::stderr().write_all(crate::plain::escaped(&line).as_bytes());
    }};
}
