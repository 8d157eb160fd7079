//! `flamelet collect changes`: what got slower from one version of a service to the next.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueHint;
use flamelet_collect::{Asked, Changes, Deploy, ServiceChanges, Slower, changes};
use flamelet_profile::{Budget, moment};

use crate::arguments::report::JsonArgs;
use crate::arguments::source::{MemoryArgs, SymbolArgs};
use crate::error::{About, Result};
use crate::profiles::collected::{Which, reader_of, service_of};
use crate::profiles::history::parse_moment;
use crate::{job, output};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the collector, or the bucket
    #[arg(long, value_name = "DIR|URL", value_hint = ValueHint::DirPath)]
    store: PathBuf,
    /// Only this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// The start of the range, such as -2h or 2026-11-15T03:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_moment, allow_hyphen_values = true, default_value = "-1d")]
    from: i64,
    /// The end of the range [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_moment, allow_hyphen_values = true)]
    to: Option<i64>,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    symbols: SymbolArgs,
    #[command(flatten)]
    memory: MemoryArgs,
}

/// Returns 1 if anything got slower.
pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let name = args.store.display();
    let (from, to, limits) = (args.from, args.to.unwrap_or(i64::MAX), args.memory.limits());
    moment::range(from, to)?;
    let reader = reader_of(&args.store)?;
    if args.service.is_some() {
        let which = Which { service: args.service.clone(), profile: None };
        service_of(&reader, &which, &Budget::new(limits)).about(&name)?;
    }
    let symbols = args.symbols.options();
    let asked = Asked { service: args.service.as_deref(), select: None, from, to, limits };
    let mut notes = Vec::new();
    let found = changes(&reader, &asked, |profile| symbols.apply(profile, &mut notes)).about(&name)?;
    notes.iter().for_each(|note| note!("{note}"));
    match args.json.json {
        true => output::write(None, |out| job::write_json(&found, out))?,
        false => output::text::write(None, |out| write_text(&found, out))?,
    }
    Ok(if found.regressed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn write_text(found: &Changes, out: &mut dyn Write) -> Result<()> {
    if found.services.is_empty() {
        writeln!(out, "no CPU profiles in this range")?;
    }
    for service in &found.services {
        write_service(service, out)?;
    }
    Ok(())
}

fn write_service(found: &ServiceChanges, out: &mut dyn Write) -> Result<()> {
    let ServiceChanges { service, versions, deploys, notes } = found;
    match &versions[..] {
        [] => writeln!(out, "{service}:")?,
        [only] => writeln!(out, "{service}: one version ({} {})", only.by, only.version)?,
        _ => writeln!(out, "{service}: {} versions", versions.len())?,
    }
    for deploy in deploys {
        write_deploy(deploy, out)?;
    }
    for note in notes {
        writeln!(out, "  {note}")?;
    }
    Ok(())
}

fn write_deploy(deploy: &Deploy, out: &mut dyn Write) -> Result<()> {
    let Deploy { before, after, slower, new_functions, .. } = deploy;
    let since = moment::format(deploy.since);
    match slower.len() {
        0 => writeln!(out, "  {before} -> {after} (since {since}): nothing slower")?,
        _ => writeln!(out, "  {before} -> {after} (since {since}): SLOWER")?,
    }
    for row in slower {
        write_row(row, out)?;
    }
    for row in new_functions {
        let share = row.share * 100.0;
        writeln!(out, "    {share:5.1}% of CPU  {} ({}): new in this version", row.function, row.owner)?;
    }
    Ok(())
}

fn write_row(row: &Slower, out: &mut dyn Write) -> Result<()> {
    let place = match (&*row.file, row.line) {
        ("", _) => String::new(),
        (file, 0) => format!(" at {file}"),
        (file, line) => format!(" at {file}:{line}"),
    };
    let what = if row.with_callees { "with what it calls " } else { "" };
    let (before, after, growth) = (row.share_before * 100.0, row.share_after * 100.0, row.growth * 100.0);
    // Rounded down: nothing is certain.
    let sure = (row.confidence * 10_000.0).floor().min(9999.0) / 100.0;
    writeln!(
        out,
        "    {growth:+5.1}%  {} ({}){place}: {what}{before:.2}% -> {after:.2}% of CPU, {sure}% sure",
        row.function, row.owner
    )?;
    Ok(())
}
