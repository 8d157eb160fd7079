//! The options of a report, with pprof's names and defaults.

mod table;

use flamelet_profile::Granularity;
use flamelet_profile::filter::FilterOptions;

use crate::names::NameFolding;
pub use table::{FILTER, OPTIONS, ReportOption, parse_switch};

/// The report that the options are for; some options have a different meaning for some reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportKind {
    /// Functions by cost.
    Top,
    /// Functions with their callers and callees.
    Tree,
    /// The same for functions that match an expression.
    Peek,
    /// Every stack.
    Traces,
    /// Labels.
    Tags,
    /// Everything, as text.
    Raw,
    /// The call graph for Graphviz.
    Dot,
    /// The call graph for KCachegrind.
    Callgrind,
    /// A pprof file of what the filters keep.
    Proto,
    /// A pprof file with one frame per stack: the functions of [`ReportKind::Top`].
    TopProto,
    /// Annotated source.
    List,
    /// Annotated instructions.
    Disasm,
    /// A flame graph.
    Flame,
    /// What holds memory, what frees it, how long it lives, what grows.
    Heap,
    /// What changed between two profiles.
    Diff,
    /// Whether something grew between two profiles.
    Check,
    /// What stands out, and what usually helps.
    Explain,
}

impl ReportKind {
    /// Returns how many entries are shown by default; 0 means all.
    pub const fn usual_node_count(self) -> usize {
        match self {
            Self::Tree | Self::Traces | Self::Tags | Self::Dot => 80,
            Self::Diff => 40,
            Self::Heap => 20,
            _ => 0,
        }
    }

    /// Returns which frames count as the same by default.
    pub const fn usual_granularity(self) -> Granularity {
        match self {
            Self::Heap => Granularity::FileFunctions,
            Self::Explain => Granularity::Lines,
            _ => Granularity::Functions,
        }
    }
}

/// The order of the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// By a function's own cost.
    #[default]
    Flat,
    /// By the cost of a function including everything it calls.
    Cum,
}

/// All settings of a report.
#[derive(Clone, Debug)]
pub struct ReportOptions {
    /// The sample type by name or number; empty for the profile's default.
    pub sample_index: String,
    /// Divide each value by the first sample type's.
    pub mean: bool,
    /// Which samples and frames to keep.
    pub filters: FilterOptions,
    /// Percentages are of what the filters keep, instead of the whole.
    pub relative_percentages: bool,
    /// Which frames count as the same; `None` for the report's default.
    pub granularity: Option<Granularity>,
    /// Do not show inlined functions as separate frames.
    pub no_inlines: bool,
    /// Keep columns where lines are kept.
    pub show_columns: bool,
    /// Labels (separated by commas) to show as frames at the root.
    pub tag_root: String,
    /// Labels (separated by commas) to show as frames at the leaf.
    pub tag_leaf: String,
    /// The unit of all values; `minimum` picks one that suits the smallest.
    pub unit: String,
    /// Divide all values by this.
    pub divide_by: f64,
    /// Show this many entries; `None` for the report's default, 0 for all.
    pub node_count: Option<usize>,
    /// Hide entries below this share of the total.
    pub node_fraction: f64,
    /// Hide edges below this share of the total.
    pub edge_fraction: f64,
    /// Apply the three limits above.
    pub trim: bool,
    /// The order of the entries.
    pub sort: Sort,
    /// A call tree instead of a call graph (dot and callgrind).
    pub call_tree: bool,
    /// The least expensive entries first.
    pub reverse: bool,
    /// Leave out entries with negative values.
    pub drop_negative: bool,
    /// Leave out the lines about the file in the heading.
    pub compact_labels: bool,
    /// The folders with source files, separated by colons.
    pub source_path: String,
    /// Prefixes to remove from source paths, separated by colons.
    pub trim_path: String,
    /// Use Intel syntax for instructions.
    pub intel_syntax: bool,
    /// Fold frames and names.
    pub folding: NameFolding,
    /// Expressions for code that is yours, whatever paths and names say; for pictures.
    pub mine: Vec<String>,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            sample_index: String::new(),
            mean: false,
            filters: FilterOptions::default(),
            relative_percentages: false,
            granularity: None,
            no_inlines: false,
            show_columns: false,
            tag_root: String::new(),
            tag_leaf: String::new(),
            unit: "minimum".into(),
            divide_by: 1.0,
            node_count: None,
            node_fraction: 0.005,
            edge_fraction: 0.001,
            trim: true,
            sort: Sort::Flat,
            call_tree: false,
            reverse: false,
            drop_negative: false,
            compact_labels: false,
            source_path: String::new(),
            trim_path: String::new(),
            intel_syntax: false,
            folding: NameFolding::default(),
            mine: Vec::new(),
        }
    }
}

impl ReportOptions {
    /// Returns the options as they apply to `command`.
    pub(crate) fn for_command(&self, command: ReportKind) -> Self {
        let mut options = self.clone();
        let mut granularity = options.granularity.unwrap_or(command.usual_granularity());
        let mut trim = options.trim;
        match command {
            ReportKind::Disasm => {
                // One frame per address; otherwise cumulative values would be counted once for each inlined frame.
                (trim, granularity, options.no_inlines) = (false, Granularity::Addresses, true);
            }
            ReportKind::List => (trim, granularity) = (false, Granularity::Lines),
            ReportKind::Proto | ReportKind::Raw | ReportKind::Callgrind => {
                (trim, granularity) = (false, Granularity::Addresses);
            }
            ReportKind::Peek => trim = false,
            _ => {}
        }
        options.granularity = Some(granularity);
        options.node_count = Some(options.node_count.unwrap_or(command.usual_node_count()));
        if !trim {
            (options.node_count, options.node_fraction, options.edge_fraction) = (Some(0), 0.0, 0.0);
        }
        options
    }

    /// Returns the filters that are set, as shown in a heading.
    pub(crate) fn active_filters(&self) -> Vec<String> {
        // pprof's heading leaves prune_from out.
        let filters = OPTIONS.iter().filter(|option| option.section == FILTER && option.name != "prune_from");
        filters
            .map(|option| (option.name, option.get(self)))
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }
}
