//! The arguments of `heap`, `diff` and `check`: functions compared with functions.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use flamelet_report::ReportOptions;
use flamelet_report::heap::View;

use super::shape::{
    CountArgs, FilterArgs, JsonArgs, LevelArgs, MeaningArgs, NameArgs, OutputArgs, PathArgs, Shape, SortArgs,
    shaped,
};
use super::source::ReadArgs;
use super::values::percent;
use crate::source::SourceOptions;

/// Where an answer goes.
pub(crate) struct Destination {
    pub(crate) output: Option<PathBuf>,
    pub(crate) json: bool,
}

/// What these verbs have in common.
#[derive(Args, Clone)]
struct ComparedArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    level: LevelArgs,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    paths: PathArgs,
    #[command(flatten)]
    read: ReadArgs,
}

impl ComparedArgs {
    fn report_options(&self, more: &[&dyn Shape]) -> ReportOptions {
        let own: [&dyn Shape; 4] = [&self.filters, &self.level, &self.names, &self.paths];
        shaped(&own.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
    }

    fn destination(&self) -> Destination {
        Destination { output: self.output.output.clone(), json: self.json.json }
    }
}

/// `heap`.
#[derive(Args, Clone)]
pub(crate) struct HeapArgs {
    /// Heap profiles, '-', the address of a service, or the file that a killed one left behind
    #[arg(required = true, value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    pub(crate) sources: Vec<String>,
    #[command(flatten)]
    views: HeapViews,
    #[command(flatten)]
    count: CountArgs,
    #[command(flatten)]
    compared: ComparedArgs,
}

/// What to tell about memory; without any, what the profile was made for.
#[derive(Args, Clone, Copy)]
#[group(multiple = false)]
struct HeapViews {
    /// Who holds memory [default for services and plain heap profiles]
    #[arg(long, help_heading = "What to tell")]
    in_use: bool,
    /// Who allocated it, since the start
    #[arg(long, help_heading = "What to tell")]
    allocated: bool,
    /// Who held it at the highest moment
    #[arg(long, help_heading = "What to tell")]
    peak: bool,
    /// What grows: suspects of a leak [default for several profiles]
    #[arg(long, help_heading = "What to tell")]
    growth: bool,
    /// Who frees what others allocated
    #[arg(long, help_heading = "What to tell")]
    freed: bool,
    /// How long freed memory had lived
    #[arg(long, help_heading = "What to tell")]
    lifetime: bool,
    /// What was freed before its thread allocated anything else
    #[arg(long, help_heading = "What to tell")]
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

    pub(crate) fn report_options(&self) -> ReportOptions {
        self.compared.report_options(&[&self.count])
    }

    pub(crate) fn source_options(&self) -> SourceOptions {
        self.compared.read.options(self.sources.clone())
    }

    pub(crate) fn destination(&self) -> Destination {
        self.compared.destination()
    }
}

/// Two profiles.
#[derive(Args, Clone)]
pub(crate) struct PairArgs {
    /// The profile before
    #[arg(value_name = "BASE", value_hint = ValueHint::FilePath)]
    pub(crate) before: String,
    /// The profile after
    #[arg(value_name = "NEW", value_hint = ValueHint::FilePath)]
    pub(crate) after: String,
    #[command(flatten)]
    compared: ComparedArgs,
    #[command(flatten)]
    meaning: MeaningArgs,
    /// Scale the profile after so that its total equals the one before
    #[arg(long, help_heading = "Values")]
    pub(crate) normalize: bool,
}

impl PairArgs {
    pub(crate) fn report_options(&self) -> ReportOptions {
        self.compared.report_options(&[&self.meaning])
    }

    pub(crate) fn source_options(&self) -> SourceOptions {
        self.compared.read.options(vec![self.before.clone(), self.after.clone()])
    }

    pub(crate) fn destination(&self) -> Destination {
        self.compared.destination()
    }
}

/// `diff`.
#[derive(Args, Clone)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) pair: PairArgs,
    #[command(flatten)]
    count: CountArgs,
    #[command(flatten)]
    sort: SortArgs,
}

impl DiffArgs {
    /// How rows are ordered and how many are shown.
    pub(crate) fn rows(&self) -> ReportOptions {
        shaped(&[&self.count, &self.sort])
    }
}

/// `check`.
#[derive(Args, Clone)]
pub(crate) struct CheckArgs {
    /// How much a function may grow
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent, help_heading = "Verdict")]
    pub(crate) max_growth: f64,
    /// Functions below this share of the total do not count
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = percent, help_heading = "Verdict")]
    pub(crate) min_share: f64,
    #[command(flatten)]
    pub(crate) pair: PairArgs,
}
