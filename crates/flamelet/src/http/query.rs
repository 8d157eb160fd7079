//! The parameters of a request, by Go's rules: the first of several values counts, and an empty one counts as absent.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use flamelet_capture::profile::percent;

use super::answer::Refusal;

/// The parameters of one request.
#[derive(Clone, Debug, Default)]
pub(super) struct UrlQuery {
    pairs: Vec<(String, String)>,
}

impl UrlQuery {
    /// Reads a query string. Pairs with an invalid encoding are ignored, as in Go.
    pub(super) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name)?.into_owned(), decode(value)?.into_owned()))
        });
        Self { pairs: pairs.collect() }
    }

    /// Returns all parameters, in the order of the request.
    #[cfg(feature = "history")]
    pub(super) fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }

    /// Returns whether there is a value of `name`, also an empty one.
    pub(super) fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(key, _)| key == name)
    }

    /// Returns the first value of `name`, unless it is empty.
    pub(super) fn first(&self, name: &str) -> Option<&str> {
        let found = self.pairs.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Returns a whole number in `range`; the error names the range.
    pub(super) fn number(
        &self,
        name: &str,
        range: RangeInclusive<u64>,
        unit: &str,
    ) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.first(name) else { return Ok(None) };
        match text.parse::<u64>() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(Refusal::bad_parameter(format!(
                "invalid value for {name:?}: it must be a whole number from {} to {}{unit}, not {}",
                range.start(),
                range.end(),
                shown(text)
            ))),
        }
    }

    /// Returns whether the client wants text, with `debug`.
    pub(super) fn wants_text(&self) -> Result<bool, Refusal> {
        Ok(self.number("debug", 0..=2, "")?.unwrap_or(0) != 0)
    }
}

/// Shortens and cleans a value that a client sent, for use in a message.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(40).collect();
    let dots = if start.len() < text.len() { "…" } else { "" };
    format!("{start:?}{dots}")
}

/// Decodes form encoding; returns `None` if it is invalid.
fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['%', '+']) {
        return Some(Cow::Borrowed(text));
    }
    percent::decode(&text.replace('+', " ")).map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_counts_and_an_empty_one_is_absent() {
        let query = UrlQuery::parse("seconds=5&seconds=9&debug=&%73econd=x&broken=%zz&plus=a+b%26c");
        assert_eq!(query.first("seconds"), Some("5"));
        assert_eq!(query.first("debug"), None);
        assert_eq!(query.first("second"), Some("x"));
        assert_eq!(query.first("broken"), None);
        assert_eq!(query.first("plus"), Some("a b&c"));
    }

    #[test]
    fn numbers_out_of_range_name_the_range() {
        let range = 1..=600;
        let number = |text: &str| UrlQuery::parse(text).number("seconds", range.clone(), " (the cap)");
        assert_eq!(number("").ok(), Some(None));
        assert_eq!(number("seconds=600").ok(), Some(Some(600)));
        for bad in ["0", "-1", "601", "99999999999999999999999", "ten", "1.5", "1e3", "0x10", "%20"] {
            let refusal = number(&format!("seconds={bad}")).expect_err(bad);
            assert!(refusal.message.contains("from 1 to 600 (the cap)"), "{}", refusal.message);
        }
        let long = number(&format!("seconds={}", "x".repeat(10_000))).expect_err("long");
        assert!(long.message.len() < 200, "{}", long.message);
    }
}
