//! What shows more of a finding: a command in a terminal, a view in the page.

use serde::Serialize;

use super::facts::Facts;
use super::language::ByLanguage;
use super::places::FoundPlace;

/// What shows more of what a rule finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShownBy {
    /// Your functions.
    Yours,
    /// Your functions, of the stacks with a frame that matches.
    Stacks(ByLanguage),
    /// The threads.
    Threads,
    /// The lines of the function.
    Lines,
    /// Memory in use.
    InUse,
    /// Memory that grows.
    Growth,
    /// Temporary allocations, by their label or by the sample type that counts them.
    Temporary,
    /// What the profile says about its own quality.
    Quality,
}

/// The view that shows a finding. Its JSON form is stable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "view", rename_all = "snake_case")]
pub enum Closer {
    /// Your functions, with what they call.
    Yours {
        /// Keeps only stacks with a frame that matches; empty for all.
        focus: String,
        /// The sample type; empty for the one that is explained.
        sample_type: &'static str,
    },
    /// The threads.
    Threads,
    /// The lines of a function.
    Lines {
        /// Its name.
        function: String,
    },
    /// A view of the heap.
    Heap {
        /// The option of `flamelet heap`, without its dashes.
        what: &'static str,
    },
    /// What the profile is, and how good.
    Info,
}

impl ShownBy {
    /// Returns the view for a finding in these places.
    pub(super) fn closer(self, facts: &Facts<'_>, places: &[FoundPlace]) -> Closer {
        let yours = |focus: &str, sample_type| Closer::Yours { focus: focus.to_owned(), sample_type };
        match (self, places.first()) {
            (Self::Lines, Some(place)) => Closer::Lines { function: place.function.clone() },
            (Self::Yours | Self::Lines, _) => yours("", ""),
            (Self::Stacks(focus), _) => yours(focus.of(facts.is_rust), ""),
            (Self::Threads, _) => Closer::Threads,
            (Self::InUse, _) => Closer::Heap { what: "in-use" },
            (Self::Growth, _) => Closer::Heap { what: "growth" },
            (Self::Temporary, _) if facts.memory.has_lifetimes() => Closer::Heap { what: "temporary" },
            (Self::Temporary, _) => yours("", "temporary_objects"),
            (Self::Quality, _) => Closer::Info,
        }
    }
}

impl Closer {
    /// Returns the words of the command that shows it, without options and files of the caller.
    pub fn words(&self) -> Vec<String> {
        match self {
            Self::Yours { focus, sample_type } => {
                let options = [("--focus", focus.as_str()), ("-i", sample_type)];
                let given = options.into_iter().filter(|(_, value)| !value.is_empty());
                let words = ["top", "--by", "yours"].into_iter().chain(given.flat_map(<[&str; 2]>::from));
                words.map(str::to_owned).collect()
            }
            Self::Threads => ["top", "--by", "thread"].map(str::to_owned).to_vec(),
            Self::Lines { function } => vec!["list".to_owned(), format!("^{}$", regex::escape(function))],
            Self::Heap { what } => vec!["heap".to_owned(), format!("--{what}")],
            Self::Info => vec!["info".to_owned()],
        }
    }
}

/// Returns a command line with these words, quoted for a shell where they need it.
pub fn command_line(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-./:=@%+,".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_change_them() {
        let words = ["top", "a b.pb.gz", "it's", "", "x|y", "http://h:1/p?seconds=5"].map(str::to_owned);
        assert_eq!(command_line(&words), r"top 'a b.pb.gz' 'it'\''s' '' 'x|y' 'http://h:1/p?seconds=5'");
    }

    #[test]
    fn a_function_is_listed_by_its_whole_name() {
        let function = "<shop::Cart as core::ops::Add>::add".to_owned();
        let words = Closer::Lines { function }.words();
        assert_eq!(words, ["list", r"^<shop::Cart as core::ops::Add>::add$"]);
        let words = Closer::Lines { function: "shop::each::{closure#0}".to_owned() }.words();
        assert_eq!(words[1], r"^shop::each::\{closure\#0\}$");
    }
}
