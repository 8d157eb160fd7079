//! `relabel_configs`: rules that change the labels of a target or leave it out, as in Prometheus.

mod md5;

use regex::Regex;

use crate::scraper::labels::{LabelSet, get, is_name, set};

/// A rule. Which of its parts an action uses is Prometheus' choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelabelRule {
    pub(crate) action: Action,
    pub(crate) source_labels: Vec<String>,
    pub(crate) separator: String,
    pub(crate) pattern: Pattern,
    pub(crate) target_label: String,
    pub(crate) replacement: String,
    pub(crate) modulus: u64,
}

impl RelabelRule {
    /// Returns a rule with Prometheus' defaults.
    pub(crate) fn new() -> Result<Self, String> {
        Ok(Self {
            action: Action::Replace,
            source_labels: Vec::new(),
            separator: ";".to_owned(),
            pattern: Pattern::new("(.*)")?,
            target_label: String::new(),
            replacement: "$1".to_owned(),
            modulus: 0,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Replace,
    Keep,
    Drop,
    KeepEqual,
    DropEqual,
    HashMod,
    LabelMap,
    LabelDrop,
    LabelKeep,
    Lowercase,
    Uppercase,
}

/// The names of the actions in a configuration.
pub(crate) const ACTIONS: [(&str, Action); 11] = [
    ("replace", Action::Replace),
    ("keep", Action::Keep),
    ("drop", Action::Drop),
    ("keepequal", Action::KeepEqual),
    ("dropequal", Action::DropEqual),
    ("hashmod", Action::HashMod),
    ("labelmap", Action::LabelMap),
    ("labeldrop", Action::LabelDrop),
    ("labelkeep", Action::LabelKeep),
    ("lowercase", Action::Lowercase),
    ("uppercase", Action::Uppercase),
];

/// A regular expression that matches whole texts.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

/// The most memory that a compiled pattern may take.
const MAX_PATTERN: usize = 1 << 20;

impl Pattern {
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let compile = |text: &str| regex::RegexBuilder::new(text).size_limit(MAX_PATTERN).build();
        // Alone first: what closes a group that it did not open would otherwise be taken.
        let regex = compile(text).and_then(|_| compile(&format!("^(?s:{text})$")));
        // The library draws the pattern, with its mistake below it; the last line says what is wrong.
        let why =
            |error: &regex::Error| error.to_string().lines().last().unwrap_or_default().trim().to_owned();
        regex.map(Self).map_err(|error| why(&error))
    }

    fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// Returns whether a text can be the label to write to: a name whose parts may be `$1` or `${1}`.
pub(crate) fn is_target(text: &str) -> bool {
    let mut rest = text;
    let mut name = String::new();
    while let Some(at) = rest.find('$') {
        name.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let inner = match rest.strip_prefix('{') {
            Some(braced) => {
                let Some((inner, after)) = braced.split_once('}') else { return false };
                rest = after;
                inner
            }
            None => {
                let end = rest.find(|letter: char| !is_word(letter)).unwrap_or(rest.len());
                let (inner, after) = rest.split_at(end);
                rest = after;
                inner
            }
        };
        if inner.is_empty() || !inner.chars().all(is_word) {
            return false;
        }
        name.push('_');
    }
    name.push_str(rest);
    is_name(&name)
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Applies rules one after another; `None` if one of them leaves the target out.
pub(crate) fn apply(rules: &[RelabelRule], mut labels: LabelSet) -> Option<LabelSet> {
    for rule in rules {
        if !rule.apply(&mut labels) {
            return None;
        }
    }
    Some(labels)
}

impl RelabelRule {
    /// Changes the labels, and returns whether to keep the target.
    fn apply(&self, labels: &mut LabelSet) -> bool {
        let values: Vec<&str> = self.source_labels.iter().map(|name| get(labels, name)).collect();
        let value = values.join(&self.separator);
        match self.action {
            Action::Keep => return self.pattern.matches(&value),
            Action::Drop => return !self.pattern.matches(&value),
            Action::KeepEqual => return get(labels, &self.target_label) == value,
            Action::DropEqual => return get(labels, &self.target_label) != value,
            Action::Replace => self.replace(labels, &value),
            Action::Lowercase => set(labels, &self.target_label, value.to_lowercase()),
            Action::Uppercase => set(labels, &self.target_label, value.to_uppercase()),
            Action::HashMod => set(labels, &self.target_label, hash_mod(&value, self.modulus)),
            Action::LabelMap => self.map(labels),
            Action::LabelDrop => labels.retain(|name, _| !self.pattern.matches(name)),
            Action::LabelKeep => labels.retain(|name, _| self.pattern.matches(name)),
        }
        true
    }

    fn replace(&self, labels: &mut LabelSet, value: &str) {
        let Some(found) = self.pattern.0.captures(value) else { return };
        let expanded = |template: &str| {
            let mut text = String::new();
            found.expand(template, &mut text);
            text
        };
        let target = expanded(&self.target_label);
        if is_name(&target) {
            set(labels, &target, expanded(&self.replacement));
        }
    }

    fn map(&self, labels: &mut LabelSet) {
        let mut new = Vec::new();
        for (name, value) in labels.iter() {
            let Some(found) = self.pattern.0.captures(name) else { continue };
            let mut target = String::new();
            found.expand(&self.replacement, &mut target);
            if is_name(&target) {
                new.push((target, value.clone()));
            }
        }
        labels.extend(new);
    }
}

fn hash_mod(value: &str, modulus: u64) -> String {
    let hash = md5::md5(value.as_bytes());
    let last = u64::from_be_bytes(std::array::from_fn(|at| hash[8 + at]));
    last.checked_rem(modulus).unwrap_or(0).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> LabelSet {
        text.split_whitespace()
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.replace("\\n", "\n")))
            .collect()
    }

    fn rule(action: Action, sources: &str, pattern: &str, target: &str, replacement: &str) -> RelabelRule {
        RelabelRule {
            action,
            source_labels: sources.split_whitespace().map(str::to_owned).collect(),
            pattern: Pattern::new(pattern).expect(pattern),
            target_label: target.to_owned(),
            replacement: replacement.to_owned(),
            modulus: 1000,
            ..RelabelRule::new().expect("good")
        }
    }

    /// The cases by which Prometheus tests its own relabelling: labels, rules, and what is left (`None`: left out).
    #[test]
    fn rules_do_what_prometheus_documents() {
        use Action::*;
        let any = "(.*)";
        let tags = "__meta_sd_tags=path:/secret,job:some-job,label:foo=bar";
        let port = "__meta_kubernetes_pod_container_port_name";
        let cases: Vec<(&str, Vec<RelabelRule>, Option<String>)> = vec![
            (
                "a=foo b=bar c=baz",
                vec![rule(Replace, "a", "f(.*)", "d", "ch${1}-ch${1}")],
                Some("a=foo b=bar c=baz d=choo-choo".into()),
            ),
            (
                "a=foo b=bar c=baz",
                vec![
                    rule(Replace, "a b", "f(.*);(.*)r", "a", "b${1}${2}m"),
                    rule(Replace, "c a", "(b).*b(.*)ba(.*)", "d", "$1$2$2$3"),
                ],
                Some("a=boobam b=bar c=baz d=boooom".into()),
            ),
            (
                "a=foo",
                vec![rule(Drop, "a", ".*o.*", "", "$1"), rule(Replace, "a", "f(.*)", "d", "ch$1-ch$1")],
                None,
            ),
            ("a=foo b=bar", vec![rule(Drop, "a", ".*o.*", "", "$1")], None),
            ("a=abc", vec![rule(Replace, "a", ".*(b).*", "d", "$1")], Some("a=abc d=b".into())),
            ("a=foo", vec![rule(Drop, "a", "no-match", "", "$1")], Some("a=foo".into())),
            ("a=foo", vec![rule(Drop, "a", "f|o", "", "$1")], Some("a=foo".into())),
            ("a=foo", vec![rule(Keep, "a", "no-match", "", "$1")], None),
            ("a=foo", vec![rule(Keep, "a", "f.*", "", "$1")], Some("a=foo".into())),
            ("a=boo", vec![rule(Replace, "a", "f", "b", "bar")], Some("a=boo".into())),
            ("a=foo c=baz", vec![rule(HashMod, "c", any, "d", "$1")], Some("a=foo c=baz d=976".into())),
            ("a=foo\\nbar", vec![rule(HashMod, "a", any, "b", "$1")], Some("a=foo\\nbar b=734".into())),
            (
                "a=foo b1=bar b2=baz",
                vec![rule(LabelMap, "", "(b.*)", "", "bar_${1}")],
                Some("a=foo b1=bar b2=baz bar_b1=bar bar_b2=baz".into()),
            ),
            (
                "a=foo __meta_my_bar=aaa __meta_my_baz=bbb __meta_other=ccc",
                vec![rule(LabelMap, "", "__meta_(my.*)", "", "${1}")],
                Some(
                    "a=foo __meta_my_bar=aaa __meta_my_baz=bbb __meta_other=ccc my_bar=aaa my_baz=bbb".into(),
                ),
            ),
            (
                "a=some-name-value",
                vec![rule(Replace, "a", "some-([^-]+)-([^,]+)", "${1}", "${2}")],
                Some("a=some-name-value name=value".into()),
            ),
            (
                "a=some-name-value name=old",
                vec![rule(Replace, "a", "some-([^-]+)-([^,]+)", "${1}", "${3}")],
                Some("a=some-name-value".into()),
            ),
            (
                "a=some-name-0",
                vec![
                    rule(Replace, "a", "some-([^-]+)-([^,]+)", "${3}", "${1}"),
                    rule(Replace, "a", "some-([^-]+)(-[^,]+)", "${2}", "${1}"),
                ],
                Some("a=some-name-0".into()),
            ),
            (
                tags,
                vec![
                    rule(Replace, "__meta_sd_tags", "(?:.+,|^)path:(/[^,]+).*", "__metrics_path__", "${1}"),
                    rule(Replace, "__meta_sd_tags", "(?:.+,|^)job:([^,]+).*", "job", "${1}"),
                    rule(Replace, "__meta_sd_tags", "(?:.+,|^)label:([^=]+)=([^,]+).*", "${1}", "${2}"),
                ],
                Some(format!("{tags} __metrics_path__=/secret job=some-job foo=bar")),
            ),
            (
                "__meta_kubernetes_pod_container_port_name=foo __meta_x_port=9091",
                vec![
                    rule(LabelDrop, "", &format!("^{port}$"), "", "$1"),
                    rule(Replace, "__meta_x_port", "(.+)", port, "metrics"),
                    rule(Keep, port, "^metrics$", "", "$1"),
                ],
                Some(format!("__meta_x_port=9091 {port}=metrics")),
            ),
            (
                "a=foo b1=bar b2=baz",
                vec![rule(LabelKeep, "", "(b.*)", "", "$1")],
                Some("b1=bar b2=baz".into()),
            ),
            ("a=foo b1=bar b2=baz", vec![rule(LabelDrop, "", "(b.*)", "", "$1")], Some("a=foo".into())),
            (
                "foo=bAr123Foo",
                vec![rule(Uppercase, "foo", any, "up", "$1"), rule(Lowercase, "foo", any, "low", "$1")],
                Some("foo=bAr123Foo low=bar123foo up=BAR123FOO".into()),
            ),
            ("t=1234 p=1234", vec![rule(KeepEqual, "t", any, "p", "$1")], Some("t=1234 p=1234".into())),
            ("t=1234 p=1234", vec![rule(DropEqual, "t", any, "p", "$1")], None),
            ("t=1234 p=5678", vec![rule(DropEqual, "t", any, "p", "$1")], Some("t=1234 p=5678".into())),
            ("t=1234 p=5678", vec![rule(KeepEqual, "t", any, "p", "$1")], None),
            // From its documentation: a value without a source, an empty result, `.` and line breaks, and names that
            // are as long as possible.
            ("a=1", vec![rule(Replace, "", any, "env", "prod")], Some("a=1 env=prod".into())),
            ("a=1 b=2", vec![rule(Replace, "none", any, "b", "$1")], Some("a=1".into())),
            ("a=x\\ny", vec![rule(Keep, "a", "x.y", "", "$1")], Some("a=x\\ny".into())),
            ("a=1", vec![rule(Replace, "a", any, "b", "$1x")], Some("a=1".into())),
            ("a=1", vec![rule(Replace, "a", any, "b", "${1}x$$")], Some("a=1 b=1x$".into())),
        ];
        for (given, rules, expected) in cases {
            assert_eq!(
                apply(&rules, labels(given)),
                expected.map(|text| labels(&text)),
                "{given}: {rules:?}"
            );
        }
    }

    #[test]
    fn the_separator_is_between_the_values() {
        let mut one = rule(Action::Replace, "a b", "1/2", "c", "yes");
        one.separator = "/".to_owned();
        assert_eq!(apply(&[one], labels("a=1 b=2")), Some(labels("a=1 b=2 c=yes")));
    }

    /// Prometheus' own list.
    #[test]
    fn names_to_write_to_are_as_prometheus_takes_them() {
        for (text, is_good) in [
            ("-label", false),
            ("label", true),
            ("label${1}", true),
            ("${1}label", true),
            ("${1}", true),
            ("${", false),
            ("$", false),
            ("${}", false),
            ("foo${", false),
            ("$1", true),
            ("asd$2asd", true),
            ("-foo${1}bar-", false),
            ("_${1}_", true),
            ("foo${bar}foo", true),
            ("0${3}", false),
        ] {
            assert_eq!(is_target(text), is_good, "{text}");
        }
    }

    #[test]
    fn bad_patterns_are_refused_in_one_line() {
        for bad in ["(", "a)b(", ")", "*", "(?P<x", "(?:a{1000}){1000}"] {
            let error = Pattern::new(bad).expect_err(bad);
            assert!(!error.is_empty() && !error.contains('\n'), "{bad}: {error}");
        }
    }
}
