//! Where the windows come from: a made-up service, or one that ran.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use flamelet_profile::{Budget, Limits, LocationId, NamedLine, Profile, pprof};
use flamelet_store::{Follower, Position, Query, Reader};

use crate::{START, WINDOW};

/// The file with the names of all code in prepared windows.
const NAMES: &str = "names.pb";

/// Writes at most this many windows of a history into files, and their names into another, so that the process that measures
/// holds neither its tables nor all windows. Returns how many there are, and how many stacks they have together.
pub(crate) fn prepare(recorded: &Path, spool: &Path, most: u64) -> (u64, usize) {
    fs::create_dir_all(spool).expect("a folder");
    let reader = Reader::open(recorded).expect("a history");
    let all = Query::new("cpu", i64::MIN, i64::MAX);
    let mut named = reader.profile(&all, &Budget::new(Limits::NONE)).expect("read").0.expect("windows");
    reader.add_names(&mut named, &Budget::new(Limits::NONE)).expect("read");
    fs::write(spool.join(NAMES), pprof::encode(&named)).expect("written");
    let (mut follower, mut position) = (Follower::new(reader), Position::default());
    let (mut windows, mut stacks) = (0, 0);
    while windows < most
        && let Some(next) = follower.next_window(position, &Budget::new(Limits::SERVICE)).expect("read")
    {
        position = next.position;
        if next.kind == "cpu" {
            stacks += next.profile.sample_count();
            fs::write(file(spool, windows), pprof::encode(&next.profile)).expect("written");
            windows += 1;
        }
    }
    (windows, stacks)
}

fn file(spool: &Path, number: u64) -> PathBuf {
    spool.join(format!("{number}.pb"))
}

fn read(path: &Path) -> Profile {
    pprof::read(&fs::read(path).expect("a file"), &Limits::NONE).expect("pprof")
}

/// The windows of a day.
pub(crate) enum Windows {
    MadeUp,
    /// A day that is longer than what was recorded repeats it.
    Prepared {
        spool: PathBuf,
        recorded: u64,
        names: Names,
    },
}

impl Windows {
    pub(crate) fn prepared(spool: PathBuf) -> Self {
        let names = Names::of(read(&spool.join(NAMES)));
        let recorded = (0..).take_while(|&number| file(&spool, number).exists()).count() as u64;
        assert!(recorded > 0, "no windows in {}: run `prepare` first", spool.display());
        Self::Prepared { spool, recorded, names }
    }

    /// Returns a window, which lasts ten seconds.
    pub(crate) fn window(&self, number: u64) -> Profile {
        let begin = START + number as i64 * WINDOW;
        match self {
            Self::MadeUp => bench_windows::window(number, begin, WINDOW),
            Self::Prepared { spool, recorded, .. } => {
                let mut window = read(&file(spool, number % recorded));
                (window.header.time_nanos, window.header.duration_nanos) = (begin, WINDOW);
                window
            }
        }
    }

    /// Fills in names, as a service does with its symbol table.
    pub(crate) fn add_names(&self, unnamed: &mut Profile) {
        unnamed.relabel_locations(|profile, id| {
            let address = profile.location(id).address;
            match self {
                Self::MadeUp => Some(bench_windows::names(address)),
                Self::Prepared { names, .. } => names.at(address),
            }
        });
    }
}

/// The names of code by its address in the process that ran.
pub(crate) struct Names {
    profile: Profile,
    locations: HashMap<u64, LocationId>,
}

impl Names {
    fn of(profile: Profile) -> Self {
        let ids = (0..profile.locations().len()).map(LocationId::from_index);
        let locations = ids.map(|id| (profile.location(id).address, id)).collect();
        Self { profile, locations }
    }

    fn at(&self, address: u64) -> Option<Vec<NamedLine>> {
        let lines = self.profile.lines(*self.locations.get(&address)?).iter();
        let text = |id| self.profile.string(id).to_owned();
        let named = lines.filter_map(|line| {
            let function = self.profile.function(line.function?);
            Some(NamedLine {
                name: text(function.name),
                system_name: text(function.system_name),
                filename: text(function.filename),
                start_line: function.start_line,
                line: line.line,
                column: line.column,
            })
        });
        Some(named.collect())
    }
}
