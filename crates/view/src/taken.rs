//! A profile that was just taken.

use flamelet_report::profile::{Profile, moment};

/// A profile that was just taken, and its name.
pub struct Taken {
    /// Its name in the list.
    pub name: String,
    /// The profile.
    pub profile: Profile,
}

/// Returns the name of a range of the past, whose ends are in milliseconds since 1970.
pub fn range_name(from: i64, to: i64) -> String {
    let shown = |time: i64| moment::format((time / 1000).saturating_mul(1_000_000_000));
    format!("{} to {}", shown(from), shown(to))
}
