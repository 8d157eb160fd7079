//! The name of a tenant.

use flamelet_profile::{Error, Result};

use crate::series::hash_texts;

/// The longest name, as Pyroscope and Mimir have it.
const LONGEST: usize = 150;

/// The name of a tenant, which was checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tenant(String);

impl Tenant {
    /// Checks a name as Pyroscope and Mimir do.
    pub(crate) fn parse(name: &str) -> Result<Self> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "!-_.*'()".contains(c);
        let is_good = (1..=LONGEST).contains(&name.len()) && name.chars().all(is_allowed);
        if is_good && name != "." && name != ".." {
            return Ok(Self(name.to_owned()));
        }
        let shown: String = name.chars().take(40).collect();
        Err(Error::invalid(format!(
            "{shown:?} is not the name of a tenant: 1 to {LONGEST} letters, digits and !-_.*'(), and not . or .."
        )))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// Returns the name of its folder. Names that differ only in upper and lower case have different folders also where
    /// file systems do not distinguish them.
    pub(crate) fn folder(&self) -> String {
        let lower = self.0.to_ascii_lowercase();
        if lower == self.0 {
            return lower;
        }
        let hash = hash_texts([self.0.as_bytes()].into_iter());
        // No name has a tilde.
        format!("{lower}~{hash:032x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_pyroscope_does() {
        for good in ["a", "team-a_1.x", "!-_.*'()", "...", &"a".repeat(150)] {
            assert_eq!(Tenant::parse(good).expect(good).name(), good);
        }
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "../x",
            "a\\b",
            "a b",
            "a|b",
            "é",
            "a\0",
            "a\n",
            "a~b",
            "a:b",
            &"a".repeat(151),
        ] {
            let error = Tenant::parse(bad).expect_err(bad).to_string();
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn folders_differ_and_stay_inside() {
        let folder = |name: &str| Tenant::parse(name).expect(name).folder();
        assert_eq!(folder("team-a"), "team-a");
        let same_without_case = ["team", "Team", "TEAM"].map(folder).map(|name| name.to_lowercase());
        assert!(same_without_case[0] != same_without_case[1] && same_without_case[1] != same_without_case[2]);
        assert!(folder(&"A".repeat(150)).len() < 255);
        for name in ["...", "Team", "*"] {
            let path = std::path::PathBuf::from(folder(name));
            assert_eq!(path.components().count(), 1, "{path:?}");
            assert!(matches!(path.components().next(), Some(std::path::Component::Normal(_))), "{path:?}");
        }
    }
}
