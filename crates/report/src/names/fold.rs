//! Groups functions: without type parameters, or by crate.

use flamelet_profile::{Line, LocationId, Profile, Renamed};

use super::{base_name, crate_name, matching_angle, split_as};

/// How Rust names are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NameFolding {
    /// Leave out type parameters, so that `Vec<u8>::push` and `Vec<String>::push` are the same.
    pub generics: bool,
    /// Fold chains of frames that are not yours, such as the async runtime's, into one.
    pub runtime: bool,
    /// Show crates instead of functions.
    pub crates: bool,
}

/// How the name of a frame begins that stands for a chain of frames.
const FOLDED: &str = "[folded: ";

/// Returns the name of a frame that stands for a chain of frames of `owner`.
pub(crate) fn folded_name(owner: &str) -> String {
    format!("{FOLDED}{owner}]")
}

/// Returns the owner in a name that [`folded_name`] made.
pub(crate) fn folded_owner(name: &str) -> Option<&str> {
    name.strip_prefix(FOLDED)?.strip_suffix(']')
}

/// Groups the names of a profile, except for chains of frames.
pub(crate) fn fold(profile: &mut Profile, folding: NameFolding) {
    if folding.crates {
        profile.regroup_frames(|profile, location, line| Some(frame_crate(profile, location, line)));
    } else if folding.generics {
        profile.rename_functions(|name, _| {
            let folded = without_generics(name);
            Renamed { name: (folded != name).then_some(folded), filename: None }
        });
    }
}

/// Returns the crate of a frame, or its binary if it is not Rust.
fn frame_crate(profile: &Profile, location: LocationId, line: &Line) -> String {
    let name = line.function.map_or("", |function| profile.string(profile.function(function).name));
    if folded_owner(name).is_some() {
        return name.to_string();
    }
    crate_name(name).map(str::to_string).unwrap_or_else(|| {
        let mapping = profile.location(location).mapping.map(|id| profile.mapping(id).filename);
        match mapping.map(|file| base_name(profile.string(file))).filter(|file| !file.is_empty()) {
            Some(file) => format!("[{}]", file.trim_matches(['[', ']'])),
            None => "[native]".into(),
        }
    })
}

/// Returns the name without type parameters. The type in `<Type as Trait>::f` stays, without its own parameters.
fn without_generics(name: &str) -> String {
    if !name.contains('<') {
        return name.to_string();
    }
    if let Some(inside) = name.strip_prefix('<') {
        if let Some(end) = matching_angle(inside) {
            let rest = without_generics(&inside[end + 1..]);
            let inside = &inside[..end];
            return match split_as(inside) {
                Some((own, in_trait)) => {
                    format!("<{} as {}>{rest}", without_generics(own), without_generics(in_trait))
                }
                None => format!("<{}>{rest}", without_generics(inside)),
            };
        }
        return name.to_string();
    }
    let Some(open) = name.find('<') else { return name.to_string() };
    let Some(close) = matching_angle(&name[open + 1..]) else { return name.to_string() };
    let before = name[..open].trim_end_matches("::");
    format!("{before}{}", without_generics(&name[open + close + 2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generics_go_and_types_stay() {
        for (name, folded) in [
            ("alloc::vec::Vec<u8>::push", "alloc::vec::Vec::push"),
            ("core::mem::swap::<alloc::string::String>", "core::mem::swap"),
            (
                "<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend",
                "<alloc::vec::Vec as core::iter::Extend>::extend",
            ),
            ("<F as core::ops::FnOnce<(A, fn() -> B)>>::call_once", "<F as core::ops::FnOnce>::call_once"),
            ("plain", "plain"),
            ("a::b<c", "a::b<c"),
        ] {
            assert_eq!(without_generics(name), folded, "{name}");
        }
    }
}
