//! `flamelet tasks`: the async tasks of a service, those that have waited for the longest time first, and its threads.

use crate::arguments::guide::Guide;
pub(crate) use crate::arguments::service::ServiceArgs as Args;
use crate::error::Result;
use crate::output;

/// The longest answer that is read. It is printed as it is.
const LONGEST_ANSWER: u64 = 256 << 20;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "List the async tasks and the threads of a service: where each waits, and how long each task has waited",
        examples: &[
            ("flamelet tasks http://localhost:3000", "stuck tasks come first"),
            ("flamelet tasks http://localhost:3000 --json", "for scripts; all times in nanoseconds"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.wants_json() {
        let tasks = args.ask("tasks", LONGEST_ANSWER)?;
        return output::write(None, |out| Ok(out.write_all(&tasks)?));
    }
    let text = args.ask("goroutine?debug=2", LONGEST_ANSWER)?;
    output::text::write(None, |out| Ok(out.write_all(&text)?))
}
