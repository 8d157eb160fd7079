//! The options of reports, in the groups that reports have in common. Each verb takes the groups that it heeds.
//!
//! The names are pprof's (`--nodecount`, `--tagfocus`), so that fingers need not learn new ones; each also goes with a
//! dash between its words.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use flamelet_profile::Granularity;
use flamelet_profile::filter::FilterOptions;
use flamelet_report::names::NameFolding;
use flamelet_report::{ReportOptions, Sort};

use super::values::{fraction, unit};

/// A group of options that shapes a report.
pub(crate) trait Shape {
    /// Sets what the options say.
    fn put(&self, options: &mut ReportOptions);
}

/// What all of `shapes` ask for.
pub(crate) fn shaped(shapes: &[&dyn Shape]) -> ReportOptions {
    let mut options = ReportOptions::default();
    shapes.iter().for_each(|shape| shape.put(&mut options));
    options
}

/// Where a report goes.
#[derive(Args, Clone)]
pub(crate) struct OutputArgs {
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

/// Reports that are data too.
#[derive(Args, Clone, Copy)]
pub(crate) struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which part of a profile to keep.
#[derive(Args, Clone)]
pub(crate) struct FilterArgs {
    /// Keep samples with a frame that matches
    #[arg(
        long,
        value_name = "REGEX",
        default_value = "",
        hide_default_value = true,
        help_heading = "Filter"
    )]
    focus: String,
    /// Drop samples with a frame that matches
    #[arg(
        long,
        value_name = "REGEX",
        default_value = "",
        hide_default_value = true,
        help_heading = "Filter"
    )]
    ignore: String,
    /// Remove frames that match
    #[arg(
        long,
        value_name = "REGEX",
        default_value = "",
        hide_default_value = true,
        help_heading = "Filter"
    )]
    hide: String,
    /// Remove frames that do not match
    #[arg(
        long,
        value_name = "REGEX",
        default_value = "",
        hide_default_value = true,
        help_heading = "Filter"
    )]
    show: String,
    /// Remove frames above the highest one that matches
    #[arg(
        long,
        value_name = "REGEX",
        default_value = "",
        hide_default_value = true,
        help_heading = "Filter",
        alias = "show_from"
    )]
    show_from: String,
    /// Remove frames below the lowest one that matches
    #[arg(
        long,
        value_name = "REGEX",
        default_value = "",
        hide_default_value = true,
        help_heading = "Filter",
        alias = "prune_from"
    )]
    prune_from: String,
    /// Keep samples whose label matches: a regex, key=regex, or a range such as 128kb:512kb
    #[arg(
        long,
        value_name = "TAG",
        default_value = "",
        hide_default_value = true,
        help_heading = "Filter",
        alias = "tag-focus"
    )]
    tagfocus: String,
    /// Drop samples whose label matches
    #[arg(
        long,
        value_name = "TAG",
        default_value = "",
        hide_default_value = true,
        help_heading = "Filter",
        alias = "tag-ignore"
    )]
    tagignore: String,
    /// Keep only labels whose key matches
    #[arg(
        long,
        value_name = "REGEX",
        default_value = "",
        hide_default_value = true,
        help_heading = "Filter",
        alias = "tag-show"
    )]
    tagshow: String,
    /// Remove labels whose key matches
    #[arg(
        long,
        value_name = "REGEX",
        default_value = "",
        hide_default_value = true,
        help_heading = "Filter",
        alias = "tag-hide"
    )]
    taghide: String,
}

impl Shape for FilterArgs {
    fn put(&self, options: &mut ReportOptions) {
        options.filters = FilterOptions {
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
        };
    }
}

/// What counts as one entry.
#[derive(Args, Clone)]
pub(crate) struct LevelArgs {
    /// functions, filefunctions, files, lines or addresses [default: functions]
    #[arg(long, value_name = "HOW", help_heading = "Grouping")]
    granularity: Option<Granularity>,
}

impl Shape for LevelArgs {
    fn put(&self, options: &mut ReportOptions) {
        options.granularity = self.granularity;
    }
}

/// How frames are named.
#[derive(Args, Clone)]
pub(crate) struct NameArgs {
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
    /// Show these labels as frames at the root, separated by commas
    #[arg(
        long,
        value_name = "KEYS",
        default_value = "",
        hide_default_value = true,
        help_heading = "Grouping",
        alias = "tag-root"
    )]
    tagroot: String,
    /// Show these labels as frames at the leaf, separated by commas
    #[arg(
        long,
        value_name = "KEYS",
        default_value = "",
        hide_default_value = true,
        help_heading = "Grouping",
        alias = "tag-leaf"
    )]
    tagleaf: String,
}

impl Shape for NameArgs {
    fn put(&self, options: &mut ReportOptions) {
        options.no_inlines = self.noinlines;
        options.show_columns = self.showcolumns;
        options.tag_root.clone_from(&self.tagroot);
        options.tag_leaf.clone_from(&self.tagleaf);
        options.folding =
            NameFolding { generics: self.fold_generics, runtime: self.fold_runtime, crates: self.by_crate };
    }
}

/// Which of a profile's values.
#[derive(Args, Clone)]
pub(crate) struct KindArgs {
    /// The sample type by name or number [default: what the profile says]
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
}

impl Shape for KindArgs {
    fn put(&self, options: &mut ReportOptions) {
        options.sample_index.clone_from(&self.sample_index);
    }
}

/// What values mean.
#[derive(Args, Clone)]
pub(crate) struct MeaningArgs {
    #[command(flatten)]
    kind: KindArgs,
    /// Divide each value by the first sample type's
    #[arg(long, help_heading = "Values")]
    mean: bool,
    /// Percentages of what the filters leave
    #[arg(long, alias = "relative_percentages", help_heading = "Values")]
    relative_percentages: bool,
}

impl Shape for MeaningArgs {
    fn put(&self, options: &mut ReportOptions) {
        self.kind.put(options);
        options.mean = self.mean;
        options.relative_percentages = self.relative_percentages;
    }
}

/// What values mean, and how they are written.
#[derive(Args, Clone)]
pub(crate) struct ValueArgs {
    #[command(flatten)]
    meaning: MeaningArgs,
    /// Divide all values by this
    #[arg(long, value_name = "X", default_value_t = 1.0, alias = "divide_by", help_heading = "Values")]
    divide_by: f64,
    /// The unit of all values; minimum takes the one that suits the smallest
    #[arg(long, value_name = "UNIT", default_value = "minimum", value_parser = unit, help_heading = "Values")]
    unit: String,
}

impl Shape for ValueArgs {
    fn put(&self, options: &mut ReportOptions) {
        self.meaning.put(options);
        options.divide_by = self.divide_by;
        options.unit.clone_from(&self.unit);
    }
}

/// The order of entries.
#[derive(Args, Clone, Copy)]
pub(crate) struct SortArgs {
    /// Sort by what functions cost with all they call
    #[arg(long, help_heading = "Trim")]
    cum: bool,
}

impl Shape for SortArgs {
    fn put(&self, options: &mut ReportOptions) {
        options.sort = if self.cum { Sort::Cum } else { Sort::Flat };
    }
}

/// How many rows.
#[derive(Args, Clone, Copy)]
pub(crate) struct CountArgs {
    // How many are shown without it is added to the help of each verb.
    /// Show this many entries; 0 shows all
    #[arg(long, short = 'n', value_name = "N", alias = "node-count", help_heading = "Trim")]
    nodecount: Option<usize>,
}

impl Shape for CountArgs {
    fn put(&self, options: &mut ReportOptions) {
        options.node_count = self.nodecount;
    }
}

/// What is too small to be shown.
#[derive(Args, Clone, Copy)]
pub(crate) struct TrimArgs {
    #[command(flatten)]
    count: CountArgs,
    /// Hide entries below this share
    #[arg(long, value_name = "F", default_value_t = ReportOptions::default().node_fraction,
          value_parser = fraction, alias = "node-fraction", help_heading = "Trim")]
    nodefraction: f64,
    /// Show everything, however small
    #[arg(long, help_heading = "Trim")]
    no_trim: bool,
}

impl Shape for TrimArgs {
    fn put(&self, options: &mut ReportOptions) {
        self.count.put(options);
        options.node_fraction = self.nodefraction;
        options.trim = !self.no_trim;
    }
}

/// What a difference may show.
#[derive(Args, Clone, Copy)]
pub(crate) struct NegativeArgs {
    /// Leave negative entries out
    #[arg(long, alias = "drop_negative", help_heading = "Trim")]
    drop_negative: bool,
}

impl Shape for NegativeArgs {
    fn put(&self, options: &mut ReportOptions) {
        options.drop_negative = self.drop_negative;
    }
}

/// Which calls are too small to be shown.
#[derive(Args, Clone, Copy)]
pub(crate) struct EdgeArgs {
    /// Hide calls below this share
    #[arg(long, value_name = "F", default_value_t = ReportOptions::default().edge_fraction,
          value_parser = fraction, alias = "edge-fraction", help_heading = "Trim")]
    edgefraction: f64,
}

impl Shape for EdgeArgs {
    fn put(&self, options: &mut ReportOptions) {
        options.edge_fraction = self.edgefraction;
    }
}

/// Graph or tree.
#[derive(Args, Clone, Copy)]
pub(crate) struct CallTreeArgs {
    /// A call tree instead of a call graph
    #[arg(long, alias = "call_tree", help_heading = "Grouping")]
    call_tree: bool,
}

impl Shape for CallTreeArgs {
    fn put(&self, options: &mut ReportOptions) {
        options.call_tree = self.call_tree;
    }
}

/// Paths of source files, where a report shows or reads them.
#[derive(Args, Clone)]
pub(crate) struct PathArgs {
    /// Where source files are, separated by colons; paths are shown from there on
    #[arg(
        long,
        value_name = "PATHS",
        default_value = "",
        hide_default_value = true,
        alias = "source_path",
        help_heading = "Symbols"
    )]
    pub(crate) source_path: String,
    /// What to remove from the start of source paths, separated by colons
    #[arg(
        long,
        value_name = "PATHS",
        default_value = "",
        hide_default_value = true,
        alias = "trim_path",
        help_heading = "Symbols"
    )]
    pub(crate) trim_path: String,
}

impl Shape for PathArgs {
    fn put(&self, options: &mut ReportOptions) {
        options.source_path.clone_from(&self.source_path);
        options.trim_path.clone_from(&self.trim_path);
    }
}

/// The lines above a report.
#[derive(Args, Clone, Copy)]
pub(crate) struct HeadingArgs {
    /// Leave the lines about the file out of the heading
    #[arg(long, alias = "compact_labels")]
    compact_labels: bool,
}

impl Shape for HeadingArgs {
    fn put(&self, options: &mut ReportOptions) {
        options.compact_labels = self.compact_labels;
    }
}
