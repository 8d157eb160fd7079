//! Which labels of samples a receiver does not get, because each of their values would be a series of its own.

use flamelet_profile::{LabelSetId, Profile, StringId};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

/// The most series that one profile makes. A tenant of Pyroscope has 5,000 at a time, unless it is configured otherwise.
const MOST_SERIES: usize = 200;

/// Values of these never end. The span stays: Pyroscope keeps it with the samples, and makes no series of it.
const ENDLESS: [&str; 1] = ["trace_id"];
const NO_SERIES: [&str; 2] = ["span_id", "profile_id"];

/// The labels of samples that are left out.
#[derive(Debug, Default)]
pub(super) struct LeftOut(HashSet<StringId>);

impl LeftOut {
    /// Returns what to leave out so that a profile makes a bounded number of series: traces, and if that is not enough,
    /// the labels with the most values.
    pub(super) fn of(profile: &Profile) -> Self {
        let sets = sets(profile);
        let mut values: HashMap<StringId, HashSet<StringId>> = HashMap::default();
        for &(key, text) in sets.iter().flatten() {
            values.entry(key).or_default().insert(text);
        }
        let is_endless = |key: &StringId| ENDLESS.contains(&profile.string(*key));
        let mut keys: Vec<StringId> = values.keys().copied().collect();
        keys.sort_by(|a, b| {
            let rank = |key: &StringId| (!is_endless(key), std::cmp::Reverse(values[key].len()));
            rank(a).cmp(&rank(b)).then_with(|| profile.string(*a).cmp(profile.string(*b)))
        });
        // Without more labels, there are never more series.
        let endless = keys.iter().filter(|key| is_endless(key)).count();
        let (mut least, mut most) = (endless, keys.len());
        while least < most {
            let middle = least + (most - least) / 2;
            if series(&sets, &keys[..middle]) <= MOST_SERIES {
                most = middle;
            } else {
                least = middle + 1;
            }
        }
        Self(keys[..least].iter().copied().collect())
    }

    pub(super) fn contains(&self, profile: &Profile, name: &str) -> bool {
        profile.strings().find(name).is_some_and(|name| self.0.contains(&name))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the labels that make a series, of each set that samples have.
fn sets(profile: &Profile) -> Vec<Vec<(StringId, StringId)>> {
    let used: HashSet<LabelSetId> = profile.samples().map(|sample| sample.labels).collect();
    let of_set = |set: LabelSetId| {
        let texts = profile.labels(set).iter().filter(|label| label.is_text());
        let texts = texts.filter(|label| !NO_SERIES.contains(&profile.string(label.key)));
        texts.map(|label| (label.key, label.text)).collect()
    };
    used.into_iter().map(of_set).collect()
}

/// Returns how many series there are without some labels.
fn series(sets: &[Vec<(StringId, StringId)>], without: &[StringId]) -> usize {
    let without: HashSet<StringId> = without.iter().copied().collect();
    let left = |set: &Vec<(StringId, StringId)>| {
        let mut left: Vec<_> = set.iter().filter(|(key, _)| !without.contains(key)).copied().collect();
        left.sort_unstable();
        left
    };
    sets.iter().map(left).collect::<HashSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::ProfileBuilder;

    fn profile(rows: impl Iterator<Item = Vec<(&'static str, String)>>) -> Profile {
        let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
        let frame = builder.named_frame("main");
        let stack = builder.stack(&[frame]);
        for row in rows {
            let labels: Vec<_> = row.iter().map(|(key, text)| builder.text_label(key, text)).collect();
            let labels = builder.labels(&labels);
            builder.sample(stack, labels, &[1]);
        }
        builder.finish()
    }

    fn left_out(profile: &Profile) -> Vec<&str> {
        let all = ["route", "span_id", "trace_id", "user"];
        let left_out = LeftOut::of(profile);
        all.into_iter().filter(|name| left_out.contains(profile, name)).collect()
    }

    #[test]
    fn traces_and_endless_labels_are_left_out_and_no_others() {
        let few = profile((0..3).map(|number| vec![("route", format!("/{number}")), ("user", "a".into())]));
        assert!(LeftOut::of(&few).is_empty());
        let traces = profile((0..3).map(|number| {
            vec![
                ("route", "/a".into()),
                ("trace_id", format!("{number:032x}")),
                ("span_id", format!("{number:016x}")),
            ]
        }));
        assert_eq!(left_out(&traces), ["trace_id"]);
        // The spans of thousands of requests are no series; 200 routes may be.
        let spans = profile((0..5000).map(|number| {
            vec![("route", format!("/{}", number % 200)), ("span_id", format!("{number:016x}"))]
        }));
        assert!(LeftOut::of(&spans).is_empty());
        let users = profile((0..5000).map(|number| {
            vec![
                ("route", format!("/{}", number % 7)),
                ("user", number.to_string()),
                ("trace_id", "t".into()),
            ]
        }));
        assert_eq!(left_out(&users), ["trace_id", "user"]);
        // Each of them is within the limit, but not both together.
        let both = profile(
            (0..5000).map(|n| vec![("route", format!("/{}", n % 100)), ("user", (n % 99).to_string())]),
        );
        assert_eq!(left_out(&both), ["route"]);
    }
}
