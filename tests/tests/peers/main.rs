//! flamelet beside the programs of others: Pyroscope itself, its command `profilecli`, Parca itself, OpenTelemetry's collector, and
//! the code of the receivers' own protocols. `cargo xtask tools --peers` builds them; where they are not built, these tests are skipped, and say so.

mod otlp;
mod parca;
mod pyroscope;
mod querier;
mod server;
mod wire;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use flamelet_profile::{Limits, Profile, pprof};

/// How long to wait for a peer: minutes, for machines that are busy.
const DEADLINE: Duration = Duration::from_secs(180);

/// Returns a program that `cargo xtask tools --peers` builds, or says that the test is skipped.
fn peer(name: &str) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let program = home.join(".cache/flamelet/peers/bin").join(name);
    if program.is_file() {
        return Some(program);
    }
    flamelet_test_support::skip!("the peers are not built (`cargo xtask tools --peers` builds them)");
    None
}

/// Returns the values of a column by the names of the frames, from the root.
fn stacks(profile: &Profile, column: usize) -> BTreeMap<String, i64> {
    let mut stacks = BTreeMap::new();
    for sample in profile.samples() {
        let mut names: Vec<&str> = Vec::new();
        for &location in profile.stack(sample.stack).iter().rev() {
            let lines = profile.lines(location).iter().rev();
            names
                .extend(lines.filter_map(|line| Some(profile.string(profile.function(line.function?).name))));
        }
        *stacks.entry(names.join(";")).or_default() += sample.values[column];
    }
    stacks.retain(|_, value| *value != 0);
    stacks
}

fn read(path: &Path) -> Profile {
    pprof::read(&std::fs::read(path).expect("a file"), &Limits::SERVICE).expect("pprof")
}

/// Writes a committed profile with the present time: Pyroscope refuses what is older than an hour.
fn as_of_now(name: &str, folder: &Path) -> PathBuf {
    let mut profile = read(&flamelet_tests::profiles::committed(name));
    profile.header.time_nanos = now();
    let path = folder.join(format!("{name}.pb.gz"));
    pprof::write_gzip(&profile, std::fs::File::create(&path).expect("created")).expect("written");
    path
}

/// Returns the time in nanoseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_nanos()).expect("before 2262")
}
