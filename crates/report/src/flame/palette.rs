//! Colour by owner: your code is warm and strong, a crate has the same muted colour in every picture and every run, and
//! what every program has is grey.

use flamelet_symbol::owner::Owner;

use super::folding::name_key;
use crate::names::is_standard;

/// How many muted hues crates share. Warm hues are reserved for your code and for heat.
const HUES: u32 = 24;

/// The hue of the standard library, and of code about which nothing is known.
pub const NEUTRAL: u32 = HUES;

/// The first of the warm hues of your code.
pub(super) const YOURS: u32 = NEUTRAL + 1;
const YOUR_HUES: u32 = 4;

/// The hue of libc and other system libraries.
pub(super) const SYSTEM: u32 = YOURS + YOUR_HUES;
/// The hue of the kernel.
pub(super) const KERNEL: u32 = SYSTEM + 1;

/// The fill colours of a picture on white, by hue; `ui/palette.css` has the same colours for the page.
pub(crate) const LIGHT: [&str; KERNEL as usize + 1] = [
    "#b5cdeb", "#a9dcd3", "#cdc1ee", "#b2dcb8", "#b9c3ef", "#a8d8e6", "#dcc0ea", "#c8dda9", "#c3c8e0",
    "#b9d9c6", "#e6c3dc", "#d3d9b0", "#a9c3e2", "#a3d6cd", "#bdb0e2", "#a9d6b0", "#afb8e3", "#a2cfdc",
    "#cfb0de", "#bdd5a0", "#b3bcdc", "#a9d3bd", "#ddb2d0", "#cdd4a6", "#dfe2e6", "#f79a4b", "#f3bd3f",
    "#f2836b", "#e9a06a", "#c4cad2", "#a3abb6",
];

/// Returns the hue of code of `owner` in `krate`, a row of the palette.
pub fn hue_of(owner: &Owner, krate: &str) -> u32 {
    match owner {
        Owner::Yours => YOURS + name_key(krate) % YOUR_HUES,
        Owner::Dependency(package) | Owner::Runtime(package) => crate_hue(&package.name),
        Owner::Std => NEUTRAL,
        Owner::System(_) => SYSTEM,
        Owner::Kernel => KERNEL,
        Owner::Unknown => crate_hue(krate),
    }
}

/// Returns whether a hue is one of the greys of what every program has.
pub(crate) fn is_grey(hue: u32) -> bool {
    matches!(hue, NEUTRAL | SYSTEM | KERNEL)
}

/// Returns the hue of a crate, below [`NEUTRAL`]; [`NEUTRAL`] for standard libraries and unknown code.
fn crate_hue(krate: &str) -> u32 {
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
        assert_eq!(crate_hue("std"), NEUTRAL);
        let common = ["tokio", "hyper", "axum", "tower", "serde_json", "h2"].map(crate_hue);
        assert!(common.iter().enumerate().all(|(at, hue)| !common[..at].contains(hue)), "{common:?}");
        assert_eq!(name_key("a"), 0xe40c_292c, "FNV-1a's own test vector");
    }

    #[test]
    fn owners_are_told_apart() {
        let yours = hue_of(&Owner::Yours, "shop");
        assert!((YOURS..YOURS + YOUR_HUES).contains(&yours));
        let hues =
            [Owner::Std, Owner::System("libc.so.6".into()), Owner::Kernel].map(|owner| hue_of(&owner, ""));
        assert!(hues.iter().all(|&hue| is_grey(hue)) && hues[0] != hues[1] && hues[1] != hues[2], "{hues:?}");
        assert_eq!(hue_of(&Owner::Unknown, "tokio"), crate_hue("tokio"));
    }
}
