//! The labels of a target before and after relabelling, with the names that Prometheus and Alloy give them.

use std::collections::BTreeMap;

/// Labels by name; a label without a value is not there.
pub(crate) type LabelSet = BTreeMap<String, String>;

/// `HOST:PORT`.
pub(crate) const ADDRESS: &str = "__address__";
/// `http` or `https`.
pub(crate) const SCHEME: &str = "__scheme__";
/// What comes before `/debug/pprof/`.
pub(crate) const PATH_PREFIX: &str = "__profile_path_prefix__";
/// The beginning of the names of labels that are parameters of the URL.
pub(crate) const PARAM: &str = "__param_";
pub(crate) const JOB: &str = "job";
pub(crate) const INSTANCE: &str = "instance";

/// Sets a label, or removes it if the value is empty.
pub(crate) fn set(labels: &mut LabelSet, name: &str, value: impl Into<String>) {
    let value = value.into();
    if value.is_empty() {
        labels.remove(name);
    } else {
        labels.insert(name.to_owned(), value);
    }
}

/// Returns the value of a label, or an empty text.
pub(crate) fn get<'a>(labels: &'a LabelSet, name: &str) -> &'a str {
    labels.get(name).map_or("", String::as_str)
}

/// Returns whether a name is one that labels can have: letters, digits and underscores, and no digit first.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|letter: char| letter.is_ascii_digit())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Returns the labels of a target as a list names it: `HOST:PORT`, or a URL that ends before `/debug/pprof/`.
pub(crate) fn of_target(text: &str) -> LabelSet {
    let mut labels = LabelSet::new();
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let (address, prefix) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    set(&mut labels, ADDRESS, address);
    set(&mut labels, SCHEME, scheme);
    set(&mut labels, PATH_PREFIX, prefix.trim_end_matches('/'));
    labels
}

/// Returns whether a text is a host with or without a port. It is part of URLs and of messages, so nothing else is.
pub(crate) fn is_address(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_good_host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').is_some_and(|ip| ip.parse::<std::net::Ipv6Addr>().is_ok()),
        None => {
            let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
            !host.is_empty() && host.len() <= 253 && host.chars().all(is_letter)
        }
    };
    is_good_host && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hosts_with_ports() {
        for good in ["h", "h:1", "10.0.0.1:3000", "[::1]:80", "[fd00::1]", "a_b.c-d:65535"] {
            assert!(is_address(good), "{good}");
        }
        let long = "a".repeat(254);
        for bad in [
            "", ":80", "h:", "h:0", "h:65536", "::1", "[::1", "[x]:1", "u:p@h:1", "h/x", "h h", "h\n:1",
            &long,
        ] {
            assert!(!is_address(bad), "{bad}");
        }
    }

    #[test]
    fn a_url_is_taken_apart() {
        let labels = of_target("https://h:1/x/");
        assert_eq!((get(&labels, SCHEME), get(&labels, ADDRESS)), ("https", "h:1"));
        assert_eq!(get(&labels, PATH_PREFIX), "/x");
        assert_eq!(of_target("h:1").len(), 1);
    }
}
