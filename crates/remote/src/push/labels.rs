//! Labels as Pyroscope and Parca take them: like Prometheus' labels. (Of samples, Parca changes the names itself.)

use crate::label_name::allowed;

/// The most labels of a series, the receiver's own included, that Pyroscope takes.
const MOST: usize = 30;
/// The longest value and the longest name that Pyroscope takes, in bytes.
const LONGEST: usize = 2048;
const LONGEST_NAME: usize = 1024;

/// Returns the labels of a series, sorted by name: first those that must be there, then as many of the others as are
/// taken. Names get an underscore for each character that is not allowed.
pub(super) fn sorted(own: &[(&str, &str)], others: &[(String, String)]) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> =
        own.iter().map(|(name, value)| ((*name).to_owned(), cut(value).to_owned())).collect();
    add(&mut all, others.iter().map(|(name, value)| (&**name, &**value)));
    all.sort_unstable();
    all
}

/// Returns the labels of a sample, in their order: as many as are taken beside those of its series.
pub(super) fn beside(of_series: &[(String, String)], labels: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut all = of_series.to_vec();
    add(&mut all, labels.iter().copied());
    all.split_off(of_series.len())
}

/// Adds labels whose names are new, as long as there is room.
fn add<'a>(all: &mut Vec<(String, String)>, labels: impl Iterator<Item = (&'a str, &'a str)>) {
    for (name, value) in labels {
        // Characters that are allowed are one byte long.
        let mut name = allowed(name);
        name.truncate(LONGEST_NAME);
        let is_new = all.iter().all(|(known, _)| *known != name);
        if is_new && !name.is_empty() && !value.is_empty() && all.len() < MOST {
            all.push((name, cut(value).to_owned()));
        }
    }
}

fn cut(value: &str) -> &str {
    let end = (0..=LONGEST.min(value.len())).rev().find(|&end| value.is_char_boundary(end));
    &value[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_become_what_is_allowed() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let others = [
            pair("http.route", "/a"),
            pair("2x", "y"),
            pair("service_name", "no"),
            pair("empty", ""),
            pair("", "x"),
        ];
        let all = sorted(&[("service_name", "checkout")], &others);
        assert_eq!(all, [pair("_x", "y"), pair("http_route", "/a"), pair("service_name", "checkout")]);
        let many: Vec<_> = (0..99).map(|number| pair(&format!("l{number}"), &"é".repeat(2000))).collect();
        let all = sorted(&[("service_name", "checkout")], &many);
        assert_eq!(all.len(), MOST);
        assert!(all.iter().all(|(_, value)| value.len() <= LONGEST));
    }
}
