//! flamelet beside the programs of others: Pyroscope itself, its command `profilecli`, and the code of the receivers' own
//! protocols. `cargo xtask tools --peers` builds them; where they are not built, these tests are skipped, and say so.

mod pyroscope;
mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use flamelet_profile::Profile;

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
