//! Checks what this machine, this user and a binary allow a profiler to do, and what would allow more.

mod binary;
mod machine;

pub use binary::binary;
pub use machine::machine;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// Nothing is missing.
    Good,
    /// It works in part.
    Limited,
    /// It does not work.
    Missing,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// What was found, such as `kernel.perf_event_paranoid=2`.
    pub found: String,
    /// The result.
    pub state: CheckResult,
    /// What it allows or prevents.
    pub allows: String,
    /// The one command (or setting) that would allow more.
    pub remedy: Option<String>,
}

/// All checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The checks.
    pub checks: Vec<Check>,
}

impl Report {
    /// Returns whether nothing is [`CheckResult::Missing`].
    pub fn is_usable(&self) -> bool {
        self.checks.iter().all(|check| check.state != CheckResult::Missing)
    }

    /// Returns the check called `name`.
    pub fn check(&self, name: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.name == name)
    }

    fn add(
        &mut self,
        name: &'static str,
        found: impl Into<String>,
        state: CheckResult,
        allows: &str,
        remedy: &str,
    ) {
        let remedy = (!remedy.is_empty()).then(|| remedy.to_owned());
        self.checks.push(Check { name, found: found.into(), state, allows: allows.to_owned(), remedy });
    }
}

/// One line for each check, with the remedy below it.
impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for check in &self.checks {
            let mark = match check.state {
                CheckResult::Good => "ok",
                CheckResult::Limited => "partly",
                CheckResult::Missing => "no",
            };
            writeln!(f, "{:<7}{:<18} {} — {}", mark, check.name, check.found, check.allows)?;
            if let Some(remedy) = &check.remedy {
                writeln!(f, "       {:<18} more: {remedy}", "")?;
            }
        }
        Ok(())
    }
}
