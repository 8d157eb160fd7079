//! The file of a recording.

use crate::programs::{alone, quiet, rust};
use crate::seen::recorded;
use flamelet_profile::pprof;

#[test]
fn a_recording_survives_its_file() {
    let _one = alone();
    let recorded = recorded(quiet(&rust("deep", &[]), &["2", "100"]), |_| {});
    let profile = &recorded.profile;
    let mut bytes = Vec::new();
    pprof::write_gzip(profile, &mut bytes).expect("memory takes it");
    let read = pprof::read(&bytes, &pprof::Limits::default()).expect("what we wrote");
    assert_eq!(read.sample_count(), profile.sample_count());
    assert_eq!(read.total(0), profile.total(0));
    let (before, after) = (profile.timeline.as_ref(), read.timeline.as_ref());
    let events =
        |timeline: Option<&flamelet_profile::Timeline>| timeline.map(|t| (t.events.len(), t.span_nanos()));
    assert_eq!(events(after), events(before));
    let first = read.mappings().first().expect("the program");
    assert!(read.string(first.filename).contains("deep"), "{}", read.string(first.filename));
}
