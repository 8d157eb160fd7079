//! Content negotiation: the form of profile that a client prefers.

use http::HeaderMap;
use http::header::ACCEPT;

/// The form of an answer that a client prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preference {
    /// gzipped pprof, for programs.
    Pprof,
    /// A flame graph as a page.
    Html,
    /// A flame graph as a picture.
    Svg,
}

/// Returns a flame graph for clients that accept its type; pprof for all others, `*/*` included.
pub(super) fn preference(headers: &HeaderMap) -> Preference {
    let mut best = (Preference::Pprof, 0.0);
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    for part in values.flat_map(|value| value.split(',')) {
        let (kind, quality) = parse(part);
        let Some(preference) = preference_of(&kind) else { continue };
        // Among equals, a picture wins over a file, and the first picture over the second.
        let is_better = quality > best.1 || (quality == best.1 && best.0 == Preference::Pprof);
        if quality > 0.0 && is_better {
            best = (preference, quality);
        }
    }
    best.0
}

fn preference_of(kind: &str) -> Option<Preference> {
    match kind {
        "text/html" | "application/xhtml+xml" => Some(Preference::Html),
        "image/svg+xml" => Some(Preference::Svg),
        "application/octet-stream"
        | "application/x-protobuf"
        | "application/protobuf"
        | "application/vnd.google.protobuf"
        | "application/x-gzip"
        | "application/gzip" => Some(Preference::Pprof),
        _ => None,
    }
}

/// Splits `text/html;q=0.8` into its type and its quality.
fn parse(part: &str) -> (String, f32) {
    let mut pieces = part.split(';').map(str::trim);
    let kind = pieces.next().unwrap_or_default().to_ascii_lowercase();
    let quality = pieces.find_map(|piece| piece.strip_prefix("q=").or_else(|| piece.strip_prefix("Q=")));
    let quality = quality.map_or(1.0, |text| text.trim().parse().unwrap_or(0.0));
    (kind, quality)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn of(accept: &'static str) -> Preference {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        preference(&headers)
    }

    #[test]
    fn only_clients_that_ask_for_a_picture_get_one() {
        assert_eq!(preference(&HeaderMap::new()), Preference::Pprof);
        assert_eq!(of("*/*"), Preference::Pprof);
        assert_eq!(of("application/octet-stream"), Preference::Pprof);
        assert_eq!(of("text/html"), Preference::Html);
        assert_eq!(of("image/svg+xml"), Preference::Svg);
        assert_eq!(of("IMAGE/SVG+XML , */*"), Preference::Svg);
        let chromium =
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";
        assert_eq!(of(chromium), Preference::Html);
        assert_eq!(of("image/svg+xml;q=0.9, text/html;q=0.2"), Preference::Svg);
        assert_eq!(of("text/html;q=0"), Preference::Pprof);
        assert_eq!(of("text/html;q=nonsense"), Preference::Pprof);
        assert_eq!(of("application/octet-stream, text/html;q=0.5"), Preference::Pprof);
        assert_eq!(of("application/octet-stream, text/html"), Preference::Html);
    }
}
