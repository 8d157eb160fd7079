//! How long the profiles of some services are kept.

use std::time::Duration;

use flamelet_profile::{Error, Result};
use flamelet_remote::selector::Selector;

use crate::series::SERVICE;

/// How long the profiles of the services that a selector matches are kept.
#[derive(Clone, Debug)]
pub struct Keep {
    text: String,
    selector: Selector,
    age: Duration,
}

impl PartialEq for Keep {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, self.age) == (&other.text, other.age)
    }
}

impl Eq for Keep {}

impl Keep {
    /// Reads a selector, such as `{service_name=~"test-.*"}`. A block has the profiles of one service with all their labels,
    /// so only `service_name` can be selected.
    pub fn parse(selector: &str, age: Duration) -> Result<Self> {
        let parsed = Selector::parse(selector)?;
        if let Some(other) = parsed.names().find(|name| *name != SERVICE) {
            return Err(Error::invalid(format!(
                "the label {other:?} cannot be selected here; profiles are kept by service_name"
            )));
        }
        Ok(Self { text: selector.to_owned(), selector: parsed, age })
    }

    pub(crate) fn is_of(&self, service: &str) -> bool {
        self.selector.matches(|_| Some(service))
    }

    pub(crate) fn age(&self) -> Duration {
        self.age
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_selected_by_name_only() {
        let day = Duration::from_secs(86_400);
        let keep = Keep::parse("{service_name=~\"test-.*\"}", day).expect("read");
        assert!(keep.is_of("test-1") && !keep.is_of("checkout"));
        let error = Keep::parse("{service_name=\"a\", zone=\"b\"}", day).expect_err("refused").to_string();
        assert!(error.contains("\"zone\" cannot be selected"), "{error}");
        assert!(Keep::parse("{service_name", day).is_err());
    }
}
