//! Recognising a file by its content, and handing it to its reader.

use flamelet_profile::{ErrorKind, Profile, Result, pprof};

use crate::input::Input;
use crate::{
    Error, Format, Notes, Options, bpftrace, cachegrind, callgrind, cpuprofile, dhat, dtrace, firefox,
    folded, heaptrack, jemalloc, jfr, json, legacy, mac_sample, massif, otlp, perf_data, perf_script,
    speedscope, strace, trace_event, xctrace,
};

/// Reads `input` in the format it is in.
pub(crate) fn read(mut input: Input<'_>, options: &Options, notes: &mut Notes) -> Result<(Format, Profile)> {
    if let Some(format) = options.format {
        return Ok((format, read_as(format, input, options, notes)?));
    }
    match recognise(input.head(), input.head_is_all()) {
        Ok(format) => Ok((format, read_as(format, input, options, notes)?)),
        // The keys that tell JSON formats apart may stand at the end of the file.
        Err(_) if !input.head_is_all() && is_json(input.head()) => {
            let budget = input.budget().clone();
            let text = input.slurp()?;
            let format = recognise(&text, true)?;
            let input = Input::open(&text[..], &budget)?;
            Ok((format, read_as(format, input, options, notes)?))
        }
        // The first stack may be longer than what was looked at.
        Err(_) if !input.head_is_all() && folded::may_have_long_line(input.head()) => {
            input.look_further()?;
            let format = recognise(input.head(), input.head_is_all())?;
            Ok((format, read_as(format, input, options, notes)?))
        }
        Err(error) => Err(error),
    }
}

fn read_as(format: Format, input: Input<'_>, options: &Options, notes: &mut Notes) -> Result<Profile> {
    match format {
        Format::Pprof => {
            let budget = input.budget().clone();
            pprof::decode_within(&input.slurp()?, &budget)
        }
        Format::Folded => folded::read(input, options, notes),
        Format::PerfData => perf_data::read(input, options, notes),
        Format::PerfScript => perf_script::read(input, options, notes),
        Format::Speedscope => speedscope::read(input, options, notes),
        Format::Firefox => firefox::read(input, options, notes),
        Format::Gecko => firefox::read_gecko(input, options, notes),
        Format::CpuProfile => cpuprofile::read(input, options, notes),
        Format::TraceEvent => trace_event::read(input, options, notes),
        Format::Callgrind => callgrind::read(input, options, notes),
        Format::Cachegrind => cachegrind::read(input, options, notes),
        Format::Massif => massif::read(input, options, notes),
        Format::Dhat => dhat::read(input, options, notes),
        Format::Heaptrack => heaptrack::read(input, options, notes),
        Format::Jemalloc => jemalloc::read(input, options, notes),
        Format::PprofLegacy => legacy::read(input, options, notes),
        Format::Strace => strace::read(input, options, notes),
        Format::StraceSummary => strace::read_summary(input, options, notes),
        Format::Bpftrace => bpftrace::read(input, options, notes),
        Format::Dtrace => dtrace::read(input, options, notes),
        Format::MacSample => mac_sample::read(input, options, notes),
        Format::Xctrace => xctrace::read(input, options, notes),
        Format::Otlp => otlp::read(input, options, notes),
        Format::OtlpJson => otlp::read_json(input, options, notes),
        Format::Jfr => jfr::read(input, options, notes),
        Format::Csv => Err(Error::new(
            ErrorKind::Incompatible,
            format!("{} can be written but not read", format.title()),
        )),
    }
}

/// The format of the file that starts with `head`.
pub(crate) fn recognise(head: &[u8], head_is_all: bool) -> Result<Format> {
    if head.is_empty() {
        return Err(Error::new(ErrorKind::Truncated, "the file is empty"));
    }
    let found = match is_json(head) {
        true => recognise_json(head),
        false if head.starts_with(b"==") => recognise_other(&without_noise(head), head_is_all),
        false => recognise_other(head, head_is_all),
    };
    found.ok_or_else(|| {
        Error::new(
            ErrorKind::WrongFormat,
            "this is not a profile in any format that is known here; `flamelet convert --help` lists them",
        )
    })
}

/// `head` without valgrind's messages (`==123== …`), which stand above its output where both go the same way.
fn without_noise(head: &[u8]) -> Vec<u8> {
    let lines = head.split_inclusive(|&byte| byte == b'\n').filter(|line| !line.starts_with(b"=="));
    lines.flatten().copied().collect()
}

fn is_json(head: &[u8]) -> bool {
    let text = json::without_mark(head).trim_ascii_start();
    match text {
        [b'{', rest @ ..] => matches!(rest.trim_ascii_start().first(), Some(b'"')),
        [b'[', rest @ ..] => matches!(rest.trim_ascii_start().first(), Some(b'{')),
        _ => false,
    }
}

fn recognise_json(head: &[u8]) -> Option<Format> {
    let text = json::without_mark(head);
    if let Some(keys) = json::first_item_keys(text) {
        return keys.contains(&&b"ph"[..]).then_some(Format::TraceEvent);
    }
    let keys = json::top_keys(text)?;
    let has = |key: &str| keys.contains(&key.as_bytes());
    let mentions = |text: &str| memchr::memmem::find(head, text.as_bytes()).is_some();
    if has("traceEvents") {
        Some(Format::TraceEvent)
    } else if has("dhatFileVersion") {
        Some(Format::Dhat)
    } else if has("resourceProfiles") {
        Some(Format::OtlpJson)
    } else if has("profiles") && (has("shared") || has("$schema")) {
        Some(Format::Speedscope)
    } else if has("nodes") || (has("head") && (has("samples") || has("startTime") || has("endTime"))) {
        Some(Format::CpuProfile)
    } else if has("meta") && mentions("\"preprocessedProfileVersion\"") {
        Some(Format::Firefox)
    } else if has("threads") && (has("meta") || has("libs")) {
        Some(Format::Gecko)
    } else {
        None
    }
}

fn recognise_other(head: &[u8], head_is_all: bool) -> Option<Format> {
    // The surest first: magic numbers, then first lines, then what only looks alike.
    let known: [(Format, &dyn Fn() -> bool); 18] = [
        (Format::PerfData, &|| perf_data::recognise(head)),
        (Format::Jfr, &|| jfr::recognise(head)),
        (Format::Jemalloc, &|| jemalloc::recognise(head)),
        (Format::PprofLegacy, &|| legacy::recognise(head)),
        (Format::Xctrace, &|| xctrace::recognise(head)),
        (Format::Heaptrack, &|| heaptrack::recognise(head)),
        (Format::Massif, &|| massif::recognise(head)),
        (Format::Callgrind, &|| callgrind::recognise(head)),
        (Format::Cachegrind, &|| cachegrind::recognise(head)),
        (Format::MacSample, &|| mac_sample::recognise(head)),
        (Format::StraceSummary, &|| strace::recognise_summary(head)),
        (Format::Bpftrace, &|| bpftrace::recognise(head)),
        (Format::Otlp, &|| otlp::recognise(head, head_is_all)),
        (Format::Pprof, &|| is_binary(head) && pprof::looks_like_pprof(head)),
        (Format::PerfScript, &|| perf_script::recognise(head)),
        (Format::Strace, &|| strace::recognise(head)),
        (Format::Dtrace, &|| dtrace::recognise(head)),
        (Format::Folded, &|| !is_binary(head) && folded::recognise(head, head_is_all)),
    ];
    known.into_iter().find(|(_, recognises)| recognises()).map(|(format, _)| format)
}

/// Whether `head` holds bytes that no text has.
fn is_binary(head: &[u8]) -> bool {
    head.iter().any(|&byte| byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x1b | 0x0c))
}
