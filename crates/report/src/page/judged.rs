//! How far a profile can be trusted, for the page.

use flamelet_profile::Profile;

use crate::verdict::{Verdict, judge};

/// What `flamelet info` says about the quality of a profile.
#[derive(Clone, Debug)]
pub struct Judged {
    verdict: Verdict,
    faults: Vec<String>,
}
serialize!(Judged: verdict, faults);

impl Judged {
    /// Judges `profile` by its samples.
    pub fn of(profile: &Profile) -> Self {
        let (verdict, faults) = judge(profile);
        Self { verdict, faults }
    }
}
