//! `go tool pprof`'s own command line: single-dash flags, `-flag=value`, and its older names.

use std::path::PathBuf;

use flamelet_profile::Granularity;
use flamelet_report::{ReportOptions, Sort};

use super::help;
use crate::error::{Failure, Result};
use crate::job::{Picture, Question};
use crate::profiles::SourceOptions;

/// What can be asked for besides the shell and the page.
#[derive(Clone)]
pub(super) enum Wanted {
    Report(Question),
    /// The call graph, in the browser.
    Web,
}

/// What the command line asked for.
pub(super) struct PprofCommand {
    /// The report, or none for the shell.
    pub(super) wanted: Option<Wanted>,
    pub(super) source: SourceOptions,
    pub(super) options: ReportOptions,
    pub(super) output: Option<PathBuf>,
    /// Where to serve the web page, when it was asked for.
    pub(super) http: Option<String>,
    pub(super) no_browser: bool,
}

/// Reads the arguments after `flamelet pprof`.
pub(super) fn parse(arguments: &[String]) -> Result<PprofCommand> {
    let mut command = PprofCommand {
        wanted: None,
        source: SourceOptions::default(),
        options: ReportOptions::default(),
        output: None,
        http: None,
        no_browser: false,
    };
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix('-').filter(|flag| !flag.is_empty()) else {
            command.source.sources.push(word.to_string());
            continue;
        };
        let flag = flag.strip_prefix('-').unwrap_or(flag);
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (flag, None),
        };
        command.set(name, value, &mut words)?;
    }
    Ok(command)
}

/// Values that go into text options and into switches.
enum Slot<'a> {
    Text(&'a mut String),
    Switch(&'a mut bool),
}

impl PprofCommand {
    fn set<'a>(
        &mut self,
        name: &str,
        value: Option<&'a str>,
        words: &mut impl Iterator<Item = &'a str>,
    ) -> Result<()> {
        // A value may follow as a word of its own, as Go's flag package allows; a switch takes none.
        let text = |words: &mut dyn Iterator<Item = &'a str>| -> Result<String> {
            let value = value.or_else(|| words.next());
            value.map(str::to_string).ok_or_else(|| Failure::new(format!("-{name} needs a value")))
        };
        if self.set_question(name, || text(words))? {
            return Ok(());
        }
        if let Some(sample_index) = legacy_sample_index(name) {
            self.options.sample_index = sample_index.into();
            return Ok(());
        }
        if let Some(granularity) = granularity_switch(name) {
            self.options.granularity = Some(granularity);
            return Ok(());
        }
        let is_on = || switch(name, value);
        match name {
            "output" => self.output = Some(text(words)?.into()),
            "http" => self.http = Some(text(words)?),
            "no_browser" => self.no_browser = is_on()?,
            "base" => self.source.base.push(text(words)?),
            "diff_base" => self.source.diff_base.push(text(words)?),
            "normalize" => self.source.normalize = is_on()?,
            "seconds" => self.source.fetch.seconds = Some(number(name, &text(words)?)?),
            "timeout" => self.source.fetch.timeout = Some(number(name, &text(words)?)?),
            "tls_ca" => self.source.fetch.tls_ca = Some(text(words)?.into()),
            "tls_cert" => self.source.fetch.tls_cert = Some(text(words)?.into()),
            "tls_key" => self.source.fetch.tls_key = Some(text(words)?.into()),
            "symbolize" => self.set_symbolize(&text(words)?)?,
            // What has no meaning here is taken and left.
            "tools" | "buildid" | "add_comment" => drop(text(words)?),
            "contentions" => self.options.sample_index = "contentions".into(),
            "total_delay" => self.options.sample_index = "delay".into(),
            "mean_delay" => (self.options.sample_index, self.options.mean) = ("delay".into(), true),
            _ => return self.set_option(name, || text(words), is_on),
        }
        Ok(())
    }

    /// Sets a report option by pprof's name, as the shell does too.
    pub(super) fn set_option(
        &mut self,
        name: &str,
        text: impl FnOnce() -> Result<String>,
        is_on: impl FnOnce() -> Result<bool>,
    ) -> Result<()> {
        match name {
            "nodecount" => {
                let count: i64 = number(name, &text()?)?;
                self.options.node_count = usize::try_from(count).ok();
            }
            "nodefraction" => self.options.node_fraction = number(name, &text()?)?,
            "edgefraction" => self.options.edge_fraction = number(name, &text()?)?,
            "divide_by" => self.options.divide_by = number(name, &text()?)?,
            "granularity" => {
                let granularity = text()?
                    .parse()
                    .map_err(|error: flamelet_profile::UnknownGranularity| Failure::new(error.to_string()))?;
                self.options.granularity = Some(granularity);
            }
            "sort" => {
                self.options.sort = match text()?.as_str() {
                    "cum" => Sort::Cum,
                    "flat" => Sort::Flat,
                    other => return Err(Failure::new(format!("-sort={other}: use cum or flat"))),
                }
            }
            "cum" => self.options.sort = if is_on()? { Sort::Cum } else { Sort::Flat },
            "flat" => self.options.sort = if is_on()? { Sort::Flat } else { Sort::Cum },
            _ => match self.slot(name) {
                Some(Slot::Text(slot)) => *slot = text()?,
                Some(Slot::Switch(slot)) => *slot = is_on()?,
                None => return Err(unknown_option(name)),
            },
        }
        Ok(())
    }

    /// Where the value of an option lives.
    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        let options = &mut self.options;
        Some(match name {
            "focus" => Slot::Text(&mut options.filters.focus),
            "ignore" => Slot::Text(&mut options.filters.ignore),
            "hide" => Slot::Text(&mut options.filters.hide),
            "show" => Slot::Text(&mut options.filters.show),
            "show_from" => Slot::Text(&mut options.filters.show_from),
            "prune_from" => Slot::Text(&mut options.filters.prune_from),
            "tagfocus" => Slot::Text(&mut options.filters.tag_focus),
            "tagignore" => Slot::Text(&mut options.filters.tag_ignore),
            "tagshow" => Slot::Text(&mut options.filters.tag_show),
            "taghide" => Slot::Text(&mut options.filters.tag_hide),
            "tagroot" => Slot::Text(&mut options.tag_root),
            "tagleaf" => Slot::Text(&mut options.tag_leaf),
            "sample_index" => Slot::Text(&mut options.sample_index),
            "unit" => Slot::Text(&mut options.unit),
            "source_path" => Slot::Text(&mut options.source_path),
            "trim_path" => Slot::Text(&mut options.trim_path),
            "mean" => Slot::Switch(&mut options.mean),
            "noinlines" => Slot::Switch(&mut options.no_inlines),
            "showcolumns" => Slot::Switch(&mut options.show_columns),
            "relative_percentages" => Slot::Switch(&mut options.relative_percentages),
            "trim" => Slot::Switch(&mut options.trim),
            "call_tree" => Slot::Switch(&mut options.call_tree),
            "drop_negative" => Slot::Switch(&mut options.drop_negative),
            "compact_labels" => Slot::Switch(&mut options.compact_labels),
            "intel_syntax" => Slot::Switch(&mut options.intel_syntax),
            _ => return None,
        })
    }

    /// The options as the shell lists them.
    pub(super) fn option_lines(&mut self) -> Vec<String> {
        const NAMES: [&str; 23] = [
            "call_tree",
            "compact_labels",
            "drop_negative",
            "focus",
            "hide",
            "ignore",
            "intel_syntax",
            "mean",
            "noinlines",
            "prune_from",
            "relative_percentages",
            "sample_index",
            "show",
            "show_from",
            "source_path",
            "tagfocus",
            "taghide",
            "tagignore",
            "tagleaf",
            "tagroot",
            "tagshow",
            "trim",
            "unit",
        ];
        let mut lines: Vec<String> = NAMES
            .iter()
            .map(|name| match self.slot(name) {
                Some(Slot::Text(text)) => format!("  {name:<25} = {text:?}"),
                Some(Slot::Switch(is_on)) => format!("  {name:<25} = {is_on}"),
                None => format!("  {name:<25}"),
            })
            .collect();
        let options = &self.options;
        lines.push(format!("  {:<25} = {}", "divide_by", options.divide_by));
        lines.push(format!("  {:<25} = {}", "edgefraction", options.edge_fraction));
        lines.push(format!(
            "  {:<25} = {}",
            "nodecount",
            options.node_count.map_or(-1, |count| count as i64)
        ));
        lines.push(format!("  {:<25} = {}", "nodefraction", options.node_fraction));
        let sort = if options.sort == Sort::Cum { "cum" } else { "flat" };
        lines.push(format!("  {:<25} = {sort}", "sort"));
        lines.sort();
        lines
    }

    fn set_question(&mut self, name: &str, text: impl FnOnce() -> Result<String>) -> Result<bool> {
        let wanted = match name {
            "peek" => Some(Wanted::Report(Question::Peek(text()?))),
            "list" => Some(Wanted::Report(Question::List(text()?))),
            "disasm" => Some(Wanted::Report(Question::Disasm(text()?))),
            "web" => Some(Wanted::Web),
            _ => plain_question(name).map(Wanted::Report),
        };
        let Some(wanted) = wanted else { return Ok(false) };
        if self.wanted.is_some() {
            return Err(Failure::new("must set at most one output format"));
        }
        self.wanted = Some(wanted);
        Ok(true)
    }

    fn set_symbolize(&mut self, how: &str) -> Result<()> {
        let symbols = &mut self.source.symbols;
        for part in how.split(':').filter(|part| !part.is_empty()) {
            match part {
                "none" | "no" => symbols.skip = true,
                "force" => symbols.force = true,
                "local" | "fastlocal" | "remote" => {}
                _ if part.starts_with("demangle=") => {}
                _ => return Err(Failure::new(format!("-symbolize={how}: use none, local, remote or force"))),
            }
        }
        Ok(())
    }
}

/// The reports that take no expression, by the names that pprof gives them.
pub(super) fn plain_question(name: &str) -> Option<Question> {
    let flame = |picture| Question::Flame(picture, Box::default());
    Some(match name {
        "top" | "text" => Question::Top,
        "tree" => Question::Tree,
        "traces" => Question::Traces,
        "tags" => Question::Tags,
        "raw" => Question::Raw,
        "comments" => Question::Comments,
        "dot" => Question::Dot,
        "callgrind" => Question::Callgrind,
        "proto" => Question::Proto,
        "topproto" => Question::TopProto,
        "svg" => Question::Graph,
        "flamegraph" => flame(Picture::Svg),
        "html" => flame(Picture::Html),
        _ => return None,
    })
}

/// Says what to do instead of what is not there.
pub(super) fn unknown_option(name: &str) -> Failure {
    Failure::new(match help::instead_of(name) {
        Some(instead) => format!("-{name}: {instead}"),
        None => format!("unknown option -{name}; `flamelet pprof -help` lists what there is"),
    })
}

fn legacy_sample_index(name: &str) -> Option<&'static str> {
    ["inuse_space", "inuse_objects", "alloc_space", "alloc_objects"].into_iter().find(|known| *known == name)
}

fn granularity_switch(name: &str) -> Option<Granularity> {
    matches!(name, "functions" | "filefunctions" | "files" | "lines" | "addresses")
        .then(|| name.parse().ok())?
}

/// `-cum`, `-cum=true`, `-trim=false`.
fn switch(name: &str, value: Option<&str>) -> Result<bool> {
    match value {
        None | Some("" | "1" | "t" | "true" | "yes" | "y" | "T" | "TRUE" | "True") => Ok(true),
        Some("0" | "f" | "false" | "no" | "n" | "F" | "FALSE" | "False") => Ok(false),
        Some(other) => Err(Failure::new(format!("-{name}={other}: use true or false"))),
    }
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T> {
    text.parse().map_err(|_| Failure::new(format!("-{name}={text}: not a number")))
}
