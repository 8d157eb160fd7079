//! A writer that is killed at any point has lost nothing that it acknowledged.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flamelet_store::{Options, Writer};

use crate::support::{Random, facts, read_window, window};

const FOLDER: &str = "FLAMELET_STORE_TEST_FOLDER";
const FIRST: &str = "FLAMELET_STORE_TEST_FIRST";
/// Windows of one child; it is killed before it has written them all.
const MOST: u64 = 1_000_000;

/// Not a test of its own: the process that the test below kills.
#[test]
fn child_that_writes() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let first: u64 = std::env::var(FIRST).expect("set").parse().expect("a number");
    let mut options = Options::default();
    // Segments of a few windows, so that many children are killed while one ends and the next begins.
    options.segment_span = Duration::from_secs(60);
    options.bytes = u64::MAX;
    let mut writer = Writer::open(Path::new(&folder), options).expect("opened");
    for number in first..first + MOST {
        writer.append("cpu", &window(number)).expect("written");
        println!("ack {number}");
    }
}

fn start(folder: &Path, first: u64) -> Child {
    Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "kill::child_that_writes", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started")
}

/// Lets a child write until it has acknowledged `wanted` windows and a moment longer, kills it, and returns all that
/// it acknowledged.
fn acknowledged_by_killed(folder: &Path, first: u64, wanted: u64, moment: Duration) -> Vec<u64> {
    let mut child = start(folder, first);
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let number = |line: std::io::Result<String>| line.ok()?.strip_prefix("ack ")?.parse::<u64>().ok();
    let mut acknowledged: Vec<u64> = lines.by_ref().filter_map(number).take(wanted as usize).collect();
    std::thread::sleep(moment);
    child.kill().expect("killed");
    acknowledged.extend(lines.filter_map(number));
    child.wait().expect("ended");
    acknowledged
}

#[test]
fn a_killed_writer_has_lost_nothing_that_it_acknowledged() {
    let kills: u64 =
        std::env::var("FLAMELET_STORE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(60);
    let mut random = Random(kills);
    let mut folder = tempfile::tempdir().expect("a folder");
    let (mut first, mut all) = (0, 0);
    for kill in 0..kills {
        if kill % 10 == 0 {
            (folder, first) = (tempfile::tempdir().expect("a folder"), 0);
        }
        let (wanted, moment) = (random.below(30), Duration::from_micros(random.below(3000)));
        let acknowledged = acknowledged_by_killed(folder.path(), first, wanted, moment);
        assert!(acknowledged.len() as u64 >= wanted);
        for &number in &acknowledged {
            assert_eq!(read_window(folder.path(), number), Some(facts(&window(number))), "window {number}");
        }
        // One more may have been written when the child was killed, and is right or not there.
        let next = first + acknowledged.len() as u64;
        let found = read_window(folder.path(), next);
        assert!(found.is_none_or(|found| found == facts(&window(next))), "window {next}");
        (first, all) = (next + 1, all + acknowledged.len());
    }
    assert!(all as u64 > kills, "{all}");
    // The next writer names what they left behind.
    drop(Writer::open(folder.path(), Options::default()).expect("opened"));
    let names = std::fs::read_dir(folder.path()).expect("listed");
    let open = names
        .filter(|entry| entry.as_ref().is_ok_and(|it| it.path().extension().is_some_and(|it| it == "open")));
    assert_eq!(open.count(), 0);
}
