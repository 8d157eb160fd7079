//! jemalloc samples by itself: its samples go into the same tables, or its dumps are read.
//!
//! ```text
//!  jemalloc 5.3.1 and later:  prof_sample, prof_sample_free hooks ──► live table, ledger ──► Snapshot
//!  older:                     prof.dump into memory ──► parsed ──► Jemalloc::dump
//! ```
//!
//! Where the linked version has the hook for it (5.3.0 and later), stacks are taken by flamelet's unwinder,
//! which is some five times faster than jemalloc's own.
//!
//! jemalloc must have been built with profiling (`tikv-jemallocator`'s feature `profiling`) and started with it
//! (`prof:true` in its configuration, see [`CONF`]). Otherwise `Alloc<Jemalloc>` still samples around it, at about
//! the same cost: prefer that unless something else needs jemalloc's profiles.

mod control;
mod dump;
mod hooks;

pub use control::{Mallctl, Statistics};

use super::Options;
use super::interval::nearest_power;
use super::thread::{self, Inside};
use super::tracker::Tracker;
use crate::{Error, ErrorKind, Result};
use control::Control;
use flamelet_profile::Profile;
use std::ffi::{CStr, c_char};
use std::hint::black_box;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// A configuration that jemalloc reads at its start: profiling is enabled, and off.
///
/// ```no_run
/// #[unsafe(export_name = "_rjem_malloc_conf")]
/// pub static MALLOC_CONF: flamelet_capture::heap::jemalloc::Conf = flamelet_capture::heap::jemalloc::CONF;
/// # fn main() {}
/// ```
pub const CONF: Conf = Conf::new(c"prof:true,prof_active:false,lg_prof_sample:19");

/// A C string in a static, as jemalloc wants its configuration.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Conf(*const c_char);

// SAFETY: points to a text that is never written.
unsafe impl Sync for Conf {}

impl Conf {
    /// Makes another configuration.
    pub const fn new(text: &'static CStr) -> Self {
        Self(text.as_ptr())
    }

    /// Makes a configuration from a text that ends with a zero byte, and has no other; fails to compile otherwise.
    pub const fn literal(text: &'static str) -> Self {
        match CStr::from_bytes_with_nul(text.as_bytes()) {
            Ok(text) => Self::new(text),
            Err(_) => panic!("the configuration of jemalloc contains a zero byte"),
        }
    }
}

/// The jemalloc that this program is linked with.
#[derive(Clone, Copy, Debug)]
pub struct Jemalloc {
    control: Control,
    uses_hooks: bool,
}

/// How jemalloc's samples are obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// As they are taken: [`Snapshot`](super::Snapshot) and everything made from it works.
    Hooks,
    /// Only by [`Jemalloc::dump`]: what is in use, and what was allocated if `prof_accum` is on.
    Dumps,
}

static STARTED: OnceLock<Jemalloc> = OnceLock::new();
/// Whether jemalloc samples because it was started here.
static IS_SAMPLING: AtomicBool = AtomicBool::new(false);

/// Returns the jemalloc that is sampling now.
pub(super) fn sampling() -> Option<Jemalloc> {
    STARTED.get().copied().filter(|_| IS_SAMPLING.load(Ordering::Relaxed))
}

/// Returns whether the program is known to allocate from jemalloc.
pub(super) fn is_in_use() -> bool {
    STARTED.get().is_some()
}

impl Jemalloc {
    /// Takes jemalloc's control function, whatever its name is in this program.
    ///
    /// # Safety
    /// The function must be jemalloc's `mallctl`.
    pub const unsafe fn new(mallctl: Mallctl) -> Self {
        Self { control: Control::new(mallctl), uses_hooks: true }
    }

    /// Returns the one that `tikv-jemalloc-sys` links.
    #[cfg(feature = "jemalloc")]
    pub const fn linked() -> Self {
        Self { control: Control::new(tikv_jemalloc_sys::mallctl), uses_hooks: true }
    }

    /// Leaves jemalloc's hooks alone, as with a version that has none: something else may use them. Samples then come
    /// from [`Jemalloc::dump`], with stacks by jemalloc's own unwinder.
    pub const fn without_hooks(mut self) -> Self {
        self.uses_hooks = false;
        self
    }

    /// Makes jemalloc sample, at the power of two that is nearest to the mean in `options`, into the same
    /// tables that [`Options::start`] uses. [`Alloc`](super::Alloc) does not sample at the same time.
    pub fn start(&self, options: &Options) -> Result<Feed> {
        self.check_profiling()?;
        let lg_sample = nearest_power(options.chosen_mean());
        let feed = if self.uses_hooks { hooks::install(self.control)? } else { Feed::Dumps };
        if feed == Feed::Dumps && options.is_watching() {
            let message = "this jemalloc is read by its dumps, which keep no recovery file and watch no limit: use \
                           its hooks (5.3.1 and later), or sample around it";
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        let tracker = options.prepare()?;
        thread::set_mean(0);
        self.set_sample(lg_sample, tracker)?;
        self.control.write(c"prof.active", true).map_err(|code| refused("prof.active", code))?;
        self.mention();
        IS_SAMPLING.store(true, Ordering::Relaxed);
        Ok(feed)
    }

    fn set_sample(&self, lg_sample: usize, tracker: &Tracker) -> Result<()> {
        hooks::set_mean(1 << lg_sample);
        tracker.ledger.set(super::ledger::Field::Mean, 1 << lg_sample);
        if self.control.read::<usize>(c"prof.lg_sample") != Ok(lg_sample) {
            self.control.write(c"prof.reset", lg_sample).map_err(|code| refused("prof.reset", code))?;
        }
        Ok(())
    }

    /// Makes jemalloc stop sampling. What is tracked stays known.
    pub fn stop(&self) -> Result<()> {
        IS_SAMPLING.store(false, Ordering::Relaxed);
        self.control.write(c"prof.active", false).map_err(|code| refused("prof.active", code))
    }

    /// Changes the rate while it samples.
    pub(super) fn change_mean(&self, mean: u64, tracker: &Tracker) -> Result<()> {
        self.set_sample(nearest_power(mean), tracker)
    }

    /// Puts jemalloc's own statistics into the comments of all heap profiles from now on.
    pub fn mention(&self) {
        STARTED.get_or_init(|| *self);
    }

    /// Returns jemalloc's own statistics; `None` when it was built without them.
    pub fn statistics(&self) -> Option<Statistics> {
        self.control.statistics()
    }

    /// Returns what jemalloc's own tables say, by `prof.dump`, written to memory where the system supports that and
    /// to the folder for temporary files where it does not.
    pub fn dump(&self) -> Result<Profile> {
        self.dump_by(dump::text)
    }

    /// Like [`Jemalloc::dump`], by way of a file in `folder` that is removed afterwards.
    pub fn dump_in(&self, folder: &Path) -> Result<Profile> {
        self.dump_by(|control| dump::text_by_file_in(control, folder))
    }

    fn dump_by(&self, text: impl FnOnce(Control) -> Result<String>) -> Result<Profile> {
        self.check_profiling()?;
        let _inside = Inside::enter();
        crate::loaded_modules::refresh()?;
        let text = text(self.control)?;
        dump::profile(&text, hooks::takes_stacks())
            .map_err(|error| Error::new(ErrorKind::Denied, format!("cannot read the jemalloc dump: {error}")))
    }

    /// Returns whether C code allocates from this jemalloc too, which its sampling then sees: allocates a block as C
    /// does, and asks jemalloc whether it has one more. A jemalloc without statistics is not known to.
    pub(super) fn serves_c(&self) -> bool {
        const SIZE: u64 = 64;
        let allocated = || self.control.read::<u64>(c"thread.allocated");
        let before = allocated();
        // SAFETY: the block is not used, and freed at once.
        unsafe { libc::free(black_box(libc::malloc(SIZE as usize))) };
        matches!((before, allocated()), (Ok(before), Ok(after)) if after >= before + SIZE)
    }

    fn check_profiling(&self) -> Result<()> {
        let message = match self.control.read::<bool>(c"opt.prof") {
            Ok(true) => return Ok(()),
            Ok(false) => {
                "jemalloc's profiling is off: put prof:true into its configuration \
                 (MALLOC_CONF, or _RJEM_MALLOC_CONF for tikv-jemallocator)"
            }
            Err(_) => "this jemalloc was built without profiling",
        };
        Err(Error::new(ErrorKind::Denied, message))
    }
}

/// Returns the comments about jemalloc in a heap profile.
pub(super) fn comments() -> Option<String> {
    let statistics = STARTED.get()?.statistics()?;
    Some(format!("flamelet: {statistics}"))
}

fn refused(what: &str, code: i32) -> Error {
    let error = std::io::Error::from_raw_os_error(code);
    Error::new(ErrorKind::Denied, format!("jemalloc rejected {what}: {error}"))
}
