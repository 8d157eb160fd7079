//! `flamelet peek`.

use crate::arguments::guide::Guide;
pub(crate) use crate::arguments::report::PeekArgs as Args;
use crate::error::Result;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Show callers and callees of the functions that match an expression",
        examples: &[("flamelet peek 'serde_json::de' cpu.pb.gz", "who calls it, whom it calls")],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.job().run()
}
