//! A `perf_event_open` task clock on each thread, whose overflow sends the signal.
//!
//! Where the kernel allows it, time in system calls counts too, and a small ring delivers its kernel frames. The
//! price: a sample that falls on the way into a sleep is a signal that ends the sleep (`EINTR`). Engines that stay in
//! user space never end one.

use super::Engine;
use crate::cpu::handler::{self, PERF_FILES};
use crate::cpu::kernel_ring::KernelRing;
use crate::cpu::options::Engine as Choice;
use crate::threads::{self, Listed, Tid};
use flamelet_unwind::perf_event::{EventAttr, config, control, event_kind, flag, sample_bit};
use rustc_hash::FxHashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

pub(super) struct Perf {
    period_nanos: u64,
    /// Without the right to see the kernel's side, time in system calls is not sampled.
    is_user_only: bool,
    by_thread: FxHashMap<Listed, PerfFile>,
    unreached: usize,
    listing: threads::Listing,
    listed: Vec<Listed>,
}

impl Perf {
    pub(super) fn start(period_nanos: u64) -> io::Result<Self> {
        let this = threads::this_thread();
        let is_user_only = match PerfFile::open(this, period_nanos, false) {
            Ok(_) => false,
            Err(_) => PerfFile::open(this, period_nanos, true).map(|_| true)?,
        };
        let listing = threads::Listing::open()?;
        let (by_thread, listed) = (FxHashMap::default(), Vec::new());
        let mut perf = Self { period_nanos, is_user_only, by_thread, unreached: 0, listing, listed };
        perf.open_all();
        Ok(perf)
    }

    /// Opens events for threads that have none, and forgets threads that ended. Returns how many it opened.
    fn open_all(&mut self) -> usize {
        self.listing.read(&mut self.listed);
        self.by_thread.retain(|thread, _| self.listed.binary_search(thread).is_ok());
        self.unreached = 0;
        let known = self.by_thread.len();
        let collector = handler::collector();
        for &thread in &self.listed {
            if thread.tid == collector || self.by_thread.contains_key(&thread) {
                continue;
            }
            match PerfFile::open(thread.tid, self.period_nanos, self.is_user_only) {
                Ok(file) => {
                    self.by_thread.insert(thread, file);
                }
                Err(error) => self.unreached += usize::from(error.raw_os_error() != Some(libc::ESRCH)),
            }
        }
        self.by_thread.len() - known
    }
}

impl Engine for Perf {
    fn choice(&self) -> Choice {
        Choice::Perf
    }

    fn update(&mut self, period_nanos: u64) -> usize {
        let is_change = period_nanos != self.period_nanos;
        if is_change {
            self.by_thread.clear();
            self.period_nanos = period_nanos;
        }
        let new = self.open_all();
        if is_change { 0 } else { new }
    }

    fn threads(&self) -> usize {
        self.by_thread.len()
    }

    fn unreached(&self) -> usize {
        self.unreached
    }
}

/// The event of one thread.
struct PerfFile {
    file: OwnedFd,
    /// Receives the kernel's frames; without it (locked memory is limited) there are none. Boxed, because handlers
    /// know its address.
    ring: Option<Box<KernelRing>>,
}

impl PerfFile {
    fn open(tid: Tid, period_nanos: u64, is_user_only: bool) -> io::Result<Self> {
        let attributes = attributes(period_nanos, is_user_only);
        const F_SETOWN_EX: libc::c_int = 15;
        const F_SETSIG: libc::c_int = 10;
        const OWNER_THREAD: libc::c_int = 0;
        let owner: [libc::c_int; 2] = [OWNER_THREAD, tid];
        // SAFETY: the structures are the kernel's, filled in, and outlive the calls; the descriptor is new.
        unsafe {
            let attributes = &raw const attributes;
            let file =
                libc::syscall(libc::SYS_perf_event_open, attributes, tid, -1, -1, control::CLOSE_ON_EXEC);
            if file < 0 {
                return Err(io::Error::last_os_error());
            }
            let mut file = Self { file: OwnedFd::from_raw_fd(file as libc::c_int), ring: None };
            let descriptor = file.file.as_raw_fd();
            if !PERF_FILES.insert(descriptor) {
                return Err(io::Error::from_raw_os_error(libc::EMFILE));
            }
            if !is_user_only && let Ok(ring) = KernelRing::map(file.file.as_fd()) {
                let ring = file.ring.insert(Box::new(ring));
                handler::use_ring(descriptor, ring);
            }
            let is_set = libc::fcntl(descriptor, libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK) == 0
                && libc::fcntl(descriptor, F_SETSIG, handler::signal()) == 0
                && libc::fcntl(descriptor, F_SETOWN_EX, owner.as_ptr()) == 0
                && libc::ioctl(descriptor, control::ENABLE as _, 0) == 0;
            if is_set { Ok(file) } else { Err(io::Error::last_os_error()) }
        }
    }
}

impl Drop for PerfFile {
    fn drop(&mut self) {
        let descriptor = self.file.as_raw_fd();
        // Closing is not enough: the child of a fork has the same file open, and this process would go on getting its
        // signals.
        // SAFETY: stops an event of our own.
        unsafe { libc::ioctl(descriptor, control::DISABLE as _, 0) };
        if self.ring.is_some() {
            handler::retire_ring(descriptor);
        }
        PERF_FILES.remove(descriptor);
    }
}

fn attributes(period_nanos: u64, is_user_only: bool) -> EventAttr {
    let mut attr = EventAttr::new(event_kind::SOFTWARE, config::TASK_CLOCK)
        .with(flag::DISABLED | flag::EXCLUDE_HV)
        .with(if is_user_only { flag::EXCLUDE_KERNEL } else { flag::EXCLUDE_CALLCHAIN_USER });
    attr.sample_period = period_nanos;
    attr.sample_type = if is_user_only { 0 } else { sample_bit::CALLCHAIN };
    attr.wakeup = 1;
    attr
}
