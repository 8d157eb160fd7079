//! Report options as arguments of a verb, made from the table in `flamelet-report`.

use std::marker::PhantomData;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, FromArgMatches};
use flamelet_report::{OPTIONS, ReportKind, ReportOption, ReportOptions};

/// Which options a verb takes.
pub(crate) trait Takes {
    /// The report whose defaults the help shows.
    const REPORT: ReportKind;

    fn takes(option: &ReportOption) -> bool {
        option.reports.contains(&Self::REPORT)
    }
}

macro_rules! reports {
    ($($report:ident),*) => {
        $(
            pub(crate) struct $report;
            impl Takes for $report {
                const REPORT: ReportKind = ReportKind::$report;
            }
        )*
    };
}

reports!(
    Top, Tree, Peek, Traces, Tags, Raw, Dot, Callgrind, Proto, TopProto, List, Disasm, Flame, Heap, Diff,
    Check, Explain
);

/// For verbs that print facts about the file itself, which no option changes.
pub(crate) struct NoOptions;

impl Takes for NoOptions {
    const REPORT: ReportKind = ReportKind::Raw;

    fn takes(_: &ReportOption) -> bool {
        false
    }
}

/// The options that the verb `T` takes, as they were given.
pub(crate) struct OptionArgs<T> {
    pub(crate) options: ReportOptions,
    verb: PhantomData<T>,
}

fn taken_by<T: Takes>() -> impl Iterator<Item = &'static ReportOption> {
    OPTIONS.iter().filter(|option| T::takes(option))
}

impl<T: Takes> clap::Args for OptionArgs<T> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(taken_by::<T>().map(|option| argument(option, T::REPORT)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<T: Takes> FromArgMatches for OptionArgs<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = ReportOptions::default();
        for option in taken_by::<T>() {
            let value = match option.flag {
                Some((_, value)) => matches.get_flag(option.name).then_some(value),
                None => matches.get_one(option.name).map(String::as_str),
            };
            let set = value.map_or(Ok(()), |value| option.set(&mut options, value));
            set.map_err(|error| clap::Error::raw(ErrorKind::ValueValidation, error))?;
        }
        Ok(Self { options, verb: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn argument(option: &'static ReportOption, report: ReportKind) -> Arg {
    let name = option.flag.map_or(option.name, |(flag, _)| flag);
    let help = match option.default_for(report) {
        Some(default) => format!("{} [default: {default}]", option.help),
        None => option.help.to_owned(),
    };
    let arg = Arg::new(option.name).long(name.replace('_', "-")).help(help);
    // pprof's own spelling works too.
    let aliases = option.alias.into_iter().chain(name.contains('_').then_some(name));
    let arg = arg.aliases(aliases).help_heading((!option.section.is_empty()).then_some(option.section));
    let arg = option.letter.map_or(arg.clone(), |letter| arg.short(letter));
    match option.flag {
        Some(_) => arg.action(ArgAction::SetTrue),
        None => arg
            .value_name(option.value_name)
            .value_parser(|text: &str| option.check(text).map(|()| text.to_owned())),
    }
}
