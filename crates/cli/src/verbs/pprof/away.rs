//! Reports that are not text do not go to a terminal: as in pprof, they get a file `profile001.png` of their own.

use std::fs::{self, File};
use std::io::{self, ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};

use crate::error::{About, Failure, Result};
use crate::job::{Picture, Question};

/// The number of the last name that is tried, as in pprof.
const LAST: u32 = 9999;

/// Calls `report` with where to write it: `output`, or a new file in this folder if a terminal would get what it cannot show.
pub(super) fn from_terminal(
    question: &Question,
    output: Option<&Path>,
    report: impl FnOnce(Option<&Path>) -> Result<()>,
) -> Result<()> {
    let ending = ending(question).filter(|_| output.is_none() && io::stdout().is_terminal());
    let Some(ending) = ending else { return report(output) };
    let path = new_file(ending)?;
    note!("Generating report in {}", path.display());
    report(Some(&path)).inspect_err(|_| drop(fs::remove_file(&path)))
}

/// Returns the ending of the file for a report that is not text, as pprof chooses it.
fn ending(question: &Question) -> Option<&'static str> {
    match question {
        Question::Graph | Question::Flame(Picture::Svg, _) => Some("svg"),
        Question::GraphPng | Question::Flame(Picture::Png, _) => Some("png"),
        Question::Flame(Picture::Html, _) => Some("html"),
        Question::Proto | Question::TopProto => Some("pb.gz"),
        Question::Callgrind => Some("callgraph.out"),
        _ => None,
    }
}

/// Creates the first file `profileNNN.ENDING` that does not exist.
fn new_file(ending: &str) -> Result<PathBuf> {
    for number in 1..=LAST {
        let path = PathBuf::from(format!("profile{number:03}.{ending}"));
        match File::create_new(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|_| path.clone()).about(path.display()),
        }
    }
    Err(Failure::new(format!("profile001.{ending} to profile{LAST}.{ending} exist; use -output=FILE")))
}
