//! `flamelet flame`: a flame graph as a picture or a page.

use std::path::Path;

use flamelet_report::flame::FlameOptions;

use crate::arguments::guide::Guide;
use crate::arguments::options::Flame;
use crate::arguments::report::{MineArgs, ReportArgs};
use crate::arguments::source::Sources;
use crate::error::Result;
use crate::job::{Picture, Question};
use crate::output;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// The format, svg or html; `-o x.png` writes PNG [default: from the output's extension, else svg]
    #[arg(long, value_enum, hide_possible_values = true, help_heading = "Picture")]
    format: Option<Picture>,
    /// Draw every frame instead of folding other code's frames that lead to yours into thin boxes
    #[arg(long, help_heading = "Picture")]
    all_frames: bool,
    /// Invert the graph: start from the leaves and show their callers
    #[arg(long, help_heading = "Picture")]
    inverted: bool,
    /// Draw the roots at the top
    #[arg(long, help_heading = "Picture")]
    icicle: bool,
    /// Draw what each thread did over time instead
    #[arg(long, help_heading = "Picture", conflicts_with_all = ["all_frames", "inverted", "icicle"])]
    timeline: bool,
    /// The width of an SVG in pixels, from 200 to 20000
    #[arg(long, value_name = "PIXELS", alias = "image_width", help_heading = "Picture",
          default_value_t = FlameOptions::default().image_width,
          value_parser = clap::value_parser!(u32).range(200..=20_000))]
    image_width: u32,
    /// The title [default: the names of the profiles]
    #[arg(long, help_heading = "Picture")]
    title: Option<String>,
    #[command(flatten)]
    mine: MineArgs,
    #[command(flatten)]
    report: ReportArgs<Flame>,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Draw a flame graph as SVG or as one interactive HTML file",
        examples: &[
            ("flamelet flame cpu.pb.gz -o cpu.svg", "a picture"),
            ("flamelet flame cpu.pb.gz -o cpu.png", "where SVG is not accepted"),
            ("flamelet flame cpu.pb.gz -o cpu.html", "an interactive page to open or send"),
            ("flamelet flame cpu.pb.gz --inverted > cpu.svg", "from the leaves"),
            ("flamelet flame cpu.pb.gz --timeline -o cpu.svg", "what each thread did over time"),
            ("flamelet flame cpu.pb.gz --all-frames -o cpu.svg", "with every frame of the async runtime"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let picture = match args.format {
        Some(picture) => picture,
        None => by_extension(args.report.output())?,
    };
    let sources = &args.sources.sources;
    let options = FlameOptions {
        everything: args.all_frames,
        inverted: args.inverted,
        icicle: args.icicle,
        timeline: args.timeline,
        image_width: args.image_width,
        title: args.title.clone().unwrap_or_else(|| sources.join(" + ")),
        ..FlameOptions::default()
    };
    let mut job = args.report.job(Question::Flame(picture, Box::new(options)), sources, false);
    job.options.mine = args.mine.mine.clone();
    job.run()
}

/// Returns the form that the output's extension selects; SVG without an extension.
fn by_extension(path: Option<&Path>) -> Result<Picture> {
    match path.and_then(output::extension) {
        Some("html" | "htm") => Ok(Picture::Html),
        None | Some("svg") => Ok(Picture::Svg),
        Some("png") => Ok(Picture::Png),
        Some(_) => {
            let endings = ".svg, .html or .png, or use --format";
            Err(output::unknown_extension(path, "unknown output extension", endings))
        }
    }
}
