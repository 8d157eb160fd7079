//! The folder: writes a window's files completely or not at all, and removes old ones.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::calendar;
use super::retention::{KeptWindow, Retention};

/// An unfinished file older than this was left behind by a process that has ended.
const STALE: Duration = Duration::from_secs(3600);

/// The clocks of working machines never differ by more than this.
const AHEAD: Duration = Duration::from_secs(86_400);

/// The two files of a window: how their names begin and end.
const PPROF: (&str, &str) = ("profile", ".pb.gz");
const PICTURE: (&str, &str) = ("flamegraph", ".svg");
const UNFINISHED: &str = ".unfinished";

/// A window, ready to be written.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) start: SystemTime,
    pub(super) pprof: Vec<u8>,
    pub(super) picture: Vec<u8>,
}

/// The folder of one service. Files of other services in it are left alone.
#[derive(Debug)]
pub(super) struct FilesFolder {
    path: PathBuf,
    /// The service's name, made fit for a file name.
    service: String,
    retention: Retention,
}

impl FilesFolder {
    pub(super) fn new(path: PathBuf, service: &str, retention: Retention) -> Self {
        Self { path, service: file_name(service), retention }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that files can be written, by creating one and removing it again. Creates the folder if it does not
    /// exist.
    pub(super) fn try_out(&self) -> io::Result<()> {
        fs::create_dir_all(&self.path)?;
        let unfinished = self.unfinished(&self.name(PPROF, "try"));
        let _ = fs::remove_file(&unfinished);
        File::create_new(&unfinished)?;
        fs::remove_file(&unfinished)
    }

    /// Writes both files of a window or neither, and removes windows that are now too old. Creates the folder if it
    /// does not exist.
    pub(super) fn write(&self, window: &Window, now: SystemTime) -> io::Result<()> {
        fs::create_dir_all(&self.path)?;
        // Remove old windows first: this may free space on a full disk.
        self.remove_old(now)?;
        let stamp = self.free_stamp(window.start);
        let profile = self.name(PPROF, &stamp);
        self.write_file(&profile, &window.pprof)?;
        if let Err(error) = self.write_file(&self.name(PICTURE, &stamp), &window.picture) {
            // The whole window is retried, and a second copy of its profile would count twice.
            let _ = fs::remove_file(self.path.join(profile));
            return Err(error);
        }
        // The window is written, even if an old one cannot be removed.
        let _ = self.remove_old(now);
        Ok(())
    }

    fn name(&self, (start, end): (&str, &str), stamp: &str) -> String {
        format!("{start}-{}-{stamp}{end}", self.service)
    }

    /// Returns the window's timestamp, or a slightly later one if another process has taken that name.
    fn free_stamp(&self, start: SystemTime) -> String {
        let stamps = (0..1000).map(|later| calendar::stamp(start + Duration::from_millis(later)));
        let mut free = stamps.filter(|stamp| !self.path.join(self.name(PPROF, stamp)).exists());
        free.next().unwrap_or_else(|| calendar::stamp(start))
    }

    /// Writes a file under a temporary name and renames it, so that a file with its final name is always complete.
    fn write_file(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let unfinished = self.unfinished(name);
        // Left by a process with the same id, which is common in containers; or a link that another user put there.
        let _ = fs::remove_file(&unfinished);
        let written = File::create_new(&unfinished)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&unfinished, self.path.join(name)));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    /// Returns the temporary name of the file `name` while it is being written.
    fn unfinished(&self, name: &str) -> PathBuf {
        self.path.join(format!(".{name}.{}{UNFINISHED}", std::process::id()))
    }

    fn remove_old(&self, now: SystemTime) -> io::Result<()> {
        let mut windows: BTreeMap<SystemTime, (u64, Vec<PathBuf>)> = BTreeMap::new();
        for entry in fs::read_dir(&self.path)?.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let Ok(metadata) = entry.metadata() else { continue };
            if let Some(time) = self.window_of(name) {
                let window = windows.entry(time).or_default();
                window.0 += metadata.len();
                window.1.push(entry.path());
            } else if self.is_unfinished(name) && is_older(&metadata, now, STALE) {
                let _ = fs::remove_file(entry.path());
            }
        }
        // Windows dated in the future, by a clock that ran ahead, have no age. They are the first to go when space is
        // short; otherwise they would count as the newest forever.
        let ahead = windows.split_off(&(now + AHEAD));
        let mut windows: Vec<(KeptWindow, Vec<PathBuf>)> = newest_first(windows);
        let kept = |windows: &[(KeptWindow, Vec<PathBuf>)]| {
            windows.iter().map(|it| it.0.clone()).collect::<Vec<_>>()
        };
        let too_old = windows.split_off(self.retention.young(&kept(&windows), now).max(1).min(windows.len()));
        windows.extend(newest_first(ahead));
        let beyond_room = windows.split_off(self.retention.room(&kept(&windows)));
        for path in too_old.iter().chain(&beyond_room).flat_map(|(_, paths)| paths) {
            // A file that cannot be removed must not keep new ones from being written.
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// Returns the start of the window that a file belongs to, if it is one of this service's.
    fn window_of(&self, name: &str) -> Option<SystemTime> {
        let rest = [PPROF, PICTURE]
            .into_iter()
            .find_map(|(start, end)| name.strip_prefix(start)?.strip_prefix('-')?.strip_suffix(end))?;
        calendar::parse(rest.strip_prefix(&self.service)?.strip_prefix('-')?)
    }

    fn is_unfinished(&self, name: &str) -> bool {
        let is_ours = |(start, _)| name.starts_with(&format!(".{start}-{}-", self.service));
        name.ends_with(UNFINISHED) && [PPROF, PICTURE].into_iter().any(is_ours)
    }
}

fn newest_first(windows: BTreeMap<SystemTime, (u64, Vec<PathBuf>)>) -> Vec<(KeptWindow, Vec<PathBuf>)> {
    let kept = |(time, (bytes, paths))| (KeptWindow { time, bytes }, paths);
    windows.into_iter().rev().map(kept).collect()
}

fn is_older(metadata: &fs::Metadata, now: SystemTime, age: Duration) -> bool {
    metadata.modified().is_ok_and(|time| now.duration_since(time).is_ok_and(|passed| passed > age))
}

/// Returns `name` in lower case, with a dash for every character that does not belong in a file name.
fn file_name(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars().take(64) {
        match c {
            _ if c.is_ascii_alphanumeric() || c == '_' || c == '.' => out.push(c.to_ascii_lowercase()),
            _ if out.ends_with('-') || out.is_empty() => {}
            _ => out.push('-'),
        }
    }
    let name = out.trim_matches(['-', '.']);
    if name.is_empty() { "service".into() } else { name.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("there");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("readable").file_name().into_string().expect("text")).collect();
        names.sort();
        names
    }

    fn window(seconds: u64) -> Window {
        let start = UNIX_EPOCH + Duration::from_secs(seconds);
        Window { start, pprof: vec![1; 100], picture: vec![2; 100] }
    }

    #[test]
    fn names_that_fit_into_file_names() {
        assert_eq!(file_name("Indexer Service"), "indexer-service");
        assert_eq!(file_name("../../etc/passwd"), "etc-passwd");
        assert_eq!(file_name("a//b"), "a-b");
        assert_eq!(file_name("äöü"), "service");
        assert_eq!(file_name(""), "service");
    }

    #[test]
    fn only_own_windows_are_counted_and_removed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let others = [
            "notes.txt",
            "profile-other-20200101T000000.000Z.pb.gz",
            "profile-a-b-20200101T000000.000Z.pb.gz",
            "profile-a-yesterday.pb.gz",
        ];
        for other in others {
            fs::write(folder.path().join(other), "x").expect("written");
        }
        let retention = Retention { windows: 2, age: Duration::MAX, bytes: u64::MAX, ..Retention::default() };
        let own = FilesFolder::new(folder.path().into(), "a", retention);
        for second in [10, 20, 30, 30] {
            own.write(&window(second), at(40)).expect("written");
        }
        let mut expected: Vec<String> = others.map(String::from).into();
        for stamp in ["19700101T000030.000Z", "19700101T000030.001Z"] {
            expected.push(format!("profile-a-{stamp}.pb.gz"));
            expected.push(format!("flamegraph-a-{stamp}.svg"));
        }
        expected.sort();
        assert_eq!(names(folder.path()), expected);
    }

    #[test]
    fn windows_of_a_clock_that_was_ahead_go_first() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let own =
            FilesFolder::new(folder.path().into(), "a", Retention { windows: 2, ..Retention::default() });
        let now = at(THEN);
        let later = [30, 20].map(|days| now + Duration::from_secs(days * DAY));
        for start in later.into_iter().chain([now - Duration::from_secs(2), now]) {
            own.write(&Window { start, ..window(0) }, now).expect("written");
            let name = own.name(PPROF, &calendar::stamp(start));
            assert!(names(folder.path()).contains(&name), "{name} was just written");
        }
        let stamps = [now - Duration::from_secs(2), now].map(calendar::stamp);
        let left = names(folder.path());
        assert_eq!(left.len(), 4, "{left:?}");
        assert!(stamps.iter().all(|stamp| left.contains(&own.name(PPROF, stamp))), "{left:?}");
    }

    const DAY: u64 = 86_400;
    /// A moment when the clock was right.
    const THEN: u64 = 20_000 * DAY;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// Creates windows that began at these seconds.
    fn lay(own: &FilesFolder, starts: impl IntoIterator<Item = u64>) {
        for start in starts {
            let name = own.name(PPROF, &calendar::stamp(at(start)));
            fs::write(own.path().join(name), "x").expect("written");
        }
    }

    /// Returns the starts of the windows that are left.
    fn left(own: &FilesFolder) -> Vec<u64> {
        let starts = names(own.path()).into_iter().filter_map(|name| own.window_of(&name));
        starts.map(|start| start.duration_since(UNIX_EPOCH).expect("later").as_secs()).collect()
    }

    /// A folder that keeps windows for a week, with the hours of the last six days in it.
    fn with_six_days() -> (tempfile::TempDir, FilesFolder, Vec<u64>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let own = FilesFolder::new(folder.path().into(), "a", Retention::default());
        let starts: Vec<u64> = (0..6 * 24).map(|hour| THEN - 6 * DAY + hour * 3600).collect();
        lay(&own, starts.iter().copied());
        (folder, own, starts)
    }

    #[test]
    fn a_clock_that_jumps_forward_removes_nothing() {
        for jump in [8 * DAY, 30 * DAY, 20 * 365 * DAY] {
            let (_folder, own, mut starts) = with_six_days();
            own.remove_old(at(THEN + jump)).expect("listed");
            assert_eq!(left(&own), starts, "{jump}");
            // Also with windows from after the jump, and in another process, which does not know about it.
            let after: Vec<u64> = (0..5).map(|minute| THEN + jump + 120 * minute).collect();
            lay(&own, after.iter().copied());
            starts.extend(&after);
            own.remove_old(at(THEN + jump + 600)).expect("listed");
            assert_eq!(left(&own), starts, "{jump}");
            // And once the clock is set right again.
            let back: Vec<u64> = (0..5).map(|minute| THEN + 1200 + 120 * minute).collect();
            lay(&own, back.iter().copied());
            starts.extend(&back);
            starts.sort_unstable();
            own.remove_old(at(THEN + 1800)).expect("listed");
            assert_eq!(left(&own), starts, "{jump}");
        }
    }

    #[test]
    fn a_clock_that_jumps_back_removes_nothing() {
        for now in [0, 3600, THEN - 3 * DAY, THEN - 30 * DAY] {
            let (_folder, own, mut starts) = with_six_days();
            lay(&own, [now + 60]);
            starts.push(now + 60);
            own.remove_old(at(now + 120)).expect("listed");
            starts.sort_unstable();
            starts.dedup();
            assert_eq!(left(&own), starts, "{now}");
        }
    }

    #[test]
    fn after_a_month_off_what_was_last_is_still_there() {
        let (_folder, own, starts) = with_six_days();
        own.remove_old(at(THEN + 30 * DAY)).expect("listed");
        assert_eq!(left(&own), starts);
        // As the service keeps running, the old windows are removed, oldest first.
        let mut now = THEN + 30 * DAY;
        let mut kept = starts.len();
        for _ in 0..8 * 24 {
            lay(&own, [now]);
            own.remove_old(at(now)).expect("listed");
            let old = left(&own).iter().filter(|&&start| start < THEN).count();
            assert!(old <= kept && kept - old <= 1, "{old} of {kept}");
            kept = old;
            now += 3600;
        }
        assert_eq!(kept, 0);
        assert_eq!(left(&own).len(), 7 * 24 + 1, "a week of them");
    }

    #[test]
    fn while_the_clock_runs_well_windows_go_when_they_are_a_week_old() {
        let (_folder, own, _) = with_six_days();
        for hour in 0..72 {
            let now = THEN + hour * 3600;
            lay(&own, [now]);
            own.remove_old(at(now)).expect("listed");
            assert!(left(&own).iter().all(|&start| now - start <= 7 * DAY), "{hour}");
            assert_eq!(left(&own).len(), (6 * 24 + 1 + hour as usize).min(7 * 24 + 1), "{hour}");
        }
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind_however_often_it_is_tried() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let own = FilesFolder::new(folder.path().into(), "a", Retention::default());
        // A folder where the file should be: the rename fails after the bytes were written.
        let taken = own.name(PICTURE, &calendar::stamp(UNIX_EPOCH));
        fs::create_dir(folder.path().join(&taken)).expect("made");
        for _ in 0..2 {
            assert!(own.write(&window(0), at(10)).is_err());
            assert_eq!(names(folder.path()), [taken.as_str()]);
        }
    }
}
