//! Names of labels, as Prometheus, Pyroscope and Parca allow them.

/// Returns a name with an underscore for each character that is not allowed.
pub(crate) fn allowed(name: &str) -> String {
    let is_allowed =
        |at: usize, c: char| c == '_' || c.is_ascii_alphabetic() || (at > 0 && c.is_ascii_digit());
    name.chars().enumerate().map(|(at, c)| if is_allowed(at, c) { c } else { '_' }).collect()
}
