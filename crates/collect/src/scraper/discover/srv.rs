//! SRV records: the question and the answer of the DNS protocol (RFC 1035, RFC 2782), as bytes.

/// The types and the class of records that are read or written here.
const SRV: u16 = 33;
const OPT: u16 = 41;
const INTERNET: u16 = 1;
/// The longest answer over UDP, as announced to the server (RFC 6891).
const MAX_UDP: u16 = 4096;
/// How often a compressed name may jump.
const MAX_JUMPS: usize = 16;
const HEADER: usize = 12;

/// A record: a host and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SrvRecord {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Returns the question for the SRV records of a name.
pub(super) fn query(name: &str, id: u16) -> Result<Vec<u8>, String> {
    let mut bytes = id.to_be_bytes().to_vec();
    // Recursion is desired; one question, and one additional record.
    for word in [0x0100, 1, 0, 0, 1] {
        bytes.extend_from_slice(&u16::to_be_bytes(word));
    }
    let name = name.trim_end_matches('.');
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length));
        bytes.push(length.ok_or_else(|| format!("{name:?} is not a name: a part is empty or too long"))?);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    for word in [SRV, INTERNET] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    // The root's name, the type, the length that we take, no flags, no data.
    bytes.push(0);
    for word in [OPT, MAX_UDP, 0, 0, 0] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    Ok(bytes)
}

/// Returns the records of an answer, sorted.
pub(super) fn records(bytes: &[u8], id: u16) -> Result<Vec<SrvRecord>, String> {
    let damaged = || "the name server's answer is damaged".to_owned();
    let header: Vec<u16> = (0..6).map_while(|at| word(bytes, at * 2)).collect();
    let [answer_id, flags, questions, answers, ..] = header[..] else { return Err(damaged()) };
    if answer_id != id || flags & 0x8000 == 0 {
        return Err("the name server answered something else".to_owned());
    }
    match flags & 0xf {
        0 => {}
        3 => return Err("no such name".to_owned()),
        code => return Err(format!("the name server failed (code {code})")),
    }
    let mut at = HEADER;
    for _ in 0..questions {
        at = name_at(bytes, at).ok_or_else(damaged)?.1 + 4;
    }
    let mut records = Vec::new();
    for _ in 0..answers {
        let (record, end) = record_at(bytes, at).ok_or_else(damaged)?;
        records.extend(record);
        at = end;
    }
    records.sort();
    records.dedup();
    Ok(records)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Reads a record, if it is an SRV record, and returns where it ends.
fn record_at(bytes: &[u8], at: usize) -> Option<(Option<SrvRecord>, usize)> {
    let at = name_at(bytes, at)?.1;
    let (kind, class, length) = (word(bytes, at)?, word(bytes, at + 2)?, word(bytes, at + 8)?);
    let data = at + 10;
    let end = data + usize::from(length);
    bytes.get(data..end)?;
    if (kind, class) != (SRV, INTERNET) {
        return Some((None, end));
    }
    // Behind priority and weight.
    let port = word(bytes, data + 4)?;
    let (host, behind) = name_at(bytes, data + 6)?;
    (behind == end).then_some((Some(SrvRecord { host, port }), end))
}

/// Reads a name, and returns where it ends.
fn name_at(bytes: &[u8], at: usize) -> Option<(String, usize)> {
    let (mut name, mut at, mut end) = (Vec::new(), at, None);
    let mut jumps = 0;
    loop {
        let length = usize::from(*bytes.get(at)?);
        match length {
            0 => break,
            1..=63 => {
                name.extend_from_slice(bytes.get(at + 1..at + 1 + length)?);
                name.push(b'.');
                at += 1 + length;
            }
            // The rest of the name is elsewhere.
            0xc0.. => {
                end.get_or_insert(at + 2);
                at = usize::from(word(bytes, at)? & 0x3fff);
                jumps += 1;
            }
            _ => return None,
        }
        if name.len() > 255 || jumps > MAX_JUMPS {
            return None;
        }
    }
    Some((String::from_utf8(name).ok()?, end.unwrap_or(at + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer with these records; the names of hosts end with a pointer to the question's name.
    fn answer(hosts: &[(&str, u16)]) -> Vec<u8> {
        let mut bytes = query("_http._tcp.shop.local", 7).expect("a name");
        bytes.truncate(bytes.len() - 11);
        bytes[2] |= 0x80;
        bytes[6..8].copy_from_slice(&u16::try_from(hosts.len()).expect("few").to_be_bytes());
        bytes[11] = 0;
        for (host, port) in hosts {
            let mut name = vec![u8::try_from(host.len()).expect("short")];
            name.extend_from_slice(host.as_bytes());
            // Behind `_http._tcp.`.
            name.extend_from_slice(&[0xc0, 23]);
            let length = u16::try_from(name.len() + 6).expect("short");
            bytes.extend_from_slice(&[0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 30]);
            for word in [length, 0, 100, *port] {
                bytes.extend_from_slice(&word.to_be_bytes());
            }
            bytes.extend_from_slice(&name);
        }
        bytes
    }

    #[test]
    fn a_question_is_as_the_rfc_has_it() {
        let bytes = query("a.bc.", 0x1234).expect("a name");
        assert_eq!(bytes[..12], [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
        assert_eq!(bytes[12..22], [1, b'a', 2, b'b', b'c', 0, 0, 33, 0, 1]);
        assert_eq!(bytes[22..], [0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0]);
        assert!(query("a..b", 1).is_err() && query(&"a".repeat(64), 1).is_err() && query("", 1).is_err());
    }

    #[test]
    fn records_are_read() {
        let found = records(&answer(&[("b", 81), ("a", 80), ("a", 80)]), 7).expect("good");
        let found: Vec<(&str, u16)> = found.iter().map(|record| (&*record.host, record.port)).collect();
        assert_eq!(found, [("a.shop.local.", 80), ("b.shop.local.", 81)]);
        assert_eq!(records(&answer(&[]), 7), Ok(Vec::new()));
    }

    #[test]
    fn other_answers_are_refused() {
        let good = answer(&[("a", 80)]);
        assert!(records(&good, 8).expect_err("another id").contains("something else"));
        let mut unknown = good.clone();
        unknown[3] |= 3;
        assert!(records(&unknown, 7).expect_err("unknown").contains("no such name"));
        for cut in 0..good.len() {
            assert!(records(&good[..cut], 7).is_err(), "{cut}");
        }
        // A name that leads to itself.
        let mut circle = good.clone();
        let end = circle.len();
        circle[end - 2..].copy_from_slice(&[0xc0, u8::try_from(end - 2).expect("short")]);
        assert!(records(&circle, 7).expect_err("a circle").contains("damaged"));
    }

    #[test]
    fn no_answer_makes_it_panic() {
        let mut seed = 1u64;
        for _ in 0..20_000 {
            let mut bytes = answer(&[("a", 80), ("b", 81)]);
            for _ in 0..3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (seed >> 33) as usize % bytes.len();
                bytes[at] = (seed >> 20) as u8;
            }
            let _ = records(&bytes, 7);
        }
    }
}
