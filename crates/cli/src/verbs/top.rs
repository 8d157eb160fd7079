//! `flamelet top`: functions by cost.

use std::io::IsTerminal;

use flamelet_report::by::Grouping;

use crate::arguments::guide::Guide;
use crate::arguments::options::Top;
use crate::arguments::report::{JsonArgs, MineArgs, ReportArgs};
use crate::arguments::source::Sources;
use crate::error::Result;
use crate::job::Question;
use crate::output;
use crate::verbs::collect::usage;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    report: ReportArgs<Top>,
    /// Group by yours (your functions, with the library code they call), crate, module, line or thread
    #[arg(long, value_name = "WHAT", value_parser = str::parse::<Grouping>)]
    by: Option<Grouping>,
    /// For the folder of `flamelet collect`: also show the cost of all services, given the price of one core-hour
    #[arg(long, value_name = "PER_CORE_HOUR", value_parser = usage::parse_price)]
    price: Option<f64>,
    #[command(flatten)]
    mine: MineArgs,
    #[command(flatten)]
    json: JsonArgs,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show the most expensive functions",
        examples: &[
            ("flamelet top cpu.pb.gz", "the most expensive functions"),
            ("flamelet top cpu.pb.gz --by yours", "your functions, with the code that they call"),
            ("flamelet top cpu.pb.gz --by crate -n 10", "ten crates, with versions"),
            ("flamelet top cpu.pb.gz --cum -n 10", "ten, with everything they call"),
            ("flamelet top cpu.pb.gz --focus serde", "only stacks with serde in them"),
            ("flamelet top http://localhost:3000 --seconds 5", "of a running service"),
            (
                "flamelet top /var/lib/my-service/history --from -2h --to -1h",
                "one hour of a service's history",
            ),
            (
                "flamelet top /var/lib/flamelet --from -1d --price 0.03",
                "all services of a collector, with their cost",
            ),
            ("flamelet top heap.pb.gz -i alloc_space --json", "another sample type, as JSON"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let question = match args.by {
        Some(grouping) => Question::By(grouping, args.mine.mine.clone()),
        None => Question::Top,
    };
    let job = args.report.job(question.clone(), &args.sources.sources, args.json.json);
    if let Some(fleet) = usage::fleet_of(&job.source, args.price)? {
        return fleet.answer(&job, args.by, args.price, &args.mine.mine);
    }
    let is_plain = matches!(question, Question::Top) && !args.json.json && args.report.output().is_none();
    job.run()?;
    if is_plain && std::io::stdout().is_terminal() {
        output::line("\nFor your own functions, with the code that they call, add --by yours")?;
    }
    Ok(())
}
