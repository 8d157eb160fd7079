//! Names in a store and in the folder of logs: of services, of hours, and such that no two collectors choose the same.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use flamelet_profile::{moment, percent};

use crate::clock::now;
use crate::entry::HOUR;

/// Makes names of logs and blocks: `ID-NUMBER`. The id is random and new at each start of a collector, so a name is
/// never used twice, whoever else writes and whatever the clock does.
#[derive(Debug)]
pub(crate) struct Names {
    id: String,
    last: AtomicU64,
}

impl Names {
    pub(crate) fn new() -> Self {
        let random = RandomState::new().build_hasher().finish();
        Self { id: format!("{random:016x}"), last: AtomicU64::new(0) }
    }

    /// Returns the id of this start of the collector.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns a new name. Its number is about the time in milliseconds since 1970.
    pub(crate) fn next(&self) -> String {
        let time = u64::try_from(now() / 1_000_000).unwrap_or(0);
        let after = |last: u64| time.max(last.saturating_add(1));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(after(last)));
        format!("{}-{}", self.id, after(last.unwrap_or_default()))
    }

    /// Returns whether a name is one of these.
    pub(crate) fn has_made(&self, name: &str) -> bool {
        name.rsplit_once('-').is_some_and(|(id, _)| id == self.id)
    }
}

/// Returns the number at the end of a name, by which names are in the order of time. Old names are only a number.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    name.rsplit('-').next()?.parse().ok().filter(|_| is_plain)
}

/// Returns the name of a service's folder: what is not a letter, a digit, `-` or `_` (or a `.` inside) is written as
/// `%` and two hexadecimal digits.
pub(crate) fn folder_name(service: &str) -> String {
    let mut name = String::new();
    for (at, byte) in service.bytes().enumerate() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte as char),
            b'.' if at > 0 => name.push('.'),
            other => name.push_str(&format!("%{other:02x}")),
        }
    }
    name
}

/// Returns the service that a folder belongs to.
pub(crate) fn service_of(name: &str) -> Option<String> {
    let service = percent::decode(name)?;
    (folder_name(&service) == name && !service.is_empty()).then_some(service)
}

/// Returns the name of an hour's folder: `2026-11-16T17`.
pub(crate) fn hour_name(hour: i64) -> String {
    moment::format(hour.saturating_mul(HOUR)).chars().take(13).collect()
}

pub(crate) fn hour_of(name: &str) -> Option<i64> {
    let hour = moment::parse(&format!("{name}:00:00Z"), 0).ok()?.div_euclid(HOUR);
    (hour_name(hour) == name).then_some(hour)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_have_folders_of_their_own() {
        for (service, name) in [
            ("shop", "shop"),
            ("shop.api-v1_x", "shop.api-v1_x"),
            ("../../etc", "%2e.%2f..%2fetc"),
            ("..", "%2e."),
            ("a/b", "a%2fb"),
            ("a%2fb", "a%252fb"),
            ("ü", "%c3%bc"),
        ] {
            assert_eq!(folder_name(service), name);
            assert_eq!(service_of(name).as_deref(), Some(service));
        }
        for name in ["", "a b", "%", "%2", "%zz", "%61", ".hidden", "A%2F"] {
            assert_eq!(service_of(name), None, "{name}");
        }
    }

    #[test]
    fn no_two_names_are_the_same() {
        let (one, other) = (Names::new(), Names::new());
        assert_ne!(one.id(), other.id());
        let names: std::collections::BTreeSet<String> = (0..100).map(|_| one.next()).collect();
        assert_eq!(names.len(), 100, "also in the same millisecond");
        let name = one.next();
        assert!(one.has_made(&name) && !other.has_made(&name), "{name}");
        assert!(number_of(&name) > names.iter().filter_map(|name| number_of(name)).max());
        assert_eq!(number_of("1794706806123"), Some(1_794_706_806_123));
        assert!(number_of("x-1").is_none() && number_of("").is_none() && number_of("../1").is_none());
    }

    #[test]
    fn hours_are_read_as_they_are_written() {
        let hour = 498_530;
        assert_eq!(hour_of(&hour_name(hour)), Some(hour));
        assert_eq!(hour_name(0), "1970-01-01T00");
        for name in ["", "x", "2026-11-16", "2026-11-16T25", "2026-11-16T17:00"] {
            assert_eq!(hour_of(name), None, "{name}");
        }
    }
}
