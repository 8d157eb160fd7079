//! What the receivers of other systems take.

use flamelet_profile::protobuf::MessageWriter;
use flamelet_profile::{Profile, Result, pprof};

/// The path of Pyroscope's receiver.
pub const PYROSCOPE_PATH: &str = "/push.v1.PusherService/Push";

/// Returns the body of a `push.v1.PusherService/Push` (`application/proto`) with one profile, under these labels.
///
/// `name` is Pyroscope's name of the profile (`process_cpu`, `memory`, …), and `service` its `service_name`.
pub fn pyroscope(
    profile: &Profile,
    name: &str,
    service: &str,
    labels: &[(String, String)],
) -> Result<Vec<u8>> {
    let mut own = vec![("__name__", name), ("service_name", service)];
    // What is windows of time already must not be taken for totals since the start.
    own.push(("__delta__", "false"));
    series(profile, &own, labels)
}

/// Writes `series { labels, samples { raw_profile } }`.
fn series(profile: &Profile, own: &[(&str, &str)], labels: &[(String, String)]) -> Result<Vec<u8>> {
    let mut raw = Vec::new();
    pprof::write_gzip(profile, &mut raw)?;
    let labels = labels.iter().map(|(name, value)| (&**name, &**value));
    let mut all: Vec<(&str, &str)> = own.iter().copied().chain(labels).collect();
    all.sort_unstable();
    all.dedup_by_key(|(name, _)| *name);
    let mut message = MessageWriter::default();
    message.message(1, |series| {
        for (name, value) in &all {
            series.message(1, |label| {
                label.bytes(1, name.as_bytes());
                label.bytes(2, value.as_bytes());
            });
        }
        series.message(2, |sample| sample.bytes(1, &raw));
    });
    Ok(message.into_bytes())
}
