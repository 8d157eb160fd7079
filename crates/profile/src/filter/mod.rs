//! Filters that keep part of a profile, with the names and meanings of `go tool pprof`'s options.
//!
//! [`Filter`] is compiled from text once and applied to any number of profiles.

mod names;
mod prune;
mod tag_frames;
mod tags;
mod time;

use regex::Regex;

pub use crate::number_units;
use crate::{Error, ErrorKind, Profile, Result};

/// The filters as the user writes them; empty text means no filter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FilterOptions {
    /// Keep samples with a frame that matches.
    pub focus: String,
    /// Drop samples with a frame that matches.
    pub ignore: String,
    /// Remove frames that match.
    pub hide: String,
    /// Remove frames that do not match.
    pub show: String,
    /// Remove frames above the highest one that matches.
    pub show_from: String,
    /// Remove frames below the lowest one that matches.
    pub prune_from: String,
    /// Keep samples with a label that matches: a regular expression, `key=regex`, or a range such as
    /// `128kb:512kb`.
    pub tag_focus: String,
    /// Drop samples with a label that matches, written as for `tag_focus`.
    pub tag_ignore: String,
    /// Keep only labels whose key matches.
    pub tag_show: String,
    /// Remove labels whose key matches.
    pub tag_hide: String,
}

/// Compiled filters.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    focus: Option<Regex>,
    ignore: Option<Regex>,
    hide: Option<Regex>,
    show: Option<Regex>,
    show_from: Option<Regex>,
    prune_from: Option<Regex>,
    tag_focus: Option<tags::TagFilter>,
    tag_ignore: Option<tags::TagFilter>,
    tag_show: Option<Regex>,
    tag_hide: Option<Regex>,
}

/// What the filters found, for the user who wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterOutcome {
    /// The names of the filters that matched nothing, as pprof names them: `Focus`, `TagIgnore`, …
    pub unmatched: Vec<&'static str>,
    /// Explanations, such as that a tag filter was read as a range.
    pub notes: Vec<String>,
}

impl FilterOptions {
    /// Compiles the filters; the error names the one that is not a regular expression.
    pub fn compile(&self) -> Result<Filter> {
        Ok(Filter {
            focus: regex("focus", &self.focus)?,
            ignore: regex("ignore", &self.ignore)?,
            hide: regex("hide", &self.hide)?,
            show: regex("show", &self.show)?,
            show_from: regex("show_from", &self.show_from)?,
            prune_from: regex("prune_from", &self.prune_from)?,
            tag_focus: tags::TagFilter::parse("tagfocus", &self.tag_focus)?,
            tag_ignore: tags::TagFilter::parse("tagignore", &self.tag_ignore)?,
            tag_show: regex("tagshow", &self.tag_show)?,
            tag_hide: regex("taghide", &self.tag_hide)?,
        })
    }
}

/// Compiles the regular expression of the option `name`; empty text gives `None`.
pub fn regex(name: &str, text: &str) -> Result<Option<Regex>> {
    if text.is_empty() {
        return Ok(None);
    }
    let size_limit = 4 << 20;
    let compiled = regex::RegexBuilder::new(text).size_limit(size_limit).build();
    compiled.map(Some).map_err(|error| {
        // The regex crate's message spans several lines with a pointer; ours must be one line.
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
        Error::new(ErrorKind::Incompatible, format!("{name}: '{text}' is not a regular expression: {reason}"))
    })
}

impl Filter {
    /// Applies all filters, in pprof's order.
    pub fn apply(&self, profile: &mut Profile) -> FilterOutcome {
        let mut outcome = FilterOutcome::default();
        let samples = profile.sample_count();
        names::by_name(profile, self, &mut outcome);
        names::show_from(profile, self.show_from.as_ref(), &mut outcome);
        tags::by_tag(profile, self.tag_focus.as_ref(), self.tag_ignore.as_ref(), &mut outcome);
        tags::by_key(profile, self.tag_show.as_ref(), self.tag_hide.as_ref(), &mut outcome);
        if let Some(prune_from) = &self.prune_from {
            prune::prune_from(profile, prune_from);
        }
        // How large this part of the heap was is not known.
        if profile.sample_count() < samples {
            profile.heap_sizes.clear();
        }
        outcome
    }
}

impl FilterOutcome {
    fn report(&mut self, name: &'static str, is_set: bool, has_matched: bool) {
        if is_set && !has_matched {
            self.unmatched.push(name);
        }
    }
}
