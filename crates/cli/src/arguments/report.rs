//! The arguments of the reports on one profile: what each takes, and the job that they ask for.

use std::path::Path;

use clap::{Args, ValueHint};
use flamelet_report::ReportOptions;
use flamelet_report::flame::FlameOptions;

use super::shape::{
    CallTreeArgs, EdgeArgs, FilterArgs, HeadingArgs, JsonArgs, KindArgs, LevelArgs, NameArgs, NegativeArgs,
    OutputArgs, PathArgs, Shape, SortArgs, TrimArgs, ValueArgs, shaped,
};
use super::source::{SourceArgs, Sources};
use crate::job::{Job, Picture, Question};
use crate::profiles::fetch;

/// What every report takes.
#[derive(Args, Clone)]
pub(crate) struct CoreArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    source: SourceArgs,
}

impl CoreArgs {
    fn job(&self, question: Question, sources: Vec<String>, json: bool, more: &[&dyn Shape]) -> Job {
        let shapes: Vec<&dyn Shape> =
            [&self.filters as &dyn Shape, &self.names].into_iter().chain(more.iter().copied()).collect();
        Job {
            question,
            source: self.source.options(sources),
            options: shaped(&shapes),
            output: self.output.output.clone(),
            json,
        }
    }
}

/// `info` and `comments`: facts about the file itself, which no filter changes.
#[derive(Args, Clone)]
pub(crate) struct AboutArgs {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    source: SourceArgs,
}

impl AboutArgs {
    pub(crate) fn job(&self, question: Question) -> Job {
        let source = self.source.options(self.sources.sources.clone());
        let options = ReportOptions::default();
        Job { question, source, options, output: self.output.output.clone(), json: self.json.json }
    }
}

/// Entries in an order, the small ones left out.
#[derive(Args, Clone)]
pub(crate) struct RankArgs {
    #[command(flatten)]
    core: CoreArgs,
    #[command(flatten)]
    level: LevelArgs,
    #[command(flatten)]
    values: ValueArgs,
    #[command(flatten)]
    sort: SortArgs,
    #[command(flatten)]
    trim: TrimArgs,
    #[command(flatten)]
    negative: NegativeArgs,
    #[command(flatten)]
    paths: PathArgs,
}

impl RankArgs {
    fn job(&self, question: Question, sources: Vec<String>, json: bool, more: &[&dyn Shape]) -> Job {
        let own: [&dyn Shape; 6] =
            [&self.level, &self.values, &self.sort, &self.trim, &self.negative, &self.paths];
        let shapes: Vec<&dyn Shape> = own.into_iter().chain(more.iter().copied()).collect();
        self.core.job(question, sources, json, &shapes)
    }
}

/// `top`.
#[derive(Args, Clone)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    rank: RankArgs,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    heading: HeadingArgs,
}

impl TopArgs {
    pub(crate) fn job(&self, question: Question) -> Job {
        self.rank.job(question, self.sources.sources.clone(), self.json.json, &[&self.heading])
    }
}

/// `topproto`.
#[derive(Args, Clone)]
pub(crate) struct TopProtoArgs {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    rank: RankArgs,
}

impl TopProtoArgs {
    pub(crate) fn job(&self, question: Question) -> Job {
        self.rank.job(question, self.sources.sources.clone(), false, &[])
    }
}

/// `tree`.
#[derive(Args, Clone)]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    top: TopArgs,
    #[command(flatten)]
    edges: EdgeArgs,
}

impl TreeArgs {
    pub(crate) fn job(&self, question: Question) -> Job {
        let TopArgs { sources, rank, json, heading } = &self.top;
        rank.job(question, sources.sources.clone(), json.json, &[heading, &self.edges])
    }
}

/// `dot` and `graph`.
#[derive(Args, Clone)]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    call_tree: CallTreeArgs,
}

impl GraphArgs {
    pub(crate) fn job(&self, question: Question) -> Job {
        let mut job = self.tree.job(question);
        self.call_tree.put(&mut job.options);
        job
    }

    pub(crate) fn output(&self) -> Option<&Path> {
        self.tree.top.rank.core.output.output.as_deref()
    }
}

/// `traces`.
#[derive(Args, Clone)]
pub(crate) struct TracesArgs {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    core: CoreArgs,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    heading: HeadingArgs,
    #[command(flatten)]
    level: LevelArgs,
    #[command(flatten)]
    values: ValueArgs,
    #[command(flatten)]
    paths: PathArgs,
}

impl TracesArgs {
    pub(crate) fn job(&self, question: Question) -> Job {
        let shapes: [&dyn Shape; 4] = [&self.heading, &self.level, &self.values, &self.paths];
        self.core.job(question, self.sources.sources.clone(), self.json.json, &shapes)
    }
}

/// `tags`.
#[derive(Args, Clone)]
pub(crate) struct TagsArgs {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    core: CoreArgs,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    values: ValueArgs,
}

impl TagsArgs {
    pub(crate) fn job(&self, question: Question) -> Job {
        self.core.job(question, self.sources.sources.clone(), self.json.json, &[&self.values])
    }
}

/// `raw`.
#[derive(Args, Clone)]
pub(crate) struct RawArgs {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    core: CoreArgs,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    kind: KindArgs,
}

impl RawArgs {
    pub(crate) fn job(&self, question: Question) -> Job {
        self.core.job(question, self.sources.sources.clone(), self.json.json, &[&self.kind])
    }
}

/// `proto`.
#[derive(Args, Clone)]
pub(crate) struct ProtoArgs {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    core: CoreArgs,
}

impl ProtoArgs {
    pub(crate) fn job(&self, question: Question) -> Job {
        self.core.job(question, self.sources.sources.clone(), false, &[])
    }
}

/// `callgrind`.
#[derive(Args, Clone)]
pub(crate) struct CallgrindArgs {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    core: CoreArgs,
    #[command(flatten)]
    values: ValueArgs,
    #[command(flatten)]
    call_tree: CallTreeArgs,
    #[command(flatten)]
    paths: PathArgs,
}

impl CallgrindArgs {
    pub(crate) fn job(&self, question: Question) -> Job {
        let shapes: [&dyn Shape; 3] = [&self.values, &self.call_tree, &self.paths];
        self.core.job(question, self.sources.sources.clone(), false, &shapes)
    }
}

/// `flame`.
#[derive(Args, Clone)]
pub(crate) struct FlameArgs {
    #[command(flatten)]
    sources: Sources,
    /// svg or html [default: as the output's name ends, else svg]
    #[arg(long, value_enum, hide_possible_values = true, help_heading = "Picture")]
    pub(crate) format: Option<Picture>,
    /// Callers below callees: the leaves become the roots
    #[arg(long, help_heading = "Picture")]
    inverted: bool,
    /// Roots at the top
    #[arg(long, help_heading = "Picture")]
    icicle: bool,
    /// The width of an SVG in pixels, from 200 to 20000
    #[arg(long, value_name = "PIXELS", alias = "image_width", help_heading = "Picture",
          default_value_t = FlameOptions::default().image_width,
          value_parser = clap::value_parser!(u32).range(200..=20_000))]
    image_width: u32,
    /// The title [default: the names of the sources]
    #[arg(long, help_heading = "Picture")]
    title: Option<String>,
    #[command(flatten)]
    core: CoreArgs,
    #[command(flatten)]
    level: LevelArgs,
    #[command(flatten)]
    kind: KindArgs,
    #[command(flatten)]
    paths: PathArgs,
}

impl FlameArgs {
    pub(crate) fn job(&self, picture: Picture) -> Job {
        let options = FlameOptions {
            inverted: self.inverted,
            icicle: self.icicle,
            image_width: self.image_width,
            title: self.title.clone().unwrap_or_else(|| self.sources.sources.join(" + ")),
            ..FlameOptions::default()
        };
        let question = Question::Flame(picture, Box::new(options));
        let shapes: [&dyn Shape; 3] = [&self.level, &self.kind, &self.paths];
        self.core.job(question, self.sources.sources.clone(), false, &shapes)
    }

    pub(crate) fn output(&self) -> Option<&Path> {
        self.core.output.output.as_deref()
    }
}

/// The functions that match an expression.
#[derive(Args, Clone)]
pub(crate) struct MatchArgs {
    /// The expression (a regular expression; every function when left out), then files, '-' or addresses
    #[arg(required = true, value_name = "[REGEX] SOURCE", value_hint = ValueHint::FilePath)]
    words: Vec<String>,
    #[command(flatten)]
    core: CoreArgs,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    values: ValueArgs,
}

impl MatchArgs {
    fn job(&self, question: fn(String) -> Question, more: &[&dyn Shape]) -> Job {
        let (expression, sources) = expression_and_sources(self.words.clone());
        let shapes: Vec<&dyn Shape> =
            [&self.values as &dyn Shape].into_iter().chain(more.iter().copied()).collect();
        self.core.job(question(expression), sources, self.json.json, &shapes)
    }
}

/// Tells the expression, which is the first or last word that names no source, from the sources. Without one, every
/// function matches.
fn expression_and_sources(mut words: Vec<String>) -> (String, Vec<String>) {
    let is_source = |word: &str| {
        word == "-"
            || Path::new(word).metadata().is_ok_and(|about| !about.is_dir())
            || fetch::profile_url(word, None).is_some()
    };
    let expression = match words.as_slice() {
        [_] => String::new(),
        [first, ..] if !is_source(first) => words.remove(0),
        [.., last] if !is_source(last) => words.pop().unwrap_or_default(),
        _ => String::new(),
    };
    (expression, words)
}

/// `peek`.
#[derive(Args, Clone)]
pub(crate) struct PeekArgs {
    #[command(flatten)]
    matched: MatchArgs,
    #[command(flatten)]
    heading: HeadingArgs,
    #[command(flatten)]
    level: LevelArgs,
    #[command(flatten)]
    sort: SortArgs,
    #[command(flatten)]
    negative: NegativeArgs,
    #[command(flatten)]
    paths: PathArgs,
}

impl PeekArgs {
    pub(crate) fn job(&self) -> Job {
        let shapes: [&dyn Shape; 5] = [&self.heading, &self.level, &self.sort, &self.negative, &self.paths];
        self.matched.job(Question::Peek, &shapes)
    }
}

/// `list`.
#[derive(Args, Clone)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    matched: MatchArgs,
    #[command(flatten)]
    paths: PathArgs,
}

impl ListArgs {
    pub(crate) fn job(&self) -> Job {
        self.matched.job(Question::List, &[&self.paths])
    }
}

/// `disasm`.
#[derive(Args, Clone)]
pub(crate) struct DisasmArgs {
    #[command(flatten)]
    matched: MatchArgs,
    /// Intel's syntax for instructions
    #[arg(long, alias = "intel_syntax", help_heading = "Symbols")]
    intel_syntax: bool,
}

impl DisasmArgs {
    pub(crate) fn job(&self) -> Job {
        let mut job = self.matched.job(Question::Disasm, &[]);
        job.options.intel_syntax = self.intel_syntax;
        job
    }
}
