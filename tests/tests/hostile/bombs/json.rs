//! JSON: trees and tables whose rows refer to each other, and lists of empty lists.

use super::{Bomb, Maker, listed};

pub(super) const ALL: &[Maker] = &[
    cpuprofile_deep,
    cpuprofile_samples,
    cpuprofile_nested,
    cpuprofile_keys,
    speedscope_deep,
    speedscope_empty,
    speedscope_unmatched,
    firefox_deep,
    firefox_times,
    gecko_deep,
    trace_deep,
    trace_tracks,
    trace_arguments,
    trace_long_name,
    speedscope_escapes,
    dhat_empty,
    otlp_json_empty,
];

const EMPTY: usize = 2 << 20;

fn chain(depth: usize) -> String {
    listed(depth, |at| {
        format!(r#"{{"id":{at},"callFrame":{{"functionName":"f{}"}},"children":[{}]}}"#, at % 7, at + 1)
    })
}

/// Each node of a chain becomes a stack of its own.
fn cpuprofile_deep() -> Bomb {
    let samples = listed(8000, |at| at.to_string());
    Bomb::new("deep.cpuprofile", format!(r#"{{"nodes":[{}],"samples":[{samples}]}}"#, chain(8000)))
}

/// Many samples of the same deep node.
fn cpuprofile_samples() -> Bomb {
    let samples = listed(300_000, |_| "3999".into());
    Bomb::packed("samples.cpuprofile", format!(r#"{{"nodes":[{}],"samples":[{samples}]}}"#, chain(4000)))
}

/// The old form, with nested nodes.
fn cpuprofile_nested() -> Bomb {
    let children = listed(EMPTY, |_| r#"{"id":2}"#.into());
    Bomb::packed(
        "nested.cpuprofile",
        format!(r#"{{"head":{{"id":1,"children":[{children}]}},"startTime":0}}"#),
    )
}

fn cpuprofile_keys() -> Bomb {
    Bomb::packed("keys.cpuprofile", format!("{{{},\"nodes\":[]}}", listed(EMPTY, |_| r#""":0"#.into())))
}

fn speedscope(profile: &str) -> String {
    format!(
        r#"{{"$schema":"x","shared":{{"frames":[{{"name":"f"}},{{"name":"g"}}]}},"profiles":[{profile}]}}"#
    )
}

/// Frames that open and do not close: each moment has a deeper stack.
fn speedscope_deep() -> Bomb {
    let events = listed(8000, |at| format!(r#"{{"type":"O","frame":0,"at":{at}}}"#));
    let profile = format!(r#"{{"type":"evented","unit":"seconds","endValue":9000,"events":[{events}]}}"#);
    Bomb::new("deep.speedscope.json", speedscope(&profile))
}

fn speedscope_empty() -> Bomb {
    let samples = listed(2 * EMPTY, |_| "[]".into());
    Bomb::packed(
        "empty.speedscope.json",
        speedscope(&format!(r#"{{"type":"sampled","samples":[{samples}]}}"#)),
    )
}

/// Ends of a frame that is not open, each searched for among all open frames.
pub(super) fn speedscope_unmatched() -> Bomb {
    let open = listed(100_000, |_| r#"{"type":"O","frame":0,"at":0}"#.into());
    let close = listed(100_000, |_| r#"{"type":"C","frame":1,"at":0}"#.into());
    let profile = format!(r#"{{"type":"evented","unit":"seconds","events":[{open},{close}]}}"#);
    Bomb::packed("unmatched.speedscope.json", speedscope(&profile))
}

/// A table in which each stack is the previous one plus a frame.
fn firefox_deep() -> Bomb {
    const DEPTH: usize = 8000;
    let frames = listed(DEPTH, |_| "0".into());
    let prefixes = listed(DEPTH, |at| if at == 0 { "null".into() } else { (at - 1).to_string() });
    let samples = listed(DEPTH, |at| at.to_string());
    let file = format!(
        r#"{{"meta":{{"preprocessedProfileVersion":1,"interval":1}},"threads":[{{"stringArray":["f"],
        "funcTable":{{"name":[0]}},"frameTable":{{"func":[0]}},"stackTable":{{"frame":[{frames}],"prefix":[{prefixes}]}},
        "samples":{{"stack":[{samples}]}}}}]}}"#
    );
    Bomb::new("deep.firefox.json", file)
}

/// Times without samples.
fn firefox_times() -> Bomb {
    let times = listed(4 * EMPTY, |_| "1".into());
    let file = format!(
        r#"{{"meta":{{"preprocessedProfileVersion":1}},"threads":[{{"samples":{{"stack":[],"time":[{times}]}}}}]}}"#
    );
    Bomb::packed("times.firefox.json", file)
}

fn gecko_deep() -> Bomb {
    const DEPTH: usize = 8000;
    let stacks = listed(DEPTH, |at| if at == 0 { "[null,0]".into() } else { format!("[{},0]", at - 1) });
    let samples = listed(DEPTH, |at| format!("[{at}]"));
    let file = format!(
        r#"{{"meta":{{"interval":1}},"threads":[{{"samples":{{"schema":{{"stack":0}},"data":[{samples}]}},
        "stackTable":{{"schema":{{"prefix":0,"frame":1}},"data":[{stacks}]}},
        "frameTable":{{"schema":{{"location":0}},"data":[[0]]}},"stringTable":["f"]}}]}}"#
    );
    Bomb::new("deep.gecko.json", file)
}

/// Spans, each of which contains all later ones.
fn trace_deep() -> Bomb {
    const DEPTH: usize = 8000;
    let spans = listed(DEPTH, |at| {
        format!(r#"{{"ph":"X","name":"f","tid":1,"ts":{at},"dur":{}}}"#, 2 * (DEPTH - at))
    });
    Bomb::new("deep.trace.json", format!("[{spans}]"))
}

/// Each event on a track of its own.
fn trace_tracks() -> Bomb {
    let spans = listed(300_000, |at| format!(r#"{{"ph":"b","id":"{at}"}}"#));
    Bomb::packed("tracks.trace.json", format!("[{spans}]"))
}

/// One event whose arguments are maps in maps.
fn trace_arguments() -> Bomb {
    let arguments = listed(EMPTY, |_| r#"{"":0}"#.into());
    Bomb::packed("arguments.trace.json", format!(r#"[{{"ph":"X","args":[{arguments}]}}]"#))
}

/// An endless name, which the parser assembles before the reader sees it.
fn trace_long_name() -> Bomb {
    Bomb::packed_units("name.trace.json", br#"[{"ph":"X","name":""#, b"aaaaaaaa", 32 << 20)
}

/// A string of nothing but escapes.
fn speedscope_escapes() -> Bomb {
    let head = br#"{"$schema":"x","profiles":[],"shared":{"frames":[]},"exporter":""#;
    Bomb::packed_units("escapes.speedscope.json", head, br"\u00e9", 8 << 20)
}

fn dhat_empty() -> Bomb {
    let points = listed(EMPTY, |_| r#"{"fs":[]}"#.into());
    Bomb::packed("empty.dhat.json", format!(r#"{{"dhatFileVersion":2,"pps":[{points}],"ftbl":[]}}"#))
}

fn otlp_json_empty() -> Bomb {
    let empty = listed(4 * EMPTY, |_| "{}".into());
    Bomb::packed(
        "empty.otlp.json",
        format!(r#"{{"dictionary":{{"locationTable":[{empty}]}},"resourceProfiles":[]}}"#),
    )
}
