//! Colour by crate: the same crate has the same colour in every picture and every run.

use super::tree::name_key;
use crate::names::is_standard;

/// How many hues crates share. Warm hues are reserved for heat.
const HUES: u32 = 24;

/// The hue of code from the standard library or from an unknown crate.
pub const NEUTRAL: u32 = HUES;

/// The fill colours of a picture on white, by hue; `ui/palette.css` has the same colours for the page.
pub(crate) const LIGHT: [&str; HUES as usize + 1] = [
    "#b5cdeb", "#a9dcd3", "#cdc1ee", "#b2dcb8", "#b9c3ef", "#a8d8e6", "#dcc0ea", "#c8dda9", "#c3c8e0",
    "#b9d9c6", "#e6c3dc", "#d3d9b0", "#8fb3de", "#87d3c7", "#ab98e0", "#8dd398", "#929ee0", "#86c7da",
    "#c897dd", "#b3d487", "#99a5d6", "#92d1ae", "#da99c7", "#c8d18c", "#d3d7dd",
];

/// Returns the hue of a crate, below [`NEUTRAL`]; [`NEUTRAL`] for standard libraries and unknown code.
pub fn hue_of(krate: &str) -> u32 {
    if krate.is_empty() || krate == "<unknown>" || krate.starts_with('[') || is_standard(krate) {
        return NEUTRAL;
    }
    // The factor was chosen so that the crates common in services get different hues.
    (name_key(krate).wrapping_mul(0xf47b_14c5) >> 16) % HUES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hues_do_not_depend_on_the_run() {
        assert_eq!(hue_of("std"), NEUTRAL);
        let common = ["tokio", "hyper", "axum", "tower", "serde_json", "h2"].map(hue_of);
        assert!(common.iter().enumerate().all(|(at, hue)| !common[..at].contains(hue)), "{common:?}");
        assert_eq!(name_key("a"), 0xe40c_292c, "FNV-1a's own test vector");
    }
}
