//! The trace that a piece of work belongs to, as OpenTelemetry and W3C Trace Context identify it.

use std::fmt;

use flamelet_capture::profile::hex;

/// The longest `traceparent` that is read; later versions of the header may have more fields.
const LONGEST_HEADER: usize = 256;

/// The length of version 00 of the header, and of the fields that every version has.
const HEADER_LENGTH: usize = 55;

/// The ids of a trace and of a span of it. Samples carry them as the labels `trace_id` (32 hexadecimal digits) and
/// `span_id` (16), which Pyroscope's span profiles and `--tagfocus trace_id=…` select by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceIds {
    trace: [u8; 16],
    span: [u8; 8],
}

impl TraceIds {
    /// Returns the ids; `None` if either is all zeros, which means that there is none.
    pub fn new(trace: [u8; 16], span: [u8; 8]) -> Option<Self> {
        (trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span })
    }

    /// Reads a W3C `traceparent` header, such as `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`. Returns `None`
    /// if it does not follow the specification to the letter, which allows lower case only.
    pub fn from_traceparent(header: &str) -> Option<Self> {
        let header = header.as_bytes();
        if header.len() < HEADER_LENGTH || header.len() > LONGEST_HEADER {
            return None;
        }
        let (fields, rest) = header.split_at(HEADER_LENGTH);
        let [version] = hex::decode_array(&fields[..2])?;
        let dashes = [2, 35, 52].iter().all(|&at| fields[at] == b'-');
        // Version 00 ends here. A later one may go on, after a dash; ff is no version.
        let has_right_end =
            if version == 0 { rest.is_empty() } else { rest.first().is_none_or(|&next| next == b'-') };
        if !dashes || version == 0xff || !has_right_end {
            return None;
        }
        let [_flags] = hex::decode_array(&fields[53..])?;
        Self::new(hex::decode_array(&fields[3..35])?, hex::decode_array(&fields[36..52])?)
    }

    /// Returns the labels of samples.
    pub fn labels(&self) -> [(&'static str, String); 2] {
        [("trace_id", hex::encode(&self.trace)), ("span_id", hex::encode(&self.span))]
    }
}

impl fmt::Debug for TraceIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceIds({}-{})", hex::encode(&self.trace), hex::encode(&self.span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn a_header_of_the_specification_is_read() {
        let expected = [("trace_id", TRACE.to_owned()), ("span_id", SPAN.to_owned())];
        for header in [
            format!("00-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-00"),
            // Later versions are read as far as they are known.
            format!("01-{TRACE}-{SPAN}-01"),
            format!("cc-{TRACE}-{SPAN}-01-what-the-future-holds"),
        ] {
            let ids = TraceIds::from_traceparent(&header).unwrap_or_else(|| panic!("{header}"));
            assert_eq!(ids.labels(), expected, "{header}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let good = format!("00-{TRACE}-{SPAN}-01");
        let zeros = "0".repeat(32);
        let mut bad = vec![
            String::new(),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("{good}-more"),
            format!("{good} "),
            format!("01{}x", &good[2..]),
            format!("01{}-{}", &good[2..], "x".repeat(1000)),
            good.replace('-', "_"),
            good.replace("4b", "4g"),
            good.replace("4b", "é"),
        ];
        bad.extend((0..good.len()).map(|end| good[..end].to_owned()));
        for header in bad {
            assert_eq!(TraceIds::from_traceparent(&header), None, "{header}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let good = format!("00-{TRACE}-{SPAN}-01");
        for at in 0..good.len() {
            for other in ["\0", "é", "-", "G", "\u{10ffff}"] {
                let mut header = good.clone();
                header.replace_range(at..=at, other);
                let _ = TraceIds::from_traceparent(&header);
            }
        }
    }
}
