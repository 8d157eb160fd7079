//! The arguments of the reports.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use flamelet_profile::Granularity;
use flamelet_profile::filter::FilterOptions;
use flamelet_report::heap::View;
use flamelet_report::rust_names::NameFolding;
use flamelet_report::{ReportOptions, Sort};

use super::SourceArgs;
use crate::source::SourceOptions;

/// What every report takes.
#[derive(Args, Clone)]
pub(crate) struct ReportArgs {
    /// Files, '-', or addresses of services; several are merged
    #[arg(required = true, value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    sources: Vec<String>,
    #[command(flatten)]
    shape: ShapeArgs,
}

/// A report about functions that match an expression.
#[derive(Args, Clone)]
pub(crate) struct MatchArgs {
    /// The expression (a regular expression; every function when left out), then files, '-' or addresses
    #[arg(required = true, value_name = "[REGEX] SOURCE", value_hint = ValueHint::FilePath)]
    words: Vec<String>,
    #[command(flatten)]
    shape: ShapeArgs,
}

/// How a report is shaped, wherever its profile comes from.
#[derive(Args, Clone)]
pub(crate) struct ShapeArgs {
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    filters: FilterArgs,
    /// The sample type by name or number
    #[arg(
        long,
        short = 'i',
        value_name = "TYPE",
        default_value = "",
        alias = "sample_index",
        hide_default_value = true,
        help_heading = "Values"
    )]
    sample_index: String,
    /// Divide each value by the first sample type's
    #[arg(long, help_heading = "Values")]
    mean: bool,
    /// Divide all values by this
    #[arg(long, value_name = "X", default_value_t = 1.0, alias = "divide_by", help_heading = "Values")]
    divide_by: f64,
    /// The unit of all values
    #[arg(long, value_name = "UNIT", default_value = "minimum", help_heading = "Values")]
    unit: String,
    /// Percentages of what the filters leave
    #[arg(long, alias = "relative_percentages", help_heading = "Values")]
    relative_percentages: bool,
    /// functions, filefunctions, files, lines or addresses
    #[arg(long, value_name = "HOW", help_heading = "Grouping")]
    granularity: Option<Granularity>,
    /// Do not show inlined functions of their own
    #[arg(long, alias = "no-inlines", help_heading = "Grouping")]
    noinlines: bool,
    /// Show columns where lines are shown
    #[arg(long, alias = "show-columns", help_heading = "Grouping")]
    showcolumns: bool,
    /// Leave type parameters out of Rust names
    #[arg(long, help_heading = "Grouping")]
    fold_generics: bool,
    /// Fold the frames of async and std glue into one
    #[arg(long, help_heading = "Grouping")]
    fold_runtime: bool,
    /// Show crates instead of functions
    #[arg(long = "crate", help_heading = "Grouping")]
    by_crate: bool,
    /// Show these labels as frames at the root
    #[arg(
        long,
        value_name = "KEYS",
        default_value = "",
        hide_default_value = true,
        help_heading = "Grouping"
    )]
    tagroot: String,
    /// Show these labels as frames at the leaf
    #[arg(
        long,
        value_name = "KEYS",
        default_value = "",
        hide_default_value = true,
        help_heading = "Grouping"
    )]
    tagleaf: String,
    /// A call tree instead of a call graph (dot, callgrind)
    #[arg(long, alias = "call_tree", help_heading = "Grouping")]
    call_tree: bool,
    /// Sort by what functions cost with all they call
    #[arg(long, help_heading = "Trim")]
    cum: bool,
    /// Show this many entries; 0 shows all
    #[arg(long, short = 'n', value_name = "N", help_heading = "Trim")]
    nodecount: Option<usize>,
    /// Hide entries below this share
    #[arg(long, value_name = "F", default_value_t = 0.005, help_heading = "Trim")]
    nodefraction: f64,
    /// Hide calls below this share
    #[arg(long, value_name = "F", default_value_t = 0.001, help_heading = "Trim")]
    edgefraction: f64,
    /// Show everything, however small
    #[arg(long, help_heading = "Trim")]
    no_trim: bool,
    /// Leave negative entries out
    #[arg(long, alias = "drop_negative", help_heading = "Trim")]
    drop_negative: bool,
    /// Leave the lines about the file out of the heading
    #[arg(long, alias = "compact_labels")]
    compact_labels: bool,
    /// Where source files are, separated by colons
    #[arg(
        long,
        value_name = "PATHS",
        default_value = "",
        hide_default_value = true,
        alias = "source_path",
        help_heading = "Symbols"
    )]
    source_path: String,
    /// What to remove from the start of source paths, separated by colons
    #[arg(
        long,
        value_name = "PATHS",
        default_value = "",
        hide_default_value = true,
        alias = "trim_path",
        help_heading = "Symbols"
    )]
    trim_path: String,
    /// Intel's syntax for instructions
    #[arg(long, alias = "intel_syntax", help_heading = "Symbols")]
    intel_syntax: bool,
}

/// Which part of a profile to keep.
#[derive(Args, Clone)]
#[command(next_help_heading = "Filter")]
pub(crate) struct FilterArgs {
    /// Keep samples with a frame that matches
    #[arg(long, value_name = "REGEX", default_value = "", hide_default_value = true)]
    focus: String,
    /// Drop samples with a frame that matches
    #[arg(long, value_name = "REGEX", default_value = "", hide_default_value = true)]
    ignore: String,
    /// Remove frames that match
    #[arg(long, value_name = "REGEX", default_value = "", hide_default_value = true)]
    hide: String,
    /// Remove frames that do not match
    #[arg(long, value_name = "REGEX", default_value = "", hide_default_value = true)]
    show: String,
    /// Remove frames above the highest one that matches
    #[arg(long, value_name = "REGEX", default_value = "", hide_default_value = true, alias = "show_from")]
    show_from: String,
    /// Remove frames below the lowest one that matches
    #[arg(long, value_name = "REGEX", default_value = "", hide_default_value = true, alias = "prune_from")]
    prune_from: String,
    /// Keep samples whose label matches: a regex, key=regex, or a range such as 128kb:512kb
    #[arg(long, value_name = "TAG", default_value = "", hide_default_value = true, alias = "tag-focus")]
    tagfocus: String,
    /// Drop samples whose label matches
    #[arg(long, value_name = "TAG", default_value = "", hide_default_value = true, alias = "tag-ignore")]
    tagignore: String,
    /// Keep only labels whose key matches
    #[arg(long, value_name = "REGEX", default_value = "", hide_default_value = true, alias = "tag-show")]
    tagshow: String,
    /// Remove labels whose key matches
    #[arg(long, value_name = "REGEX", default_value = "", hide_default_value = true, alias = "tag-hide")]
    taghide: String,
}

/// `flame`.
#[derive(Args, Clone)]
pub(crate) struct FlameArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// svg or html; without it, the output's name decides
    #[arg(long, value_enum)]
    pub(crate) format: Option<Picture>,
    /// Callers below callees: the leaves become the roots
    #[arg(long)]
    pub(crate) inverted: bool,
    /// Roots at the top
    #[arg(long)]
    pub(crate) icicle: bool,
    /// The width of an SVG in pixels
    #[arg(long, value_name = "PIXELS", alias = "image_width", value_parser = clap::value_parser!(u32).range(200..=20_000))]
    pub(crate) image_width: Option<u32>,
    /// The title
    #[arg(long)]
    pub(crate) title: Option<String>,
}

/// What a picture is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Picture {
    /// A picture with search and zoom
    Svg,
    /// One interactive page
    Html,
}

pub(super) const HEAP_EXAMPLES: &str = "\
Examples:
  flamelet heap http://localhost:3000                 who holds memory now
  flamelet heap http://localhost:3000 --growth --seconds 60
  flamelet heap monday.pb.gz tuesday.pb.gz wednesday.pb.gz thursday.pb.gz
                                                      what grew, and whether it grows steadily
  flamelet heap http://localhost:3000 --freed         who frees what others allocated
  flamelet heap http://localhost:3000 --temporary     what lives for nothing
  flamelet heap /var/lib/service/heap.ledger --peak   of a service that was killed";

/// `heap`.
#[derive(Args, Clone)]
pub(crate) struct HeapArgs {
    /// Heap profiles, '-', the address of a service, or the file that a killed one left behind
    #[arg(required = true, value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    pub(crate) sources: Vec<String>,
    #[command(flatten)]
    views: HeapViews,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
}

/// What to tell about memory; without any, what the profile was made for.
#[derive(Args, Clone, Copy)]
#[group(multiple = false)]
#[command(next_help_heading = "What to tell")]
struct HeapViews {
    /// Who holds memory
    #[arg(long)]
    in_use: bool,
    /// Who allocated it, since the start
    #[arg(long)]
    allocated: bool,
    /// Who held it at the highest moment
    #[arg(long)]
    peak: bool,
    /// What grows: suspects of a leak
    #[arg(long)]
    growth: bool,
    /// Who frees what others allocated
    #[arg(long)]
    freed: bool,
    /// How long freed memory had lived
    #[arg(long)]
    lifetime: bool,
    /// What was freed before its thread allocated anything else
    #[arg(long)]
    temporary: bool,
}

impl HeapArgs {
    /// The view that was asked for.
    pub(crate) fn view(&self) -> Option<View> {
        let views = self.views;
        let chosen = [
            (views.in_use, View::InUse),
            (views.allocated, View::Allocated),
            (views.peak, View::Peak),
            (views.growth, View::Growth),
            (views.freed, View::Freed),
            (views.lifetime, View::Lifetime),
            (views.temporary, View::Temporary),
        ];
        chosen.into_iter().find(|(is_chosen, _)| *is_chosen).map(|(_, view)| view)
    }
}

/// `diff`.
#[derive(Args, Clone)]
pub(crate) struct DiffArgs {
    /// The profile before
    #[arg(value_name = "BASE", value_hint = ValueHint::FilePath)]
    pub(crate) before: String,
    /// The profile after
    #[arg(value_name = "NEW", value_hint = ValueHint::FilePath)]
    pub(crate) after: String,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
}

/// `check`.
#[derive(Args, Clone)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) diff: DiffArgs,
    /// How much a function may grow
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    pub(crate) max_growth: f64,
    /// Functions below this share of the total do not count
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = percent)]
    pub(crate) min_share: f64,
}

/// Reads `5%`, `5` (percent) or `0.5%` as a fraction.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim();
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value / 100.0),
        _ => Err(format!("'{text}' is not a percentage such as 5%")),
    }
}

impl ShapeArgs {
    pub(crate) fn source_options(&self, sources: Vec<String>) -> SourceOptions {
        self.source.options(sources)
    }

    pub(crate) fn report_options(&self) -> ReportOptions {
        ReportOptions {
            sample_index: self.sample_index.clone(),
            mean: self.mean,
            filters: self.filters.options(),
            relative_percentages: self.relative_percentages,
            granularity: self.granularity,
            no_inlines: self.noinlines,
            show_columns: self.showcolumns,
            tag_root: self.tagroot.clone(),
            tag_leaf: self.tagleaf.clone(),
            unit: self.unit.clone(),
            divide_by: self.divide_by,
            node_count: self.nodecount,
            node_fraction: self.nodefraction,
            edge_fraction: self.edgefraction,
            trim: !self.no_trim,
            sort: if self.cum { Sort::Cum } else { Sort::Flat },
            call_tree: self.call_tree,
            drop_negative: self.drop_negative,
            compact_labels: self.compact_labels,
            source_path: self.source_path.clone(),
            trim_path: self.trim_path.clone(),
            intel_syntax: self.intel_syntax,
            folding: NameFolding {
                generics: self.fold_generics,
                runtime: self.fold_runtime,
                crates: self.by_crate,
            },
        }
    }
}

impl FilterArgs {
    fn options(&self) -> FilterOptions {
        FilterOptions {
            focus: self.focus.clone(),
            ignore: self.ignore.clone(),
            hide: self.hide.clone(),
            show: self.show.clone(),
            show_from: self.show_from.clone(),
            prune_from: self.prune_from.clone(),
            tag_focus: self.tagfocus.clone(),
            tag_ignore: self.tagignore.clone(),
            tag_show: self.tagshow.clone(),
            tag_hide: self.taghide.clone(),
        }
    }
}

impl ReportArgs {
    /// Takes the arguments apart: the sources, and how to shape the report.
    pub(crate) fn parts(self) -> (Vec<String>, ShapeArgs) {
        (self.sources, self.shape)
    }
}

impl MatchArgs {
    /// Takes the arguments apart: the expression, the sources, and how to shape the report. The expression
    /// is the first or last word that names no source; without one, every function matches.
    pub(crate) fn parts(self) -> (String, Vec<String>, ShapeArgs) {
        let is_source = |word: &str| {
            word == "-"
                || std::path::Path::new(word).metadata().is_ok_and(|about| !about.is_dir())
                || crate::fetch::profile_url(word, None).is_some()
        };
        let mut words = self.words;
        let expression = match words.as_slice() {
            [_] => String::new(),
            [first, ..] if !is_source(first) => words.remove(0),
            [.., last] if !is_source(last) => words.pop().unwrap_or_default(),
            _ => String::new(),
        };
        (expression, words, self.shape)
    }
}
