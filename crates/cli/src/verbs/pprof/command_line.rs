//! `go tool pprof`'s own command line: single-dash flags, `-flag=value`, and its older names.

use std::path::PathBuf;

use flamelet_report::{ReportOption, ReportOptions};

use super::help;
use crate::error::{Failure, Result};
use crate::job::{Picture, Question};
use crate::profiles::SourceOptions;

/// The report that a flag selects.
#[derive(Clone)]
pub(super) enum ReportFlag {
    Report(Question),
    /// The call graph, in the browser.
    Web,
}

/// What the command line requests.
pub(super) struct PprofCommand {
    /// The report, or `None` for the shell.
    pub(super) report: Option<ReportFlag>,
    pub(super) source: SourceOptions,
    pub(super) options: ReportOptions,
    pub(super) output: Option<PathBuf>,
    /// Where to serve the web page, if it was requested.
    pub(super) http: Option<String>,
    pub(super) no_browser: bool,
}

/// Reads the arguments after `flamelet pprof`.
pub(super) fn parse(arguments: &[String]) -> Result<PprofCommand> {
    let mut command = PprofCommand {
        report: None,
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

impl PprofCommand {
    fn set<'a>(
        &mut self,
        name: &str,
        value: Option<&'a str>,
        words: &mut impl Iterator<Item = &'a str>,
    ) -> Result<()> {
        // A value may follow as a separate word, as Go's flag package allows; a switch takes none.
        let mut text = || -> Result<String> {
            let value = value.or_else(|| words.next());
            value.map(str::to_string).ok_or_else(|| Failure::new(format!("-{name} needs a value")))
        };
        if self.set_question(name, &mut text)? {
            return Ok(());
        }
        let is_on = || switch(name, value);
        match name {
            "output" => self.output = Some(text()?.into()),
            "http" => self.http = Some(text()?),
            "no_browser" => self.no_browser = is_on()?,
            "base" => self.source.base.push(text()?),
            "diff_base" => self.source.diff_base.push(text()?),
            "normalize" => self.source.normalize = is_on()?,
            "seconds" => self.source.fetch.seconds = Some(number(name, &text()?)?),
            "timeout" => self.source.fetch.timeout = Some(number(name, &text()?)?),
            "tls_ca" => self.source.fetch.tls_ca = Some(text()?.into()),
            "tls_cert" => self.source.fetch.tls_cert = Some(text()?.into()),
            "tls_key" => self.source.fetch.tls_key = Some(text()?.into()),
            "symbolize" => self.set_symbolize(&text()?)?,
            // Accepted and ignored: these have no meaning in flamelet.
            "tools" | "buildid" | "add_comment" => drop(text()?),
            "total_delay" => self.options.sample_index = "delay".into(),
            "mean_delay" => (self.options.sample_index, self.options.mean) = ("delay".into(), true),
            _ if ReportOption::named(name).is_some_and(|option| !option.is_switch()) => {
                set_option(&mut self.options, name, &text()?)?;
            }
            _ => set_option(&mut self.options, name, value.unwrap_or("true"))?,
        }
        Ok(())
    }

    fn set_question(&mut self, name: &str, mut text: impl FnMut() -> Result<String>) -> Result<bool> {
        let report = match name {
            "peek" => Some(ReportFlag::Report(Question::Peek(text()?))),
            "list" => Some(ReportFlag::Report(Question::List(text()?))),
            "disasm" => Some(ReportFlag::Report(Question::Disasm(text()?))),
            "web" => Some(ReportFlag::Web),
            _ => plain_question(name).map(ReportFlag::Report),
        };
        let Some(report) = report else { return Ok(false) };
        if self.report.is_some() {
            return Err(Failure::new("must set at most one output format"));
        }
        self.report = Some(report);
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

/// Sets a report option by pprof's name, or by one of its values that is a flag too: `lines` is `granularity=lines`.
pub(super) fn set_option(options: &mut ReportOptions, name: &str, value: &str) -> Result<()> {
    let about = |error: flamelet_profile::Error| Failure::new(format!("-{name}={value}: {error}"));
    if let Some(option) = ReportOption::named(name) {
        return option.set(options, value).map_err(about);
    }
    let option = ReportOption::with_choice(name).ok_or_else(|| help::unknown_option(name))?;
    match switch(name, Some(value))? {
        true => option.set(options, name).map_err(about),
        false => option.set(options, &option.get(&ReportOptions::default())).map_err(about),
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
        "png" => Question::GraphPng,
        "flamegraph" => flame(Picture::Svg),
        "html" => flame(Picture::Html),
        _ => return None,
    })
}

/// Reads a switch: `-normalize`, `-normalize=true`, `-cum=false`.
fn switch(name: &str, value: Option<&str>) -> Result<bool> {
    let value = value.unwrap_or("true");
    flamelet_report::parse_switch(value).map_err(|error| Failure::new(format!("-{name}={value}: {error}")))
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T> {
    text.parse().map_err(|_| Failure::new(format!("-{name}={text}: not a number")))
}
