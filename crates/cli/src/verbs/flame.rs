//! `flamelet flame`: a flame graph as a picture or a page.

use std::path::Path;

use crate::arguments::guide::Guide;
pub(crate) use crate::arguments::report::FlameArgs as Args;
use crate::error::Result;
use crate::job::Picture;
use crate::output;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Draw a flame graph: SVG, or one interactive HTML file",
        examples: &[
            ("flamelet flame cpu.pb.gz -o cpu.svg", "a picture"),
            ("flamelet flame cpu.pb.gz -o cpu.html", "a page to look at or send"),
            ("flamelet flame cpu.pb.gz --inverted > cpu.svg", "from the leaves up"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let picture = match args.format {
        Some(picture) => picture,
        None => by_extension(args.output())?,
    };
    args.job(picture).run()
}

/// What the output's extension asks for; without one, a picture.
fn by_extension(path: Option<&Path>) -> Result<Picture> {
    match path.and_then(output::extension) {
        Some("html" | "htm") => Ok(Picture::Html),
        None | Some("svg") => Ok(Picture::Svg),
        Some(_) => {
            let endings = ".svg or .html, or say which with --format";
            Err(output::unknown_extension(path, "a flame graph is SVG or HTML", endings))
        }
    }
}
