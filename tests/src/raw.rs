//! `pprof -raw` without its numbering, so that equivalent files give the same lines.

use std::collections::BTreeMap;

use crate::rows::collapse;

/// The header, and each sample with its values, its locations spelled out, and its labels.
///
/// The writer of the file chooses the numbers of locations and mappings, so the numbers are replaced by what they
/// stand for, and the samples are sorted. A mapping that no location names is left out: pprof drops it in some
/// reports and keeps it in others, flamelet always keeps it.
pub fn canonical(text: &str) -> Vec<String> {
    let sections = split_sections(text);
    let mappings = numbered(&sections.mappings);
    let locations: BTreeMap<String, String> = locations(&sections.locations, &mappings);
    let mut samples = samples(&sections.samples, &locations);
    samples.sort();
    [sections.header, samples].concat()
}

#[derive(Default)]
struct Sections {
    header: Vec<String>,
    samples: Vec<String>,
    locations: Vec<String>,
    mappings: Vec<String>,
}

fn split_sections(text: &str) -> Sections {
    let mut sections = Sections::default();
    let mut section = 0;
    for line in text.lines() {
        match line {
            "Samples:" => section = 1,
            "Locations" => section = 2,
            "Mappings" => section = 3,
            _ => match section {
                0 => sections.header.push(collapse(line)),
                1 => sections.samples.push(line.to_owned()),
                2 => sections.locations.push(line.to_owned()),
                _ => sections.mappings.push(collapse(line)),
            },
        }
    }
    sections
}

/// `1: rest` by its number.
fn numbered(lines: &[String]) -> BTreeMap<String, String> {
    let pairs = lines.iter().filter_map(|line| line.split_once(": "));
    pairs.map(|(number, rest)| (number.trim().to_owned(), collapse(rest))).collect()
}

/// A location is one line, and one more for each further inlined frame, which begins with blanks only.
fn locations(lines: &[String], mappings: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut locations: BTreeMap<String, String> = BTreeMap::new();
    let mut current = String::new();
    for line in lines {
        let numbered = line.split_once(": ").filter(|(number, _)| number.trim().parse::<u64>().is_ok());
        if let Some((number, rest)) = numbered {
            current = number.trim().to_owned();
            locations.insert(current.clone(), with_mapping_name(&collapse(rest), mappings));
        } else if let Some(location) = locations.get_mut(&current) {
            location.push_str(" < ");
            location.push_str(&collapse(line));
        }
    }
    locations
}

fn with_mapping_name(location: &str, mappings: &BTreeMap<String, String>) -> String {
    let words = location.split(' ').map(|word| match word.strip_prefix("M=") {
        Some(number) => mappings.get(number).cloned().unwrap_or_else(|| word.to_owned()),
        None => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// `values: location numbers`, followed by lines of labels.
fn samples(lines: &[String], locations: &BTreeMap<String, String>) -> Vec<String> {
    let mut samples: Vec<String> = Vec::new();
    for line in lines {
        let head = line.split_once(':').filter(|(values, _)| is_values(values));
        match (head, samples.last_mut()) {
            (Some((values, numbers)), _) => {
                let stack = numbers.split_whitespace().map(|n| locations.get(n).map_or(n, String::as_str));
                samples.push(format!("{} | {}", collapse(values), stack.collect::<Vec<_>>().join(" / ")));
            }
            (None, Some(sample)) => {
                sample.push_str(" # ");
                sample.push_str(&collapse(line));
            }
            // The first line names the sample types.
            (None, None) => samples.push(collapse(line)),
        }
    }
    samples
}

fn is_values(text: &str) -> bool {
    let mut words = text.split_whitespace().peekable();
    words.peek().is_some() && words.all(|word| word.parse::<i64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: &str = "PeriodType: cpu nanoseconds\nPeriod: 1\nSamples:\ncpu/ns\n          5: 1 2 \n                \
                       k:[v]\n          7: 2 \nLocations\n     1: 0x10 M=1 f a.c:1 s=0\n             g a.c:2 s=0\n     \
                       2: 0x20 M=1 h a.c:3 s=0\nMappings\n1: 0x0/0x100/0x0 /bin/x  [FN]\n";

    #[test]
    fn numbers_of_locations_do_not_matter() {
        let renumbered = RAW.replace("5: 1 2", "5: 2 1").replace("7: 2", "7: 1");
        let renumbered =
            renumbered.replace("     1: 0x10", "     9: 0x10").replace("     2: 0x20", "     1: 0x20");
        let renumbered = renumbered.replace("     9: 0x10", "     2: 0x10");
        assert_eq!(canonical(RAW), canonical(&renumbered));
        assert_ne!(canonical(RAW), canonical(&RAW.replace("7: 2", "7: 1")));
        assert_ne!(canonical(RAW), canonical(&RAW.replace("k:[v]", "k:[w]")));
    }

    #[test]
    fn inlined_frames_and_mappings_are_spelled_out() {
        let lines = canonical(RAW);
        let expected = "5 | 0x10 0x0/0x100/0x0 /bin/x [FN] f a.c:1 s=0 < g a.c:2 s=0 / 0x20";
        assert!(lines.iter().any(|line| line.starts_with(expected)), "{lines:#?}");
    }
}
