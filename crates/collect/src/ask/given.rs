//! The parameters of a call.

use flamelet_profile::{Error, Result, moment};
use flamelet_remote::selector::Selector;

/// The parameters of a call, and what holds without them.
pub(crate) struct Given<'a> {
    pub(crate) parameters: &'a [(String, String)],
    /// Now, in nanoseconds since 1970.
    pub(crate) now: i64,
    /// What a core costs in an hour.
    pub(crate) price: Option<f64>,
}

impl Given<'_> {
    /// Refuses parameters that are not among these: one with a mistake in its name would be ignored.
    pub(crate) fn check(&self, known: &[&str]) -> Result<()> {
        match self.parameters.iter().find(|(name, _)| !known.contains(&&**name)) {
            None => Ok(()),
            Some((name, _)) => {
                let shown: String = name.chars().take(40).collect();
                let known = known.join(", ");
                Err(Error::invalid(format!("unknown parameter {shown:?}; there are {known}")))
            }
        }
    }

    /// Returns a parameter, unless it is missing or empty.
    pub(crate) fn text(&self, wanted: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| &**value).filter(|value| !value.is_empty())
    }

    /// Returns a moment in nanoseconds since 1970.
    pub(crate) fn moment(&self, name: &str, usual: i64) -> Result<i64> {
        self.text(name).map_or(Ok(usual), |text| moment::parse(text, self.now))
    }

    /// Returns `from` and `to`.
    pub(crate) fn range(&self, usual_from: &str, usual_to: i64) -> Result<(i64, i64)> {
        let from = moment::parse(self.text("from").unwrap_or(usual_from), self.now)?;
        let to = self.moment("to", usual_to)?;
        moment::range(from, to).map(|range| (range.start, range.end))
    }

    pub(crate) fn selector(&self, name: &str) -> Result<Selector> {
        Selector::parse(self.text(name).unwrap_or_default())
    }

    /// Returns a number from 1 to `most`.
    pub(crate) fn count(&self, name: &str, usual: usize, most: usize) -> Result<usize> {
        let Some(text) = self.text(name) else { return Ok(usual) };
        let number = text.parse().ok().filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| Error::invalid(format!("{name} must be a number from 1 to {most}")))
    }

    pub(crate) fn switch(&self, name: &str) -> Result<bool> {
        match self.text(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(_) => Err(Error::invalid(format!("{name} must be true or false"))),
        }
    }

    /// Returns what a core costs in an hour.
    pub(crate) fn price(&self) -> Result<Option<f64>> {
        let Some(text) = self.text("price") else { return Ok(self.price) };
        let price = text.parse().ok().filter(|price: &f64| price.is_finite() && *price >= 0.0);
        price.map(Some).ok_or_else(|| Error::invalid("price must be a number, such as 0.03"))
    }
}
