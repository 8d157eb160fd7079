//! Any bytes as what a sender sends to `flamelet collect`, and as what a receiver answers to a push. The first byte says
//! which message it is.

#![no_main]

use flamelet_profile::{Budget, Limits};
use flamelet_remote::push::{Answer, Protocol, Verdict, judge};
use flamelet_remote::querier::Codec;
use flamelet_remote::receive::{Ingest, PushedSeries, grpc, gunzip, otlp, parca, push};
use flamelet_remote::symbols;
use libfuzzer_sys::fuzz_target;

const MOST: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, body)) = bytes.split_first() else { return };
    let codec = if kind & 1 == 0 { Codec::Proto } else { Codec::Json };
    let budget = Budget::new(Limits::of_memory(16 << 20));
    match kind >> 1 {
        0 => check(push(codec, body, &budget), body),
        1 => check(parca::write_raw(codec, body, &budget), body),
        2 => export(codec, body),
        3 => frames(body),
        4 => ingest(body),
        5 => answers(body),
        _ => {}
    }
});

/// What is kept is no longer than what was sent: there is no way to name something twice.
fn check(read: flamelet_profile::Result<Vec<PushedSeries>>, body: &[u8]) {
    let Ok(all) = read else { return };
    let kept = |series: &PushedSeries| -> usize {
        let labels = series.labels.iter().map(|(name, value)| name.len() + value.len());
        let profiles = series.profiles.iter().map(|profile| profile.id.len() + profile.raw.len());
        labels.chain(profiles).sum()
    };
    assert!(all.iter().map(kept).sum::<usize>() <= body.len());
    for series in &all {
        let _ = parca::service_of(series);
    }
}

/// An OTLP export, whose resources name services.
fn export(codec: Codec, body: &[u8]) {
    let mut options = flamelet_formats::FormatOptions::default();
    options.limits = Limits::of_memory(16 << 20);
    let read = flamelet_formats::read_otlp(body, codec == Codec::Json, &options);
    for resource in read.unwrap_or_default() {
        assert!(!otlp::labels(&resource.attributes).0.is_empty());
    }
}

/// A unary call of gRPC, and a body that is packed.
fn frames(body: &[u8]) {
    for encoding in ["", "gzip"] {
        if let Ok(message) = grpc::message(body, encoding, MOST) {
            assert!(message.len() <= MOST);
        }
    }
    if let Ok(unpacked) = gunzip(body, MOST) {
        assert!(unpacked.len() <= MOST);
    }
}

/// The parameters of `/ingest`.
fn ingest(body: &[u8]) {
    let text = String::from_utf8_lossy(body);
    let pairs = text.split('&').filter_map(|part| part.split_once('='));
    let parameters: Vec<_> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    if let Ok(ingest) = Ingest::read(&parameters, 1_700_000_000_000_000_000) {
        assert!(ingest.sample_rate > 0);
    }
}

/// What a receiver answers: one line that a terminal does not obey.
fn answers(body: &[u8]) {
    let (status, body) = body.split_first_chunk().unwrap_or((&[0; 2], body));
    let status = u16::from_le_bytes(*status);
    for protocol in [Protocol::Pyroscope, Protocol::Parca, Protocol::Otlp] {
        let answer = Answer { status, body: body.to_vec(), ..Answer::default() };
        if let Verdict::Later(why, _) | Verdict::TooOld(why) | Verdict::Refused(why) =
            judge(protocol, &answer)
        {
            assert!(!why.contains(char::is_control), "{why:?}");
        }
        let _ = symbols::wants(protocol, body);
    }
    let _ = symbols::begun(body);
}
