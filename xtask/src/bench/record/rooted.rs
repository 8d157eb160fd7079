//! Computes which stacks reach the start of their thread, from the file of each recorder.

use std::path::Path;

use serde_json::Value;

/// Where threads and programs begin.
const ROOTS: [&str; 5] = ["clone", "clone3", "__clone", "start_thread", "_start"];

fn is_root(name: &str) -> bool {
    ROOTS.iter().any(|root| name == *root || name.starts_with(&format!("{root}+")))
}

/// Returns the share in the text of `perf script`: a stack is a paragraph, leaf first.
pub(super) fn of_perf_script(text: &str) -> Option<f64> {
    let stacks: Vec<&str> = text.split("\n\n").filter(|stack| !stack.trim().is_empty()).collect();
    let reaches = |stack: &&&str| {
        let last = stack.lines().last().unwrap_or_default();
        last.split_whitespace().nth(1).is_some_and(is_root)
    };
    let rooted = stacks.iter().filter(reaches).count();
    (!stacks.is_empty()).then(|| rooted as f64 / stacks.len() as f64)
}

/// Returns the share in an inferno flame graph: the boxes of the third row from below (all, the program, the roots).
pub(super) fn of_flame_graph(svg: &str) -> Option<f64> {
    let mut boxes: Vec<(f64, String, f64)> = Vec::new();
    for part in svg.split("<title>").skip(1) {
        let (title, rest) = part.split_once("</title>")?;
        let (name, samples) = title.rsplit_once(" (")?;
        let samples: String = samples.split(' ').next()?.chars().filter(char::is_ascii_digit).collect();
        let y = rest.split(" y=\"").nth(1)?.split('"').next()?.parse().ok()?;
        boxes.push((y, name.to_owned(), samples.parse().ok()?));
    }
    let mut rows: Vec<f64> = boxes.iter().map(|(y, ..)| *y).collect();
    rows.sort_by(|a, b| b.total_cmp(a));
    rows.dedup();
    let [all, _, roots, ..] = rows[..] else { return None };
    let sum = |row: f64, counts: &dyn Fn(&str) -> bool| -> f64 {
        let there = boxes.iter().filter(|(y, name, _)| *y == row && counts(name));
        there.map(|(.., samples)| samples).sum()
    };
    Some(sum(roots, &is_root) / sum(all, &|_| true))
}

/// The contents of samply's file.
pub(super) struct SamplySeen {
    pub(super) samples: u64,
    /// The share for the threads other than the first, which needs no names: they begin in libc.
    pub(super) rooted: Option<f64>,
}

/// Counts the samples and the stacks that begin in libc.
pub(super) fn of_samply(profile: &Value) -> Option<SamplySeen> {
    let libs = profile["libs"].as_array()?;
    let (mut samples, mut in_threads, mut rooted) = (0, 0u64, 0u64);
    for thread in profile["threads"].as_array()? {
        let stacks = thread["samples"]["stack"].as_array()?;
        samples += stacks.len() as u64;
        if thread["isMainThread"] == true {
            continue;
        }
        in_threads += stacks.len() as u64;
        let begins_in_libc = |stack: &Value| {
            let library = library_of_root(thread, stack.as_u64()?)?;
            libs.get(library)?["name"].as_str().map(|name| name.starts_with("libc."))
        };
        rooted += stacks.iter().filter(|stack| begins_in_libc(stack) == Some(true)).count() as u64;
    }
    let rooted = (in_threads > 0).then(|| rooted as f64 / in_threads as f64);
    Some(SamplySeen { samples, rooted })
}

fn library_of_root(thread: &Value, stack: u64) -> Option<usize> {
    let column = |table: &str, name: &str, at: u64| thread[table][name][at as usize].as_u64();
    let mut at = stack;
    while let Some(caller) = column("stackTable", "prefix", at) {
        at = caller;
    }
    let function = column("frameTable", "func", column("stackTable", "frame", at)?)?;
    let resource = column("funcTable", "resource", function)?;
    column("resourceTable", "lib", resource).map(|library| library as usize)
}

/// Reads a gzipped JSON file through `gzip`.
pub(super) fn read_json(path: &Path) -> Option<Value> {
    let output = std::process::Command::new("gzip").arg("-dc").arg(path).output().ok()?;
    serde_json::from_slice(&output.stdout).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_in_the_text_of_perf() {
        let text = "a 1 2.0: cpu-clock:\n\t55 spin+0x1 (x)\n\t56 clone3+0x2c (libc)\n\n\
                    a 1 2.1: cpu-clock:\n\t55 spin+0x1 (x)\n\t57 [unknown] ([unknown])\n\n";
        assert_eq!(of_perf_script(text), Some(0.5));
    }

    #[test]
    fn roots_in_a_flame_graph() {
        let one = |name: &str, y: u32, n: u32| {
            format!("<g><title>{name} ({n} samples, 1%)</title><rect x=\"0\" y=\"{y}\" fg:w=\"{n}\"/></g>")
        };
        let svg = [
            one("all", 100, 4_000),
            one("program", 84, 4_000),
            one("clone3", 68, 3_000),
            one("spin", 68, 1_000),
            one("work", 52, 3_000),
        ];
        assert_eq!(of_flame_graph(&svg.concat()), Some(0.75));
    }

    #[test]
    fn roots_in_samplys_file() {
        let profile = serde_json::json!({
            "libs": [{"name": "libc.so.6"}, {"name": "program"}],
            "threads": [{
                "isMainThread": false,
                "samples": {"stack": [1, 2]},
                "stackTable": {"prefix": [null, 0, null], "frame": [0, 1, 1]},
                "frameTable": {"func": [0, 1]},
                "funcTable": {"resource": [0, 1]},
                "resourceTable": {"lib": [0, 1]},
            }],
        });
        let seen = of_samply(&profile).expect("a profile");
        assert_eq!((seen.samples, seen.rooted), (2, Some(0.5)));
    }
}
