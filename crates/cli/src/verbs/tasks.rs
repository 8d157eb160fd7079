//! `flamelet tasks`: the async tasks of a service, those that have waited for the longest time first, and its threads.

use crate::arguments::guide::Guide;
use crate::arguments::report::JsonArgs;
use crate::arguments::service::ServiceArgs;
use crate::error::Result;
use crate::output;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    service: ServiceArgs,
    #[command(flatten)]
    json: JsonArgs,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "List the async tasks and the threads of a service: where each waits, and how long each task has waited",
        examples: &[
            ("flamelet tasks http://localhost:3000", "those that are stuck come first"),
            ("flamelet tasks http://localhost:3000 --json", "for programs; all times in nanoseconds"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.json.json {
        let tasks = args.service.ask("tasks")?;
        return output::write(None, |out| Ok(out.write_all(&tasks)?));
    }
    let text = args.service.ask("goroutine?debug=2")?;
    output::text::write(None, |out| Ok(out.write_all(&text)?))
}
