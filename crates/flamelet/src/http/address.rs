//! The address of the page as the client knows it, for commands to copy.

use http::request::Parts;

/// Returns the whole address. It contains no character that is special inside a shell's `'…'`, whatever the client
/// sent.
pub(super) fn shown(parts: &Parts, host: Option<&str>, path: &str) -> String {
    let host = host.filter(|host| host.bytes().all(|byte| is_plain(byte) || b"[]".contains(&byte)));
    format!("{}://{}{}", scheme(parts), host.unwrap_or("HOST"), encoded(path))
}

/// Returns the client's scheme: HTTP/2 has it in the request, a proxy that terminates TLS sends it in a header.
fn scheme(parts: &Parts) -> &'static str {
    let forwarded = || {
        let value = parts.headers.get("x-forwarded-proto")?.to_str().ok()?;
        // Several proxies make a list, with the one closest to the client first.
        value.split(',').next().map(str::trim)
    };
    match parts.uri.scheme_str().or_else(forwarded) {
        Some(scheme) if scheme.eq_ignore_ascii_case("https") => "https",
        _ => "http",
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".:/_~%-".contains(&byte)
}

fn encoded(path: &str) -> String {
    let letter = |byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    path.bytes().map(letter).collect()
}
