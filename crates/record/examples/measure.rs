//! Records a command and prints what it cost: `measure [-F HZ] [--off-cpu] [--syscalls] [-e EVENT] [--eager]
//! [--never] [-p PID] [-a] [--seconds N] [-o FILE] -- CMD…`.

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use flamelet_profile::pprof;
use flamelet_record::{Checkpoint, CommandEnd, Completion, RecordOptions, Target, record};

fn main() {
    if let Err(message) = run() {
        eprintln!("measure: {message}");
        std::process::exit(2);
    }
}

fn run() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let mut options = RecordOptions::new(Target::All);
    let mut pids = Vec::new();
    let mut out = None;
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} wants a value"));
        let number = |text: String| text.parse::<u32>().map_err(|error| format!("{text}: {error}"));
        match arg.as_str() {
            "-F" => options.frequency = number(value()?)?,
            "-p" => pids.push(number(value()?)?),
            "-e" => options.events.push(value()?),
            "-o" => out = Some(value()?),
            "--seconds" => options.duration = Some(Duration::from_secs(number(value()?)?.into())),
            "--dump" => options.dump_bytes = number(value()?)?,
            "--off-cpu" => options.off_cpu = true,
            "--syscalls" => options.syscalls = true,
            "--no-cpu" => options.cpu = false,
            "--no-names" => options.symbolize = None,
            "--eager" => options.completion = Completion::Eager,
            "--never" => options.completion = Completion::Never,
            "--save" => options.checkpoint = Some(Checkpoint::to_file(value()?, Duration::from_secs(1))),
            "-a" => {}
            "--" => {
                let mut command = Command::new(args.next().ok_or("no command")?);
                command.args(&mut args);
                options.target = Target::Command(command);
            }
            _ => return Err(format!("what is {arg}?")),
        }
    }
    if !pids.is_empty() {
        options.target = Target::Pids(pids);
    }
    let mut over = Instant::now();
    let recorded = record(options, &mut |_| over = Instant::now(), &AtomicBool::new(false))
        .map_err(|error| error.to_string())?;
    let to_profile = over.elapsed();
    let mut bytes = Vec::new();
    pprof::write_gzip(&recorded.profile, &mut bytes).map_err(|error| error.to_string())?;
    let to_file = over.elapsed();
    if let Some(path) = out {
        std::fs::write(&path, &bytes).map_err(|error| format!("{path}: {error}"))?;
    }
    let summary = &recorded.summary;
    let each = |total: f64| total / summary.samples.max(1) as f64;
    println!("engine          {} at {:?} Hz", summary.engine, summary.achieved_hertz);
    println!(
        "samples         {} in {:?}, target CPU {:?}",
        summary.samples, summary.elapsed, summary.target_cpu
    );
    println!("lost            {}, throttled {}", summary.lost, summary.throttled);
    println!(
        "rooted          {:.3} % ({} cut, {} without rule of {} truncated), eager {}",
        summary.rooted_share() * 100.0,
        summary.cut,
        summary.without_rule,
        summary.truncated,
        summary.was_eager
    );
    println!("names           {} of {} addresses unresolved", summary.unresolved, summary.locations);
    println!("file            {} bytes, {:.1} a sample", bytes.len(), each(bytes.len() as f64));
    println!(
        "recorder CPU    {:.2} µs a sample; names {:?}",
        each(summary.own_cpu.as_nanos() as f64) / 1e3,
        summary.names_cpu
    );
    println!("exit to profile {to_profile:?}, to file {to_file:?}");
    println!("timeline        {} events", recorded.profile.timeline.as_ref().map_or(0, |t| t.events.len()));
    for call in &summary.syscalls {
        println!(
            "syscall         {:20} {:8} calls {:6} errors {:10} ns each",
            call.name,
            call.stats.calls,
            call.stats.errors,
            call.stats.nanos / call.stats.calls.max(1)
        );
    }
    summary.notes.iter().for_each(|note| println!("note            {note}"));
    if let Some(CommandEnd::Exited(status)) = recorded.command {
        println!("command         {status}");
    }
    Ok(())
}
