//! Groups of targets with labels, as Prometheus' files and HTTP services list them: JSON, and YAML.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::found::FoundTargets;
use crate::scraper::labels::{LabelSet, is_name, of_target, set};
use crate::yaml::{self, Read, YamlNode, entries, list, map, text};

/// Targets with the same labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    #[serde(default)]
    pub(crate) targets: Vec<String>,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
}

impl Group {
    /// Returns the labels that all targets have.
    pub(crate) fn common(&self) -> LabelSet {
        let mut common = LabelSet::new();
        for (name, value) in &self.labels {
            set(&mut common, name, value.as_str());
        }
        common
    }
}

/// Reads JSON: `[{"targets": ["10.0.0.1:3000"], "labels": {"region": "eu"}}]`.
pub(super) fn of_json(bytes: &[u8]) -> Result<Vec<Group>, String> {
    let groups: Vec<Group> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    for name in groups.iter().flat_map(|group| group.labels.keys()) {
        if !is_name(name) {
            return Err(not_a_label(name));
        }
    }
    Ok(groups)
}

/// Reads the same in YAML; `name` is that of the file, for messages.
pub(super) fn of_yaml(name: &str, text: &str) -> Result<Vec<Group>, String> {
    let group = |node: &YamlNode| target_group(node, |_| Ok(()));
    let read = |node: YamlNode| -> Read<Vec<Group>> { list(&node)?.iter().map(group).collect() };
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Vec::new());
    }
    yaml::parse(text).and_then(read).map_err(|mistake| mistake.line(name))
}

/// Reads a group of `static_configs` or of a file, whose targets `check` may refuse.
pub(crate) fn target_group(node: &YamlNode, check: impl Fn(&YamlNode) -> Read<()>) -> Read<Group> {
    let mut group = Group::default();
    for (key, value) in entries(node, &["targets", "labels"])? {
        if key == "targets" {
            for target in list(value)? {
                check(target)?;
                group.targets.push(text(target)?.to_owned());
            }
            continue;
        }
        for (label, value) in map(value)? {
            let name = text(label)?;
            if !is_name(name) {
                return Err(label.mistake(not_a_label(name)));
            }
            group.labels.insert(name.to_owned(), text(value)?.to_owned());
        }
    }
    Ok(group)
}

fn not_a_label(name: &str) -> String {
    let shown: String = name.chars().take(60).collect();
    format!("{shown:?} is not the name of a label: letters, digits and underscores")
}

/// Adds the targets of groups, each with the label `meta`, which says where it was found.
pub(super) fn add(groups: Vec<Group>, meta: (&str, &str), found: &mut FoundTargets) -> Result<(), String> {
    for group in groups {
        let mut common = group.common();
        set(&mut common, meta.0, meta.1);
        for target in &group.targets {
            found.push(&common, of_target(target))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_yaml_say_the_same() {
        let json = br#"[{"targets": ["h:1", "h:2"], "labels": {"region": "eu"}}, {"targets": []}]"#;
        let yaml = "# ours\n- targets: ['h:1', 'h:2']\n  labels:\n    region: eu\n- targets: []\n";
        let groups = of_json(json).expect("good");
        assert_eq!(groups, of_yaml("x.yml", yaml).expect("good"));
        let mut found = FoundTargets::new();
        add(groups, ("__meta_url", "http://x"), &mut found).expect("room");
        let targets = found.into_targets();
        assert_eq!(targets.len(), 2);
        let pairs: Vec<(&str, &str)> = targets[1].iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(pairs, [("__address__", "h:2"), ("__meta_url", "http://x"), ("region", "eu")]);
        assert_eq!(of_yaml("x.yml", "# none\n\n"), Ok(Vec::new()));
        assert_eq!(of_yaml("x.yml", "---\n[]  # none\n"), Ok(Vec::new()));
        assert_eq!(of_json(b"[]"), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_list_of_groups_is_refused_in_one_line() {
        for (bad, message) in [
            (&b"{}"[..], "invalid type"),
            (b"[{\"target\": []}]", "unknown field `target`"),
            (b"[{\"targets\": [1]}]", "invalid type"),
            (
                b"[{\"targets\": [\"h:1\"], \"labels\": {\"a b\": \"\"}}]",
                "\"a b\" is not the name of a label",
            ),
            (b"[{\"targets\"", "EOF"),
        ] {
            let error = of_json(bad).expect_err(message);
            assert!(error.contains(message) && !error.contains('\n'), "{error}");
        }
        for (bad, message) in [
            ("targets: [a]", "x.yml:1:1: expected a list"),
            ("- target: [a]", "x.yml:1:3: unknown key \"target\""),
            ("- targets: a", "x.yml:1:12: expected a list"),
            ("- labels:\n    a.b: c", "x.yml:2:5: \"a.b\" is not the name of a label"),
        ] {
            let error = of_yaml("x.yml", bad).expect_err(message);
            assert!(error.starts_with(message), "{error}");
        }
        let deep = "[".repeat(100_000);
        assert!(of_json(deep.as_bytes()).is_err() && of_yaml("x.yml", &deep).is_err());
    }
}
