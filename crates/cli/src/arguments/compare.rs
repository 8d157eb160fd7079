//! Arguments that `heap`, `diff` and `check` share.

use std::io::Write;

use clap::Args;

use super::options::{OptionArgs, Takes};
use super::report::{JsonArgs, OutputArgs};
use super::source::{RangeArgs, ReadArgs};
use crate::error::Result;
use crate::output;
use crate::profiles::SourceOptions;

/// Where the answer goes, what it is about, and how the profiles are read.
#[derive(Args)]
pub(crate) struct ComparedArgs<T: Takes> {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    pub(crate) options: OptionArgs<T>,
    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

impl<T: Takes> ComparedArgs<T> {
    /// Returns how these sources are opened.
    pub(crate) fn source(&self, sources: Vec<String>) -> SourceOptions {
        SourceOptions { range: self.range.range(), which: self.range.which(), ..self.read.options(sources) }
    }

    /// Writes the answer; `produce` gets whether to write JSON.
    pub(crate) fn write(&self, produce: impl FnOnce(bool, &mut dyn Write) -> Result<()>) -> Result<()> {
        let path = self.output.output.as_deref();
        match self.json.json {
            true => output::write(path, |out| produce(true, out)),
            false => output::text::write(path, |out| produce(false, out)),
        }
    }
}
