//! Keeping some of the values of a profile, and changing the labels of its samples.

use crate::{Label, LabelSetId, Profile, StringId};

impl Profile {
    /// Keeps the values whose kind `keep` accepts, and the samples that have one of them. If it accepts none, nothing
    /// changes.
    pub fn keep_sample_types(&mut self, keep: impl Fn(&str) -> bool) {
        let kept: Vec<usize> = (0..self.sample_types.len())
            .filter(|&at| keep(self.string(self.sample_types[at].kind)))
            .collect();
        if kept.is_empty() || kept.len() == self.sample_types.len() {
            return;
        }
        let width = self.sample_types.len();
        let rows = self.samples.values.chunks_exact(width);
        self.samples.values = rows.flat_map(|row| kept.iter().map(|&at| row[at])).collect();
        self.sample_types = kept.iter().map(|&at| self.sample_types[at]).collect();
        let new = |old: usize| kept.iter().position(|&at| at == old);
        // What is given in a value that is gone has no meaning any more.
        self.timeline = self.timeline.take().and_then(|mut timeline| {
            timeline.value_type = new(timeline.value_type)?;
            Some(timeline)
        });
        self.observations = self.observations.take().and_then(|mut observations| {
            observations.value_type = new(observations.value_type)?;
            Some(observations)
        });
        let default = self.header.default_sample_type;
        if self.sample_types.iter().all(|value| value.kind != default) {
            self.header.default_sample_type = StringId::default();
        }
        self.drop_zero_samples();
    }

    /// Replaces the text labels of samples: `relabel` is called for each set of labels, with their names and texts, and
    /// returns the new ones. Labels with numbers stay.
    pub fn relabel_samples(&mut self, mut relabel: impl FnMut(&[(&str, &str)]) -> Vec<(String, String)>) {
        let mut sets: Vec<Vec<Label>> = Vec::with_capacity(self.label_set_count());
        for set in 0..self.label_set_count() {
            let labels = self.labels(LabelSetId::from_index(set));
            let texts = labels.iter().filter(|label| label.is_text());
            let texts: Vec<(&str, &str)> =
                texts.map(|label| (self.string(label.key), self.string(label.text))).collect();
            let new = relabel(&texts);
            let mut labels: Vec<Label> = labels.iter().filter(|label| !label.is_text()).copied().collect();
            for (key, text) in new {
                let label = Label { key: self.intern(&key), text: self.intern(&text), ..Label::default() };
                labels.push(label);
            }
            sets.push(labels);
        }
        let mut sets = sets.into_iter();
        self.map_label_sets(|labels| *labels = sets.next().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use crate::{LabelSetId, ProfileBuilder};

    #[test]
    fn values_of_other_kinds_are_left_out() {
        let mut builder = ProfileBuilder::new(&[("alloc_space", "bytes"), ("inuse_space", "bytes")]);
        for (name, values) in [("both", [7, 3]), ("freed", [5, 0])] {
            let frame = builder.named_frame(name);
            let stack = builder.stack(&[frame]);
            builder.sample(stack, LabelSetId::EMPTY, &values);
        }
        let default = builder.string("alloc_space");
        builder.header_mut().default_sample_type = default;
        let profile = builder.finish();
        let mut in_use = profile.clone();
        in_use.keep_sample_types(|kind| kind.starts_with("inuse_"));
        assert_eq!((in_use.sample_types().len(), in_use.sample_count(), in_use.total(0)), (1, 1, 3));
        assert_eq!(in_use.string(in_use.sample_types()[0].kind), "inuse_space");
        assert!(in_use.header.default_sample_type.is_empty());
        let mut allocated = profile.clone();
        allocated.keep_sample_types(|kind| kind.starts_with("alloc_"));
        assert_eq!((allocated.sample_count(), allocated.total(0)), (2, 12));
        let mut same = profile.clone();
        same.keep_sample_types(|_| false);
        assert_eq!((same.sample_types().len(), same.sample_count()), (2, 2));
    }

    #[test]
    fn labels_are_replaced_and_numbers_stay() {
        let mut builder = ProfileBuilder::new(&[("samples", "count")]);
        let frame = builder.named_frame("main");
        let stack = builder.stack(&[frame]);
        let labels = [builder.text_label("a-b", "x"), builder.number_label("bytes", 7, "bytes")];
        let labels = builder.labels(&labels);
        builder.sample(stack, labels, &[1]);
        builder.sample(stack, LabelSetId::EMPTY, &[2]);
        let mut profile = builder.finish();
        profile.relabel_samples(|labels| {
            labels.iter().map(|(name, text)| (name.replace('-', "_"), (*text).to_owned())).collect()
        });
        let shown = |row: usize| {
            let labels = profile.labels(profile.sample(row).labels).iter();
            let shown = labels.map(|label| {
                format!("{}={}{}", profile.string(label.key), profile.string(label.text), label.number)
            });
            shown.collect::<Vec<_>>()
        };
        assert_eq!(shown(0), ["bytes=7", "a_b=x0"]);
        assert!(shown(1).is_empty());
    }
}
