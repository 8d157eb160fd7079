//! A profile that was just taken.

use flamelet_report::profile::Profile;

/// A profile that was just taken, and its name.
pub struct Taken {
    /// Its name in the list.
    pub name: String,
    /// The profile.
    pub profile: Profile,
}
