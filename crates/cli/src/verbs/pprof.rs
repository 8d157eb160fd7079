//! `flamelet pprof`: go tool pprof's command line.

use crate::error::{Failure, Result};
use crate::report_job::Job;
use crate::{interactive, output, pprof_args};

const HELP: &str = "\
flamelet pprof takes go tool pprof's command line:

  flamelet pprof -top cpu.pb.gz                 one report: -top -tree -peek=REGEX -list=REGEX -disasm=REGEX
                                                -traces -tags -raw -dot -callgrind -proto -topproto -comments
                                                -svg -html
  flamelet pprof -inuse_space BINARY heap.pb.gz a binary first, older names of sample types
  flamelet pprof http://localhost:3000          30 s of CPU profile, then a shell
  flamelet pprof cpu.pb.gz                      a shell: top, list REGEX, focus=REGEX, help, quit";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let is_help = |word: &String| matches!(word.as_str(), "-h" | "-help" | "--help" | "help");
    if arguments.is_empty() || arguments.iter().any(is_help) {
        return output::line(HELP);
    }
    let command = pprof_args::parse(arguments)?;
    if command.source.sources.is_empty() {
        return Err(Failure::new("no profile source specified; give a file, '-' or an address"));
    }
    match command.question.clone() {
        Some(question) => {
            let (source, options, output) = (command.source, command.options, command.output);
            Job { question, source, options, output, json: false }.run()
        }
        None => interactive::run(command),
    }
}
