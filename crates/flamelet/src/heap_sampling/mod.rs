//! Starts heap sampling, by flamelet's allocator or by jemalloc itself.

#[cfg(feature = "jemalloc")]
pub(crate) mod by_jemalloc;

use flamelet_capture::heap;

use crate::{Error, ErrorKind, Result};

/// The heap options of a profiler.
#[derive(Clone, Debug)]
pub(crate) struct HeapSettings {
    pub(crate) options: flamelet_capture::heap::Options,
    pub(crate) has_files: bool,
    #[cfg(feature = "jemalloc")]
    pub(crate) jemalloc: Option<flamelet_capture::heap::jemalloc::Jemalloc>,
}

impl Default for HeapSettings {
    fn default() -> Self {
        Self {
            options: flamelet_capture::heap::Options::new(),
            has_files: false,
            #[cfg(feature = "jemalloc")]
            jemalloc: None,
        }
    }
}

/// Returns why there is no heap profile, and what the program has to do about it.
pub(crate) fn not_enabled() -> &'static str {
    match heap::is_installed() {
        true => "heap profiling is switched off in this service (`without_heap()`)",
        false => NO_ALLOCATOR,
    }
}

/// What the endpoints answer after [`heap::stop`]: samples that grow older and older would be taken for the heap as it is.
#[cfg(feature = "http")]
pub(crate) const STOPPED: &str = "heap profiling is not active in this service: it was stopped (`flamelet::heap::stop()`); \
                                  starting a profiler activates it again";

const NO_ALLOCATOR: &str = "heap profiling is not enabled in this service: \
                            it needs flamelet's allocator, `flamelet::global_allocator!()`";

/// Starts sampling if the program's allocator is flamelet's. Returns whether it is.
pub(crate) fn start(settings: &HeapSettings) -> Result<bool> {
    #[cfg(feature = "jemalloc")]
    if let Some(jemalloc) = &settings.jemalloc {
        by_jemalloc::start(jemalloc, &settings.options)?;
        return Ok(true);
    }
    if !heap::is_running() && !heap::is_installed() {
        return match settings.has_files {
            true => Err(Error::new(ErrorKind::NotEnabled, NO_ALLOCATOR)),
            false => Ok(false),
        };
    }
    if settings.options.start_unless_running()? {
        #[cfg(feature = "jemalloc")]
        mention_jemalloc();
    }
    Ok(true)
}

/// Puts jemalloc's statistics into the comments of heap profiles if the program allocates from jemalloc: if so,
/// jemalloc must have handed out at least the block held here.
#[cfg(feature = "jemalloc")]
fn mention_jemalloc() {
    const HELD: usize = 1 << 20;
    heap::unaccounted(|| {
        let block: Vec<u8> = std::hint::black_box(Vec::with_capacity(HELD));
        let jemalloc = heap::jemalloc::Jemalloc::linked();
        if jemalloc.statistics().is_some_and(|statistics| statistics.allocated >= HELD) {
            jemalloc.mention();
        }
        drop(std::hint::black_box(block));
    });
}
