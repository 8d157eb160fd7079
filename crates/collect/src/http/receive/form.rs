//! Forms, as Pyroscope's older agents send them.

use crate::collector::Refused;

/// The longest boundary that a form may have (RFC 2046). Each byte of the form may be compared with all of it.
const LONGEST_BOUNDARY: usize = 70;

/// Returns the profile in a form: the part named `profile`.
pub(super) fn file(content_type: &str, body: &[u8]) -> Result<Vec<u8>, Refused> {
    let wrong = |what: &str| Refused::new(400, format!("the form cannot be read: {what}"));
    let boundary = content_type.split("boundary=").nth(1).map(|rest| rest.split(';').next().unwrap_or(rest));
    let boundary = boundary.map(|text| text.trim().trim_matches('"')).filter(|text| !text.is_empty());
    let boundary = boundary.ok_or_else(|| wrong("it has no boundary"))?;
    if boundary.len() > LONGEST_BOUNDARY {
        return Err(wrong("its boundary is longer than 70 bytes"));
    }
    let mark = format!("--{boundary}");
    let starts = find_all(body, mark.as_bytes());
    for pair in starts.windows(2) {
        // Marks may overlap if the boundary is made of dashes.
        let Some(part) = body.get(pair[0] + mark.len()..pair[1]) else { continue };
        let Some(at) = find_all(part, b"\r\n\r\n").first().copied() else { continue };
        let head = String::from_utf8_lossy(&part[..at]).to_ascii_lowercase();
        if head.contains("name=\"profile\"") {
            let content = &part[at + 4..];
            return Ok(content.strip_suffix(b"\r\n").unwrap_or(content).to_vec());
        }
    }
    Err(wrong("it has no part named profile"))
}

fn find_all(bytes: &[u8], what: &[u8]) -> Vec<usize> {
    let at = |(at, window): (usize, &[u8])| (window == what).then_some(at);
    bytes.windows(what.len()).enumerate().filter_map(at).take(1000).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read() {
        let body = b"--B\r\nContent-Disposition: form-data; name=\"profile\"; filename=\"p\"\r\n\r\nhello\r\n\r\n\r\n--B--\r\n";
        assert_eq!(file("multipart/form-data; boundary=B", body).expect("read"), b"hello\r\n\r\n");
        assert!(file("multipart/form-data", body).is_err());
        assert!(file("multipart/form-data; boundary=C", body).is_err());
        assert!(file("multipart/form-data; boundary=-", b"-----").is_err(), "its marks overlap");
    }

    /// Looking for a long one in a long body that nearly has it everywhere would take hours.
    #[test]
    fn a_boundary_is_as_long_as_allowed() {
        for (length, is_read) in [(LONGEST_BOUNDARY, true), (LONGEST_BOUNDARY + 1, false)] {
            let boundary = "b".repeat(length);
            let body = format!("--{boundary}\r\nname=\"profile\"\r\n\r\nhello\r\n--{boundary}--\r\n");
            let found = file(&format!("multipart/form-data; boundary={boundary}"), body.as_bytes());
            assert_eq!(found.is_ok(), is_read, "{length}: {found:?}");
        }
    }
}
