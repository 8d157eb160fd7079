//! Expressions that say which code is yours, where paths and names do not.

use std::cell::Cell;

use flamelet_profile::{Profile, Result, filter};
use flamelet_symbol::owner::Owners;
use regex::Regex;

/// Expressions for names and files of functions that are yours: `--mine`.
#[derive(Clone, Debug, Default)]
pub struct Mine {
    expressions: Vec<(String, Option<Regex>)>,
}

impl Mine {
    /// Compiles the expressions; an empty one matches nothing.
    pub fn parse(expressions: &[String]) -> Result<Self> {
        let parsed = expressions.iter().map(|text| Ok((text.clone(), filter::regex("mine", text)?)));
        Ok(Self { expressions: parsed.collect::<Result<_>>()? })
    }

    /// Returns whose code each function of `profile` is, and the expressions that match nothing in it.
    pub fn owners(&self, profile: &Profile) -> (Owners, Vec<&str>) {
        let matched: Vec<Cell<bool>> = vec![Cell::new(false); self.expressions.len()];
        let owners = Owners::of(profile, |name, file| {
            let matches = |expression: &Option<Regex>| {
                expression.as_ref().is_some_and(|regex| regex.is_match(name) || regex.is_match(file))
            };
            // Try every expression, so that one made redundant by another is not reported as matching nothing.
            let found = self.expressions.iter().zip(&matched).filter(|((_, regex), _)| matches(regex));
            found.map(|(_, matched)| matched.set(true)).count() > 0
        });
        let unmatched = self.expressions.iter().zip(&matched).filter(|(_, matched)| !matched.get());
        (owners, unmatched.map(|((text, _), _)| text.as_str()).collect())
    }
}
