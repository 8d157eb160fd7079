//! docs/benchmarks.md: one section for each benchmark, replaced in place by the next run.

use std::path::PathBuf;
use std::process::Command;

use crate::{Failure, Outcome, run, workspace};

/// One benchmark's section of the page.
pub(super) struct Section {
    /// The heading.
    pub(super) title: String,
    /// What was run, in a sentence or two.
    pub(super) about: String,
    /// The table's header.
    pub(super) columns: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
    /// The goals, and whether they were reached.
    pub(super) goals: Vec<String>,
}

impl Section {
    /// Returns the section as Markdown, with the day and the machine.
    pub(super) fn markdown(&self) -> String {
        let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let head: Vec<String> = self.columns.iter().map(|column| (*column).to_owned()).collect();
        let mut text = format!("## {}\n\n{}\n\n", self.title, self.about);
        text.push_str(&row(&head));
        text.push_str(&row(&vec!["---".to_owned(); head.len()]));
        self.rows.iter().for_each(|cells| text.push_str(&row(cells)));
        text.push('\n');
        self.goals.iter().for_each(|goal| text.push_str(&format!("- {goal}\n")));
        text.push_str(&format!("\nRun on {}.\n", day_and_machine()));
        text
    }
}

/// Returns a cell of the table; a dash for a figure that does not exist.
pub(super) fn cell(figure: Option<f64>, show: impl Fn(f64) -> String) -> String {
    figure.filter(|figure| !figure.is_nan()).map_or("–".to_owned(), show)
}

/// Returns whether a goal was reached, in the words of the page.
pub(super) fn verdict(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "**missed**" }
}

/// Returns a goal: a figure that is small enough.
pub(super) fn at_most(what: &str, figure: Option<f64>, limit: f64, unit: &str) -> String {
    let figure = figure.unwrap_or(f64::NAN);
    let limit_with_unit = format!("{limit} {unit}");
    format!("{what}: {} or less: {figure:.2}, {}", limit_with_unit.trim_end(), verdict(figure <= limit))
}

const HEAD: &str = "# Benchmarks\n\nEach section is written by `cargo xtask bench NAME`, which runs flamelet and \
                    its peers in turn, on the same input, and\nreports the median of the rounds. Between runs on \
                    different days, compare the ratios, not the figures.\n";

/// Replaces the section of the last run of the same benchmark, or appends it.
pub(super) fn replace(name: &str, section: &Section) -> Outcome {
    let path = path();
    let page = std::fs::read_to_string(&path).unwrap_or_else(|_| HEAD.to_owned());
    let failed = |error: std::io::Error| Failure::failed(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(workspace::root().join("docs")).map_err(failed)?;
    std::fs::write(&path, replaced(&page, name, &section.markdown())).map_err(failed)
}

fn path() -> PathBuf {
    workspace::root().join("docs/benchmarks.md")
}

fn replaced(page: &str, name: &str, section: &str) -> String {
    let (begin, end) = (format!("<!-- bench {name} -->"), format!("<!-- end of bench {name} -->"));
    let block = format!("{begin}\n{section}{end}");
    match (page.find(&begin), page.find(&end)) {
        (Some(from), Some(to)) if from < to => {
            format!("{}{block}{}", &page[..from], &page[to + end.len()..])
        }
        _ => format!("{}\n\n{block}\n", page.trim_end()),
    }
}

/// Returns the day and the machine of a run.
pub(super) fn day_and_machine() -> String {
    format!("{}: {}", today(), machine())
}

fn today() -> String {
    let date = run::output(Command::new("date").args(["-u", "+%Y-%m-%d"]));
    date.map_or_else(|_| "an unknown day".to_owned(), |date| date.trim().to_owned())
}

/// Returns the processor, the number of CPUs, the memory and the kernel.
fn machine() -> String {
    let field = |file: &str, name: &str| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let kibibytes: u64 = field("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{}, {cores} cores, {} GiB, Linux {}",
        field("/proc/cpuinfo", "model name"),
        kibibytes >> 20,
        kernel.trim()
    )
}

#[cfg(test)]
mod tests {
    use super::{at_most, cell, replaced};

    #[test]
    fn goals_and_cells() {
        assert_eq!(at_most("a zoom", Some(0.5), 100.0, "ms"), "a zoom: 100 ms or less: 0.50, reached");
        assert_eq!(at_most("lost", None, 0.0, ""), "lost: 0 or less: NaN, **missed**");
        assert_eq!(cell(Some(1.0), |value| format!("{value:.1} s")), "1.0 s");
        assert_eq!(cell(Some(f64::NAN), |value| value.to_string()), "–");
    }

    #[test]
    fn a_section_is_added_and_then_replaced() {
        let one = replaced("# Benchmarks\n", "open", "first\n");
        let two = replaced(&one, "view", "other\n");
        let again = replaced(&two, "open", "second\n");
        assert!(!again.contains("first"), "{again}");
        assert!(again.find("second").expect("new") < again.find("other").expect("kept"), "{again}");
        assert_eq!(again.matches("<!-- bench open -->").count(), 1);
    }
}
