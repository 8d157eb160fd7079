//! The processes that a command has started, and the time that they took.

use std::process::Command;
use std::time::Instant;

/// The time that something took: by the clock, and in CPU time of the programs that it started and waited for.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>4.0} s, {:>4.0} s of CPU time", self.seconds, self.cpu_seconds)
    }
}

/// Measures a part of the run.
pub(crate) struct Stopwatch {
    started: Instant,
    cpu_seconds: f64,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), cpu_seconds: of_own_children() }
    }

    pub(crate) fn cost(&self) -> Cost {
        let cpu_seconds = of_own_children() - self.cpu_seconds;
        Cost { seconds: self.started.elapsed().as_secs_f64(), cpu_seconds }
    }
}

/// Returns the CPU time of a child and of all that it has waited for. A child that has ended counts until we have waited for it.
pub(crate) fn cpu_seconds(id: u32) -> Option<f64> {
    Some(seconds(&fields(&id.to_string())?, OWN_AND_CHILDREN))
}

/// Returns the CPU time of all children that we have waited for, and of theirs.
fn of_own_children() -> f64 {
    fields("self").map_or(0.0, |fields| seconds(&fields, CHILDREN))
}

/// Where `/proc/ID/stat` has its times: proc(5) counts `utime` as the 14th field, and the name is the second.
const OWN_AND_CHILDREN: std::ops::Range<usize> = 11..15;
const CHILDREN: std::ops::Range<usize> = 13..15;

fn seconds(fields: &[String], range: std::ops::Range<usize>) -> f64 {
    /// Linux counts so in `/proc` on every machine.
    const TICKS_PER_SECOND: f64 = 100.0;
    let times = fields.get(range).into_iter().flatten();
    times.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND
}

/// Returns the fields of `/proc/ID/stat` that follow the name.
fn fields(id: &str) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name may contain anything, even parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// Kills everything that the process `id` started, so that it continues without them; or the process itself if it
/// started nothing. Returns the names of the killed processes.
pub(crate) fn kill_tree(id: u32) -> String {
    let mut running = descendants(id);
    if running.is_empty() {
        running.push(id);
    }
    let name = |id: &u32| std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
    let names: Vec<String> = running.iter().map(|id| format!("{} ({id})", name(id).trim_end())).collect();
    let ids = running.iter().map(ToString::to_string);
    // A process that has ended meanwhile is an error, which does not matter.
    let _ = Command::new("kill").arg("-KILL").args(ids).status();
    names.join(", ")
}

/// Returns its children, their children, and so on.
fn descendants(id: u32) -> Vec<u32> {
    let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = folders.filter_map(|folder| folder.file_name().to_str()?.parse().ok());
    let families: Vec<(u32, u32)> = ids.filter_map(|id| Some((id, parent(id)?))).collect();
    let mut found = vec![id];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(families.iter().filter(|family| family.1 == parent).map(|family| family.0));
        at += 1;
    }
    found.split_off(1)
}

fn parent(id: u32) -> Option<u32> {
    fields(&id.to_string())?.get(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_and_their_children_is_counted() {
        let stopwatch = Stopwatch::start();
        let count = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; :";
        while stopwatch.cost().cpu_seconds < 0.05 {
            Command::new("sh").args(["-c", count]).status().expect("a shell");
        }
    }

    #[test]
    fn children_of_children_are_found() {
        let mut shell = Command::new("sh").args(["-c", "sh -c 'sleep 600; :'; :"]).spawn().expect("a shell");
        let is_sleep = |id: &u32| {
            std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == "sleep\n")
        };
        while !descendants(shell.id()).iter().any(is_sleep) {
            std::thread::yield_now();
        }
        assert!(descendants(std::process::id()).contains(&shell.id()));
        assert!(kill_tree(shell.id()).contains("sleep ("));
        shell.wait().expect("our own child");
        assert!(descendants(shell.id()).is_empty());
    }
}
