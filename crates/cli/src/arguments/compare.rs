//! What `heap`, `diff` and `check` have in common.

use std::path::PathBuf;

use clap::Args;
use flamelet_report::ReportOptions;

use super::shape::{FilterArgs, JsonArgs, LevelArgs, NameArgs, OutputArgs, PathArgs, Shape, shaped};
use super::source::ReadArgs;

/// Where an answer goes.
pub(crate) struct Destination {
    pub(crate) output: Option<PathBuf>,
    pub(crate) json: bool,
}

/// What these verbs have in common.
#[derive(Args, Clone)]
pub(crate) struct ComparedArgs {
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
    pub(crate) read: ReadArgs,
}

impl ComparedArgs {
    pub(crate) fn report_options(&self, more: &[&dyn Shape]) -> ReportOptions {
        let own: [&dyn Shape; 4] = [&self.filters, &self.level, &self.names, &self.paths];
        shaped(&own.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
    }

    pub(crate) fn destination(&self) -> Destination {
        Destination { output: self.output.output.clone(), json: self.json.json }
    }
}
