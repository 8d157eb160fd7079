//! Parts of URLs.

/// Returns whether a text can be the path of a URL as it is.
pub(crate) fn is_path(text: &str) -> bool {
    text.starts_with('/')
        && text.chars().all(|letter| letter.is_ascii_graphic() && !"?#\\\"<>`{}".contains(letter))
}

/// Escapes a name or a value of a URL's parameters.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
