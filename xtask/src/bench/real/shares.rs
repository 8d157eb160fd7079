//! The share of each function, from what flamelet and perf print.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The functions that are compared.
const TOP: usize = 10;

/// The functions' shares of the samples, by their own time.
#[derive(Debug, Default)]
pub(super) struct Shares {
    pub(super) samples: f64,
    /// The share of samples without a name.
    pub(super) unnamed: f64,
    by_name: BTreeMap<String, f64>,
}

/// A function whose shares differ.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    pub(super) name: String,
    /// By this many points.
    pub(super) points: f64,
    /// This many would be good enough.
    pub(super) tolerated: f64,
}

/// What `flamelet info` says about a recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Facts {
    pub(super) samples: f64,
    pub(super) truncated: f64,
}

/// Reads the line "flamelet: 485 samples, 0 lost, 0 stacks truncated, …" of `flamelet info --json`.
pub(super) fn facts(info: &str) -> Option<Facts> {
    let info: Value = serde_json::from_str(info).ok()?;
    let comments = info["comments"].as_array()?.iter().filter_map(Value::as_str);
    let line = comments.into_iter().find(|line| line.contains("stacks truncated"))?;
    let before = |words: &str| line.split(words).next()?.split([' ', ':', ',']).next_back()?.parse().ok();
    Some(Facts { samples: before(" samples")?, truncated: before(" stacks truncated")? })
}

/// Returns the names of the threads in `flamelet tags --json`.
pub(super) fn threads(tags: &str) -> BTreeSet<String> {
    let tags: Value = serde_json::from_str(tags).unwrap_or_default();
    let keys = tags["keys"].as_array().into_iter().flatten();
    let values = keys.filter(|key| key["key"] == "thread").filter_map(|key| key["values"].as_array());
    values.flatten().filter_map(|value| value["name"].as_str().map(str::to_owned)).collect()
}

impl Shares {
    /// Reads `flamelet top --json`, of a recording with this many samples.
    pub(super) fn of_flamelet(top: &str, samples: f64) -> Self {
        let top: Value = serde_json::from_str(top).unwrap_or_default();
        let total = top["total"].as_f64().unwrap_or(0.0).max(1.0);
        let rows = top["rows"].as_array().into_iter().flatten();
        let shares = rows.filter_map(|row| Some((row["name"].as_str()?, row["flat"].as_f64()? / total)));
        Self { samples, ..Self::of(shares) }
    }

    /// Reads `perf script -F comm,ip,sym`, of these threads only.
    pub(super) fn of_perf(script: &str, threads: &BTreeSet<String>) -> Self {
        let samples = script.lines().filter_map(sample).filter(|(thread, _)| threads.contains(thread));
        let names: Vec<String> = samples.map(|(_, name)| name).collect();
        let one = 1.0 / names.len().max(1) as f64;
        let samples = names.len() as f64;
        Self { samples, ..Self::of(names.iter().map(|name| (name.as_str(), one))) }
    }

    fn of<'a>(shares: impl Iterator<Item = (&'a str, f64)>) -> Self {
        let mut all = Self::default();
        for (name, share) in shares {
            match plain(name) {
                Some(name) => *all.by_name.entry(name).or_default() += share,
                None => all.unnamed += share,
            }
        }
        all
    }

    /// Returns the function of the top ten whose shares differ most, of those that differ more than tolerated first.
    pub(super) fn worst_difference(&self, perf: &Self, tolerated_points: f64) -> Option<Difference> {
        let mut top: Vec<(&String, f64)> = self.by_name.iter().map(|(name, &share)| (name, share)).collect();
        top.sort_by(|a, b| b.1.total_cmp(&a.1));
        // What perf has no name for (in stripped Go, say) cannot be compared, if it may be among its unnamed samples.
        let is_comparable =
            |(name, share): &(&String, f64)| perf.by_name.contains_key(*name) || perf.unnamed < *share;
        let differences = top.into_iter().take(TOP).filter(is_comparable).map(|(name, share)| {
            let theirs = perf.by_name.get(name).copied().unwrap_or(0.0);
            let both = f64::midpoint(share, theirs);
            let variance = both * (1.0 - both) * (1.0 / self.samples.max(1.0) + 1.0 / perf.samples.max(1.0));
            let tolerated = tolerated_points.max(3.0 * variance.max(0.0).sqrt() * 100.0);
            Difference { name: name.clone(), points: (share - theirs).abs() * 100.0, tolerated }
        });
        differences.max_by(|a, b| (a.points - a.tolerated).total_cmp(&(b.points - b.tolerated)))
    }
}

/// Returns the thread and the function of a line of `perf script`.
fn sample(line: &str) -> Option<(String, String)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_address = |word: &&str| word.len() >= 6 && u64::from_str_radix(word, 16).is_ok();
    let at = words.iter().skip(1).position(is_address)? + 1;
    Some((words[..at].join(" "), words[at + 1..].join(" ")))
}

/// Returns a name without what the tools write in different ways; `None` for an address.
fn plain(name: &str) -> Option<String> {
    let name = name.split("::h").next().filter(|_| has_hash(name)).unwrap_or(name);
    let name = name.strip_suffix("@plt").unwrap_or(name).trim();
    let name = without_signature(name.split(" [clone ").next().unwrap_or(name));
    let is_address = name.strip_prefix("0x").unwrap_or(name).bytes().all(|byte| byte.is_ascii_hexdigit());
    // flamelet names the file of a function without a name: `[rg]`.
    (!name.is_empty() && !name.starts_with('[') && !name.starts_with('<') && !is_address)
        .then(|| name.to_owned())
}

/// Returns the name of a C++ function without its result and parameters, which perf leaves out.
fn without_signature(name: &str) -> &str {
    let is_cpp = name.contains("::") && (name.ends_with(')') || name.ends_with(" const"));
    let (mut depth, mut start, mut end) = (0u32, 0, name.len());
    for (at, letter) in name.char_indices().filter(|_| is_cpp) {
        match letter {
            '(' if depth == 0 && !name[at..].starts_with("(anonymous") => {
                end = at;
                break;
            }
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    &name[start..end]
}

/// Returns whether a Rust name ends with its hash.
fn has_hash(name: &str) -> bool {
    let hash = name.rsplit("::h").next().unwrap_or_default();
    hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perf_and_flamelet_are_read() {
        let script = "    redis-server     55d0c1a2b3c4 dictFind\n\
                      nginx: worker p ffffffff81000000 [unknown]\n    perf   ffffffff81000000 schedule\n";
        let threads = ["redis-server", "nginx: worker p"].map(str::to_owned).into();
        let perf = Shares::of_perf(script, &threads);
        assert_eq!((perf.samples, perf.unnamed, perf.by_name["dictFind"]), (2.0, 0.5, 0.5));
        let top = r#"{"total": 200, "rows": [{"name": "dictFind", "flat": 150}, {"name": "0000000000401000", "flat": 50}]}"#;
        let flamelet = Shares::of_flamelet(top, 200.0);
        assert_eq!((flamelet.samples, flamelet.unnamed), (200.0, 0.25));
        let worst = flamelet.worst_difference(&perf, 2.0).expect("a function");
        assert_eq!((worst.name.as_str(), worst.points), ("dictFind", 25.0));
        assert!(worst.tolerated > 50.0, "two samples of perf's say little: {worst:?}");
        let stripped = Shares::of_perf("    a  55d0c1a2b3c4 [unknown]\n", &["a".to_owned()].into());
        assert!(flamelet.worst_difference(&stripped, 2.0).is_none(), "perf has no names");
    }

    #[test]
    fn facts_and_threads_are_found() {
        let info = r#"{"comments": ["x", "flamelet: 485 samples, 0 lost, 7 stacks truncated, 0 frames unresolved"]}"#;
        assert_eq!(facts(info), Some(Facts { samples: 485.0, truncated: 7.0 }));
        let tags =
            r#"{"keys": [{"key": "thread", "values": [{"name": "a b"}]}, {"key": "tid", "values": []}]}"#;
        assert_eq!(threads(tags), ["a b".to_owned()].into());
        assert_eq!(plain("core::fmt::write::h0123456789abcdef").as_deref(), Some("core::fmt::write"));
        assert_eq!(plain("std::hash").as_deref(), Some("std::hash"));
        let v8 = "v8::Index v8::(anonymous namespace)::Data::Find<v8::A, v8::B<char> >(v8::A*) const [clone .isra.0]";
        assert_eq!(plain(v8).as_deref(), Some("v8::(anonymous namespace)::Data::Find<v8::A, v8::B<char> >"));
        assert_eq!(plain("void W.main(String[])").as_deref(), Some("void W.main(String[])"), "Java");
    }
}
