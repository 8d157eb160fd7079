//! The allocators under test, and how the profiling in each is started.

use std::alloc::{GlobalAlloc, System};

use flamelet_capture::heap::jemalloc::Jemalloc as JemallocHooks;
use flamelet_capture::heap::{Alloc, Options};
use mimalloc::MiMalloc;
use pprof_alloc::PprofAlloc;
use tikv_jemallocator::Jemalloc;

/// Which allocator, with which profiler.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    System,
    /// Profiling as the environment says.
    Jemalloc,
    /// jemalloc as the environment says, read through jemalloc_pprof.
    JemallocPprof,
    Mimalloc,
    PprofAlloc,
    Dhat,
    FlameletSystem,
    FlameletJemalloc,
    /// jemalloc's own sampling, feeding flamelet's tables.
    FlameletJemallocHooks,
    FlameletMimalloc,
}

pub(crate) const NAMES: [(&str, Mode); 10] = [
    ("system", Mode::System),
    ("jemalloc", Mode::Jemalloc),
    ("jemalloc-pprof", Mode::JemallocPprof),
    ("mimalloc", Mode::Mimalloc),
    ("pprof-alloc", Mode::PprofAlloc),
    ("dhat", Mode::Dhat),
    ("flamelet-system", Mode::FlameletSystem),
    ("flamelet-jemalloc", Mode::FlameletJemalloc),
    ("flamelet-jemalloc-hooks", Mode::FlameletJemallocHooks),
    ("flamelet-mimalloc", Mode::FlameletMimalloc),
];

static SYSTEM: System = System;
static JEMALLOC: Jemalloc = Jemalloc;
static MIMALLOC: MiMalloc = MiMalloc;
static PPROF_ALLOC: PprofAlloc = PprofAlloc::new().with_pprof_sample_rate_from_env(512 << 10);
static DHAT: dhat::Alloc = dhat::Alloc;
static FLAMELET_SYSTEM: Alloc = Alloc::system();
static FLAMELET_JEMALLOC: Alloc<Jemalloc> = Alloc::new(Jemalloc);
static FLAMELET_MIMALLOC: Alloc<MiMalloc> = Alloc::new(MiMalloc);

/// Work that is compiled once for each allocator, so that calls to it are as direct as a program's own.
pub(crate) trait Work {
    type Output;
    /// `plain` is the same allocator without the profiler, where that can be had in the same process.
    fn run<A: GlobalAlloc + Sync, P: GlobalAlloc + Sync>(
        self,
        allocator: &'static A,
        plain: Option<&'static P>,
    ) -> Self::Output;
}

impl Mode {
    pub(crate) fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }

    /// Starts what has to be started in the program; dhat's ends with what is returned.
    pub(crate) fn start(self, mean: u64) -> Option<dhat::Profiler> {
        let options = Options::new().mean(mean);
        match self {
            Self::FlameletSystem | Self::FlameletJemalloc | Self::FlameletMimalloc => {
                options.start().expect("flamelet starts");
            }
            Self::FlameletJemallocHooks => {
                JemallocHooks::linked().start(&options).expect("jemalloc is started with prof:true");
            }
            Self::Dhat => return Some(dhat::Profiler::builder().testing().build()),
            Self::System | Self::Jemalloc | Self::JemallocPprof | Self::Mimalloc | Self::PprofAlloc => {}
        }
        None
    }

    /// Does `work` with this mode's allocator.
    pub(crate) fn with<W: Work>(self, work: W) -> W::Output {
        let none = None::<&'static System>;
        match self {
            Self::System => work.run(&SYSTEM, none),
            Self::Jemalloc | Self::JemallocPprof | Self::FlameletJemallocHooks => work.run(&JEMALLOC, none),
            Self::Mimalloc => work.run(&MIMALLOC, none),
            Self::PprofAlloc => work.run(&PPROF_ALLOC, Some(&SYSTEM)),
            Self::Dhat => work.run(&DHAT, Some(&SYSTEM)),
            Self::FlameletSystem => work.run(&FLAMELET_SYSTEM, Some(&SYSTEM)),
            Self::FlameletJemalloc => work.run(&FLAMELET_JEMALLOC, Some(&JEMALLOC)),
            Self::FlameletMimalloc => work.run(&FLAMELET_MIMALLOC, Some(&MIMALLOC)),
        }
    }
}
