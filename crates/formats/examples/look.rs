//! Says what a file holds: `cargo run -p flamelet-formats --example look -- FILE [FORMAT OUT]`.
//! With a format and a name, the profile is also written there.

use std::error::Error;
use std::fs::File;

use flamelet_formats::{Format, Options, read_file, write};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, output @ ..] = &arguments[..] else { return Err("usage: look FILE [FORMAT OUT]".into()) };
    let file = read_file(&File::open(path)?, &Options::default())?;
    let profile = &file.profile;
    println!(
        "{}: {} samples, {} locations",
        file.format.title(),
        profile.sample_count(),
        profile.locations().len()
    );
    for (index, value) in profile.sample_types().iter().enumerate() {
        println!("  {}/{}: {}", profile.string(value.kind), profile.string(value.unit), profile.total(index));
    }
    if let Some(timeline) = &profile.timeline {
        let span = timeline.span_nanos() as f64 / 1e9;
        println!(
            "  {} moments on {} threads over {span:.3} s",
            timeline.events.len(),
            timeline.threads.len()
        );
    }
    profile.comments().for_each(|comment| println!("  # {comment}"));
    file.notes.iter().for_each(|note| println!("  note: {note}"));
    if let [format, out] = output {
        let notes = write(profile, format.parse::<Format>()?, &mut File::create(out)?, &Options::default())?;
        notes.iter().for_each(|note| println!("  written, {note}"));
    }
    Ok(())
}
