//! The commands that `explain` offers: they repeat the options and the sources that it was given.

use flamelet_report::explain::Closer;
use flamelet_report::{ReportKind, ReportOption};

/// What a command to copy repeats.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repeat {
    pub(crate) options: Vec<RepeatedOption>,
    /// The sources, for views of all of them.
    pub(crate) sources: Vec<String>,
    /// The sources of views that add up what they are given.
    pub(crate) one: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct RepeatedOption {
    /// The name of the argument: `sample_index`.
    pub(crate) id: String,
    /// How it is written: `-i`, `alloc_space`.
    pub(crate) words: Vec<String>,
    /// The verbs that take it.
    pub(crate) verbs: Vec<String>,
}

impl RepeatedOption {
    /// Returns an option of reports, or `mine`, that has this value.
    pub(crate) fn named(name: &str, value: String) -> Self {
        let option = ReportOption::named(name);
        let reports = option.map_or(&[ReportKind::Top][..], |option| option.reports);
        Self {
            id: name.to_owned(),
            words: vec![format!("--{}", name.replace('_', "-")), value],
            verbs: reports.iter().map(|report| format!("{report:?}").to_lowercase()).collect(),
        }
    }
}

impl Repeat {
    /// Returns the words of the command for a view, with what it repeats.
    pub(crate) fn words(&self, closer: &Closer) -> Vec<String> {
        let closer = self.without_other_focus(closer);
        let mut words = closer.words();
        let verb = words[0].clone();
        let has_own_type = matches!(&closer, Closer::Yours { sample_type, .. } if !sample_type.is_empty());
        let fits = |option: &&RepeatedOption| {
            option.verbs.contains(&verb) && !(has_own_type && option.id == "sample_index")
        };
        words.extend(self.options.iter().filter(fits).flat_map(|option| option.words.clone()));
        let is_of_all = closer == Closer::Heap { what: "growth" };
        words.extend(if is_of_all { &self.sources } else { &self.one }.iter().cloned());
        words
    }

    /// Keeps the focus that was given: a command takes only one.
    fn without_other_focus(&self, closer: &Closer) -> Closer {
        let is_given = self.options.iter().any(|option| option.id == "focus");
        match closer {
            Closer::Yours { sample_type, .. } if is_given => {
                Closer::Yours { focus: String::new(), sample_type }
            }
            closer => closer.clone(),
        }
    }
}
