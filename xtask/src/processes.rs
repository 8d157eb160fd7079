//! The processes that a command has started.

use std::process::Command;

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
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name before it may contain anything, even parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
