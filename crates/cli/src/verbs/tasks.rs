//! `flamelet tasks`: the async tasks of a service, those that have waited for the longest time first.

use crate::arguments::guide::Guide;
use crate::arguments::service::Service;
use crate::error::Result;
use crate::output;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    service: Service,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "List the async tasks of a service: where each awaits, and for how long",
        examples: &[("flamelet tasks http://localhost:3000", "those that are stuck come first")],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let text = args.service.ask("goroutine?debug=2")?;
    output::write(None, |out| Ok(out.write_all(&text)?))
}
