//! The options of a command line as they were given, to repeat them in another command.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, FromArgMatches};

use crate::job::RepeatedOption;

/// All arguments of a verb as they were given. It has to be the first field of the verb's arguments.
pub(crate) struct Given(ArgMatches);

impl clap::Args for Given {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the arguments of the verb `T`.
pub(crate) fn arguments_of<T: clap::Args>(name: &'static str) -> clap::Command {
    T::augment_args(clap::Command::new(name))
}

/// Options that say where an answer goes and in which form; the next command need not repeat them.
const OF_THE_OUTPUT: [&str; 2] = ["output", "json"];

impl Given {
    /// Returns the options of the verb `T` that were given, each with those of the other verbs that take it.
    pub(crate) fn options<T: clap::Args>(&self, others: &[clap::Command]) -> Vec<RepeatedOption> {
        let own = arguments_of::<T>("");
        let options = own
            .get_arguments()
            .filter(|arg| !arg.is_positional() && !OF_THE_OUTPUT.contains(&arg.get_id().as_str()))
            .filter(|arg| self.is_given(arg));
        options.map(|arg| self.option(arg, others)).collect()
    }

    fn is_given(&self, arg: &Arg) -> bool {
        let id = arg.get_id().as_str();
        matches!(self.0.try_contains_id(id), Ok(true))
            && self.0.value_source(id) == Some(ValueSource::CommandLine)
    }

    fn option(&self, arg: &Arg, others: &[clap::Command]) -> RepeatedOption {
        let takes = |verb: &&clap::Command| verb.get_arguments().any(|other| other.get_id() == arg.get_id());
        RepeatedOption {
            id: arg.get_id().to_string(),
            words: self.words(arg),
            verbs: others.iter().filter(takes).map(|verb| verb.get_name().to_owned()).collect(),
        }
    }

    fn words(&self, arg: &Arg) -> Vec<String> {
        let long = arg.get_long().map(|long| format!("--{long}")).unwrap_or_default();
        let name = arg.get_short().map_or(long.clone(), |letter| format!("-{letter}"));
        if !arg.get_action().takes_values() {
            return vec![name];
        }
        let values = self.0.get_raw(arg.get_id().as_str()).into_iter().flatten();
        let values = values.map(|value| value.to_string_lossy().into_owned());
        let words = values.flat_map(|value| match value.starts_with('-') {
            true => vec![format!("{long}={value}")],
            false => vec![name.clone(), value],
        });
        words.collect()
    }
}
