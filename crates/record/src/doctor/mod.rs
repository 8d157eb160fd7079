//! What this machine, this user and a binary allow a profiler, and what would allow more.

mod binary;
mod machine;

pub use binary::binary;
pub use machine::machine;

/// How good it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is missing.
    Good,
    /// Something works, but not all.
    Limited,
    /// It does not work.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// What was found, such as `kernel.perf_event_paranoid=2`.
    pub found: String,
    /// How good that is.
    pub state: State,
    /// What it allows or prevents.
    pub allows: String,
    /// The one command (or setting) that would allow more.
    pub remedy: Option<String>,
}

/// Everything that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Each thing.
    pub checks: Vec<Check>,
}

impl Report {
    /// Whether nothing is [`State::Missing`].
    pub fn is_usable(&self) -> bool {
        self.checks.iter().all(|check| check.state != State::Missing)
    }

    /// The check called `name`.
    pub fn check(&self, name: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.name == name)
    }

    fn add(
        &mut self,
        name: &'static str,
        found: impl Into<String>,
        state: State,
        allows: &str,
        remedy: &str,
    ) {
        let remedy = (!remedy.is_empty()).then(|| remedy.to_owned());
        self.checks.push(Check { name, found: found.into(), state, allows: allows.to_owned(), remedy });
    }
}

/// For a person: a line each, and the remedy below it.
impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for check in &self.checks {
            let mark = match check.state {
                State::Good => "ok",
                State::Limited => "partly",
                State::Missing => "no",
            };
            writeln!(f, "{:<7}{:<18} {} — {}", mark, check.name, check.found, check.allows)?;
            if let Some(remedy) = &check.remedy {
                writeln!(f, "       {:<18} more: {remedy}", "")?;
            }
        }
        Ok(())
    }
}
