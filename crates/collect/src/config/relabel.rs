//! `relabel_configs`, with Prometheus' rules for which keys belong to which action.

use crate::scraper::labels::is_name;
use crate::scraper::relabel::{ACTIONS, Action, Pattern, RelabelRule, is_target};
use crate::yaml::{Read, YamlNode, count, entries, list, text};

const KEYS: [&str; 7] =
    ["action", "source_labels", "separator", "regex", "target_label", "replacement", "modulus"];

pub(super) fn rule(node: &YamlNode) -> Read<RelabelRule> {
    let mut rule = RelabelRule::new().map_err(|message| node.mistake(message))?;
    let given = entries(node, &KEYS)?;
    for (key, value) in &given {
        match *key {
            "action" => rule.action = action(value)?,
            "source_labels" => {
                rule.source_labels = list(value)?.iter().map(label).collect::<Read<Vec<_>>>()?;
            }
            "separator" => rule.separator = text(value)?.to_owned(),
            "regex" => rule.pattern = pattern(value)?,
            "target_label" => rule.target_label = text(value)?.to_owned(),
            "replacement" => rule.replacement = text(value)?.to_owned(),
            _ => rule.modulus = count(value)? as u64,
        }
    }
    check(node, &given, &rule)?;
    Ok(rule)
}

fn action(node: &YamlNode) -> Read<Action> {
    let name = text(node)?.to_lowercase();
    let found = ACTIONS.iter().find(|(known, _)| *known == name);
    let known = || ACTIONS.map(|(known, _)| known).join(", ");
    found
        .map(|(_, action)| *action)
        .ok_or_else(|| node.mistake(format!("unknown action {name:?}; known are {}", known())))
}

fn label(node: &YamlNode) -> Read<String> {
    let name = text(node)?;
    if is_name(name) {
        Ok(name.to_owned())
    } else {
        Err(node.mistake(format!("{name:?} is not a label; use letters, digits and underscores")))
    }
}

fn pattern(node: &YamlNode) -> Read<Pattern> {
    Pattern::new(text(node)?).map_err(|message| node.mistake(format!("not a regular expression: {message}")))
}

fn check(node: &YamlNode, given: &[(&str, &YamlNode)], rule: &RelabelRule) -> Read<()> {
    let place = |name: &str| given.iter().find(|(key, _)| *key == name).map_or(node, |(_, value)| value);
    let name = ACTIONS.iter().find(|(_, action)| *action == rule.action).map_or("", |(name, _)| name);
    let allowed: &[&str] = match rule.action {
        Action::LabelDrop | Action::LabelKeep => &["action", "regex"],
        Action::KeepEqual | Action::DropEqual => &["action", "source_labels", "target_label"],
        _ => &KEYS,
    };
    if let Some((key, value)) = given.iter().find(|(key, _)| !allowed.contains(key)) {
        return Err(value.mistake(format!("the action {name} has no {key}")));
    }
    let target = &rule.target_label;
    let wrong = || place("target_label").mistake(format!("{target:?} is not a label that can be written"));
    match rule.action {
        Action::Keep | Action::Drop | Action::LabelDrop | Action::LabelKeep => return Ok(()),
        Action::LabelMap if is_target(&rule.replacement) => return Ok(()),
        Action::LabelMap => {
            let message = format!("{:?} is not a label that can be written", rule.replacement);
            return Err(place("replacement").mistake(message));
        }
        _ if target.is_empty() => return Err(node.mistake(format!("the action {name} needs target_label"))),
        Action::Replace if !is_target(target) => return Err(wrong()),
        Action::Replace => {}
        _ if !is_name(target) => return Err(wrong()),
        _ => {}
    }
    if rule.action == Action::HashMod && rule.modulus == 0 {
        return Err(node.mistake("the action hashmod needs modulus"));
    }
    Ok(())
}
