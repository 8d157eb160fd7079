//! `flamelet flame`: a picture.

use std::path::Path;

use flamelet_report::flame::FlameOptions;

use super::job;
use crate::args::{FlameArgs, Picture};
use crate::error::{Failure, Result};
use crate::report_job::Question;

pub(crate) fn run(args: FlameArgs) -> Result<()> {
    let (sources, shape) = args.report.parts();
    if shape.json {
        return Err(Failure::new("a flame graph is a picture; for its data use traces --json or top --json"));
    }
    let picture = args.format.or_else(|| by_name(shape.output.as_deref()));
    let picture = picture.unwrap_or(Picture::Svg);
    let mut options =
        FlameOptions { inverted: args.inverted, icicle: args.icicle, ..FlameOptions::default() };
    options.title = args.title.unwrap_or_else(|| sources.join(" + "));
    if let Some(width) = args.image_width {
        options.image_width = width;
    }
    job(Question::Flame(picture, Box::new(options)), sources, &shape).run()
}

fn by_name(output: Option<&Path>) -> Option<Picture> {
    match output?.extension()?.to_str()? {
        "html" | "htm" => Some(Picture::Html),
        "svg" => Some(Picture::Svg),
        _ => None,
    }
}
