//! Memory: how large the objects are, how long they lived, and which code requested them.
//!
//! A heap profile of flamelet (or of Go) has the sizes of its objects in the numeric label `bytes`; flamelet's
//! profile of freed memory has the label `lifetime`. Other profiles have neither, and only their sites are shown.

use std::collections::BTreeMap;

use flamelet_profile::{LabelSetId, Profile, sort_rows_by_key};

use super::columns::{NameColumns, NameIndex};
use super::labels::escaped_pattern;
use crate::heap::{LIFETIMES, TEMPORARY, lifetimes_of_sets};
use crate::names::stands_for_itself;
use crate::stacks::{Frames, NameId, ValuePart, base_label_sets};

/// The most sites that are returned.
const MAX_SITES: usize = 500;

/// A class of sizes or lifetimes.
#[derive(Clone, Debug)]
struct Class {
    text: String,
    /// The `tagfocus` filter that keeps only this class.
    filter: String,
    /// By sample type; in a diff, the new side.
    values: Vec<i64>,
    /// By sample type, the base of a diff.
    base: Vec<i64>,
}
serialize!(Class: text, filter, values, base);

#[derive(Clone, Debug, Default)]
struct Sites {
    names: NameColumns,
    /// How many sites there are; the columns may contain only some of them.
    count: usize,
    /// The innermost function that is not a go-between: a row of `names`.
    name: Vec<u32>,
    /// The innermost function, or the heaviest of several: a row of `names`.
    inner: Vec<u32>,
    /// By sample type, then by site.
    values: Vec<Vec<i64>>,
    /// The same for the base; empty unless this is a diff.
    base: Vec<Vec<i64>>,
    /// How much of the first sample type was freed before its thread allocated anything else; empty if lifetimes are
    /// unknown.
    temporary: Vec<i64>,
}
serialize!(Sites: ..names; count, name, inner, values, base, temporary);

/// The data of the page's heap view.
#[derive(Clone, Debug)]
pub struct HeapPayload {
    sizes: Vec<Class>,
    lifetimes: Vec<Class>,
    sites: Sites,
}
serialize!(HeapPayload: sizes, lifetimes, sites);

/// The sums of one class or site, by sample type.
#[derive(Clone, Debug)]
struct TypeSums {
    new: Vec<i64>,
    base: Vec<i64>,
}

impl TypeSums {
    fn new(types: usize) -> Self {
        Self { new: vec![0; types], base: vec![0; types] }
    }

    fn add(&mut self, values: &[i64], is_base: bool) {
        let sums = if is_base { &mut self.base } else { &mut self.new };
        for (sum, &value) in sums.iter_mut().zip(values) {
            *sum = sum.saturating_add(ValuePart::of(value, is_base).value);
        }
    }

    fn largest(&self, sample_type: usize) -> u64 {
        let at = |sums: &[i64]| sums.get(sample_type).map_or(0, |value| value.unsigned_abs());
        at(&self.new).saturating_add(at(&self.base))
    }
}

/// Computes the heap view of `profile`; sites with the largest value of `sample_type` come first.
pub fn heap(profile: &Profile, frames: &Frames, sample_type: usize) -> HeapPayload {
    let base_sets = base_label_sets(profile);
    HeapPayload {
        sizes: sizes(profile, &base_sets),
        lifetimes: lifetimes(profile, &base_sets),
        sites: sites(profile, frames, sample_type, &base_sets),
    }
}

/// Sums samples by a class that their labels name.
fn classes<K: Ord>(
    profile: &Profile,
    base_sets: &[bool],
    class_of: impl Fn(LabelSetId) -> Option<K>,
) -> BTreeMap<K, TypeSums> {
    let types = profile.sample_types().len();
    let mut classes = BTreeMap::new();
    for sample in profile.samples() {
        let Some(class) = class_of(sample.labels) else { continue };
        let sums = classes.entry(class).or_insert_with(|| TypeSums::new(types));
        sums.add(sample.values, base_sets[sample.labels.index()]);
    }
    classes
}

/// Sums samples by powers of two, including empty ones between the smallest and the largest, so that gaps are
/// visible.
fn sizes(profile: &Profile, base_sets: &[bool]) -> Vec<Class> {
    let Some(key) = profile.strings().find("bytes") else { return Vec::new() };
    let sets = (0..profile.label_set_count()).map(LabelSetId::from_index);
    let size =
        |set: LabelSetId| profile.labels(set).iter().find(|label| label.key == key && !label.is_text());
    let by_set: Vec<Option<u32>> = sets
        .map(|set| size(set).and_then(|label| u64::try_from(label.number).ok()?.checked_ilog2()))
        .collect();
    let mut found = classes(profile, base_sets, |set| by_set[set.index()]);
    let (Some(first), Some(last)) = (found.keys().next().copied(), found.keys().next_back().copied()) else {
        return Vec::new();
    };
    let types = profile.sample_types().len();
    (first..=last)
        .map(|power| {
            let (low, high) = (1u64 << power, (1u64 << power).saturating_mul(2) - 1);
            let sums = found.remove(&power).unwrap_or_else(|| TypeSums::new(types));
            let filter = format!("bytes={low}b:{high}b");
            Class { text: size_text(low), filter, values: sums.new, base: sums.base }
        })
        .collect()
}

/// Formats a power of two, which needs no fraction: `64 B`, `4 kB`.
fn size_text(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let step = (bytes.ilog2() / 10) as usize;
    format!("{} {}", bytes >> (10 * step), units[step])
}

fn lifetimes(profile: &Profile, base_sets: &[bool]) -> Vec<Class> {
    let by_set = lifetimes_of_sets(profile);
    let found = classes(profile, base_sets, |set| by_set[set.index()]);
    let class = |(at, sums): (usize, TypeSums)| Class {
        text: LIFETIMES[at].to_owned(),
        filter: format!("lifetime=^{}$", escaped_pattern(LIFETIMES[at])),
        values: sums.new,
        base: sums.base,
    };
    found.into_iter().map(class).collect()
}

struct SiteSums {
    sums: TypeSums,
    temporary: i64,
    /// The heaviest of its innermost functions so far, and its weight.
    inner: (u32, u64),
}

fn sites(profile: &Profile, frames: &Frames, sample_type: usize, base_sets: &[bool]) -> Sites {
    let types = profile.sample_types().len();
    let is_own: Vec<bool> = frames
        .name_ids()
        .map(|name| stands_for_itself(frames.text(profile, name), frames.file(profile, name)))
        .collect();
    let by_set = lifetimes_of_sets(profile);
    let mut found: BTreeMap<u32, SiteSums> = BTreeMap::new();
    for sample in profile.samples() {
        let locations = profile.stack(sample.stack);
        let Some(inner) = locations.first().map(|&leaf| frames.raw(leaf)[0]) else { continue };
        let mut names = locations.iter().flat_map(|&location| frames.raw(location));
        let site = names.find(|&&name| is_own[name as usize]).copied().unwrap_or(inner);
        let is_base = base_sets[sample.labels.index()];
        let site = found.entry(site).or_insert_with(|| SiteSums {
            sums: TypeSums::new(types),
            temporary: 0,
            inner: (inner, 0),
        });
        site.sums.add(sample.values, is_base);
        if by_set[sample.labels.index()] == Some(TEMPORARY) && !is_base {
            site.temporary = site.temporary.saturating_add(sample.values.first().copied().unwrap_or(0));
        }
        let weight = sample.values.get(sample_type).map_or(0, |value| value.unsigned_abs());
        if weight > site.inner.1 {
            site.inner = (inner, weight);
        }
    }
    let has_lifetimes = by_set.iter().any(Option::is_some);
    let mut found: Vec<(u32, SiteSums)> = found.into_iter().collect();
    sort_rows_by_key(&mut found, |(_, site)| std::cmp::Reverse(site.sums.largest(sample_type)));
    let count = found.len();
    found.truncate(MAX_SITES);
    columns(profile, frames, &found, count, has_lifetimes)
}

fn columns(
    profile: &Profile,
    frames: &Frames,
    found: &[(u32, SiteSums)],
    count: usize,
    has_lifetimes: bool,
) -> Sites {
    let types = 0..profile.sample_types().len();
    let is_diff = base_label_sets(profile).contains(&true);
    let mut index = NameIndex::new(profile, frames);
    let column = |of: &dyn Fn(&SiteSums) -> i64| found.iter().map(|(_, site)| of(site)).collect::<Vec<_>>();
    Sites {
        count,
        name: found.iter().map(|&(name, _)| index.row(NameId(name))).collect(),
        inner: found.iter().map(|(_, site)| index.row(NameId(site.inner.0))).collect(),
        values: types.clone().map(|at| column(&|site| site.sums.new[at])).collect(),
        base: types.filter(|_| is_diff).map(|at| column(&|site| site.sums.base[at])).collect(),
        temporary: if has_lifetimes { column(&|site| site.temporary) } else { Vec::new() },
        names: index.columns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::ProfileBuilder;

    fn profile() -> Profile {
        let mut builder = ProfileBuilder::new(&[("freed_objects", "count"), ("freed_space", "bytes")]);
        let mut add = |stack: &[&str], bytes: i64, lifetime: &str, values: [i64; 2]| {
            let mut locations = Vec::new();
            for name in stack {
                let function = builder.named_function(name, "");
                locations.push(builder.frame(function, 1));
            }
            let stack = builder.stack(&locations);
            let size = builder.number_label("bytes", bytes, "bytes");
            let class = builder.text_label("lifetime", lifetime);
            let labels = builder.labels(&[size, class]);
            builder.sample(stack, labels, &values);
        };
        add(&["alloc::raw_vec::grow", "shop::cart::add", "shop::main"], 64, "temporary", [10, 640]);
        add(&["alloc::raw_vec::grow", "shop::cart::add", "shop::main"], 100, "1s-10s", [2, 200]);
        add(&["std::io::read", "shop::main"], 1024, ">=1h", [1, 1024]);
        builder.finish()
    }

    #[test]
    fn sizes_are_powers_of_two_with_their_gaps() {
        let profile = profile();
        let found = heap(&profile, &Frames::new(&profile), 1);
        let sizes: Vec<_> = found.sizes.iter().map(|class| (class.text.as_str(), class.values[1])).collect();
        assert_eq!(sizes, [("64 B", 840), ("128 B", 0), ("256 B", 0), ("512 B", 0), ("1 kB", 1024)]);
        assert_eq!(found.sizes[0].filter, "bytes=64b:127b");
    }

    #[test]
    fn lifetimes_come_shortest_first() {
        let profile = profile();
        let found = heap(&profile, &Frames::new(&profile), 1);
        let classes: Vec<_> =
            found.lifetimes.iter().map(|class| (class.text.as_str(), class.values[0])).collect();
        assert_eq!(classes, [("temporary", 10), ("1s-10s", 2), (">=1h", 1)]);
        assert_eq!(found.lifetimes[1].filter, r"lifetime=^1s\-10s$");
    }

    #[test]
    fn a_site_is_the_innermost_function_of_ones_own() {
        let profile = profile();
        let found = heap(&profile, &Frames::new(&profile), 1).sites;
        let json = serde_json::to_value(&found).unwrap();
        let name = |row: u32| json["names"][row as usize].as_str().unwrap().to_owned();
        assert_eq!(
            found.name.iter().map(|&row| name(row)).collect::<Vec<_>>(),
            ["shop::main", "shop::cart::add"]
        );
        assert_eq!(name(found.inner[1]), "alloc::raw_vec::grow");
        assert_eq!(found.values, [vec![1, 12], vec![1024, 840]]);
        assert_eq!(found.temporary, [0, 10]);
        assert!(found.base.is_empty());
    }

    #[test]
    fn functions_of_no_crate_are_sites_and_allocators_are_not() {
        let mut builder = ProfileBuilder::new(&[("inuse_space", "bytes")]);
        let functions =
            ["[libc.so.6]", "malloc", "parse", "main"].map(|name| builder.named_function(name, ""));
        let locations = functions.map(|function| builder.frame(function, 1));
        let stack = builder.stack(&locations);
        builder.sample(stack, Default::default(), &[64]);
        let profile = builder.finish();
        let sites = serde_json::to_value(heap(&profile, &Frames::new(&profile), 0).sites).unwrap();
        assert_eq!(sites["names"][sites["name"][0].as_u64().unwrap() as usize], "parse");
    }

    #[test]
    fn a_profile_of_something_else_has_only_sites() {
        let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
        let stack = builder.stack(&[]);
        builder.sample(stack, Default::default(), &[1]);
        let profile = builder.finish();
        let found = heap(&profile, &Frames::new(&profile), 0);
        assert!(found.sizes.is_empty() && found.lifetimes.is_empty() && found.sites.name.is_empty());
    }
}
