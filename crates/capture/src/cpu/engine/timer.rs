//! A POSIX timer on each thread's CPU clock, made from outside for every thread of the process.
//!
//! The kernel checks CPU timers at its tick, so at high frequencies one signal stands for several periods;
//! `si_overrun` says how many. A thread that is too young (or one too many for the kernel's limit) has no
//! timer yet: for those there is one timer on the CPU clock of the whole process, whose signal goes to the
//! thread that is running when it expires. Threads with a timer of their own ignore it. Kernels before 6.4
//! send it to the main thread instead, where it could interrupt a sleep: there it is left out. Where it is
//! there, only threads that live through two looks get a timer of their own.
//!
//! What a thread uses between the last tick that found it running and its end is never seen: half a tick on
//! average. To be fair, a timer starts that much before the moment it is made.

use super::Engine;
use crate::cpu::handler::{self, ARMED, SIGNAL, TimerTag};
use crate::cpu::options::Engine as Choice;
use crate::threads::{self, Tid};
use rustc_hash::FxHashMap;
use std::io;

pub(super) struct Timers {
    period_nanos: u64,
    by_thread: FxHashMap<Tid, Timer>,
    for_all: Option<Timer>,
    /// Threads for which no timer could be made.
    unreached: usize,
    listed: Vec<Tid>,
    listed_before: Vec<Tid>,
    random: u64,
    tick_nanos: u64,
}

impl Timers {
    pub(super) fn start(period_nanos: u64) -> io::Result<Self> {
        let mut timers = Self {
            period_nanos,
            by_thread: FxHashMap::default(),
            for_all: None,
            unreached: 0,
            listed: Vec::new(),
            listed_before: Vec::new(),
            tick_nanos: tick_nanos(),
            random: crate::clock::monotonic_nanos() | 1,
        };
        // The thread that starts the engine must be possible, and listed.
        Timer::new(&Clock::Thread(threads::this_thread()), period_nanos, period_nanos)?;
        threads::list(&mut timers.listed);
        timers.arm_all();
        if timers.listed.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "/proc/self/task cannot be read"));
        }
        Ok(timers)
    }

    fn arm_all(&mut self) {
        std::mem::swap(&mut self.listed, &mut self.listed_before);
        threads::list(&mut self.listed);
        if self.listed.is_empty() {
            return;
        }
        self.by_thread.retain(|tid, _| {
            let lives = self.listed.binary_search(tid).is_ok();
            if !lives {
                ARMED.remove(*tid);
            }
            lives
        });
        if self.for_all.is_none() && sends_to_the_running_thread() {
            let first = self.first_expiration(&Clock::Process);
            self.for_all = Timer::new(&Clock::Process, self.period_nanos, first).ok();
        }
        self.unreached = 0;
        let collector = handler::collector();
        for at in 0..self.listed.len() {
            let tid = self.listed[at];
            let is_young = self.for_all.is_some() && self.listed_before.binary_search(&tid).is_err();
            if tid != collector && !is_young && !self.by_thread.contains_key(&tid) {
                self.arm(tid);
            }
        }
    }

    fn arm(&mut self, tid: Tid) {
        let first = self.first_expiration(&Clock::Thread(tid));
        // Said before the timer is there: a moment of neither is better than one of both.
        let is_known = ARMED.insert(tid);
        if !is_known && self.for_all.is_some() {
            self.unreached += 1;
            return;
        }
        match Timer::new(&Clock::Thread(tid), self.period_nanos, first) {
            Ok(timer) => {
                self.by_thread.insert(tid, timer);
            }
            Err(error) => {
                ARMED.remove(tid);
                // EINVAL: the thread ended meanwhile.
                self.unreached += usize::from(error.raw_os_error() != Some(libc::EINVAL));
            }
        }
    }

    /// When on its clock a timer first expires: at a random moment of the first period, so that threads are
    /// not sampled in step; the period begins up to a tick ago.
    fn first_expiration(&mut self, clock: &Clock) -> u64 {
        let before = self.random_below(self.tick_nanos);
        let begin = clock.now().saturating_sub(before);
        begin + 1 + self.random_below(self.period_nanos)
    }

    fn random_below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit.max(1)
    }

    fn disarm_all(&mut self) {
        for tid in self.by_thread.keys() {
            ARMED.remove(*tid);
        }
        self.by_thread.clear();
        self.for_all = None;
    }
}

impl Engine for Timers {
    fn choice(&self) -> Choice {
        Choice::Timer
    }

    fn update(&mut self, period_nanos: u64) {
        if period_nanos != self.period_nanos {
            // Signals carry the period of their timer, so those on their way keep their meaning.
            self.disarm_all();
            self.period_nanos = period_nanos;
        }
        self.arm_all();
    }

    fn unreached(&self) -> usize {
        if self.for_all.is_some() { 0 } else { self.unreached }
    }

    fn sees_new_threads(&self) -> bool {
        self.for_all.is_some()
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        self.disarm_all();
    }
}

enum Clock {
    Thread(Tid),
    Process,
}

impl Clock {
    fn id(&self) -> libc::clockid_t {
        match self {
            Self::Process => libc::CLOCK_PROCESS_CPUTIME_ID,
            // The kernel's number for the CPU clock of any thread of this process.
            Self::Thread(tid) => (!tid << 3) | 6,
        }
    }

    fn now(&self) -> u64 {
        crate::clock::read(self.id())
    }
}

/// A kernel timer, deleted when dropped.
struct Timer(libc::timer_t);

// SAFETY: a timer id is a number for the kernel, good on any thread of the process.
unsafe impl Send for Timer {}

impl Timer {
    /// A timer that expires when `clock` shows `first_nanos`, and every `period_nanos` from then on.
    fn new(clock: &Clock, period_nanos: u64, first_nanos: u64) -> io::Result<Self> {
        let is_for_all = matches!(clock, Clock::Process);
        let value = TimerTag { is_for_all, period_nanos }.pack();
        // SAFETY: plain C structures, zeroed and filled in.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_signo = SIGNAL;
            event.sigev_value = libc::sigval { sival_ptr: value as *mut libc::c_void };
            match *clock {
                Clock::Process => event.sigev_notify = libc::SIGEV_SIGNAL,
                Clock::Thread(tid) => {
                    event.sigev_notify = libc::SIGEV_THREAD_ID;
                    event.sigev_notify_thread_id = tid;
                }
            }
            let mut id: libc::timer_t = std::ptr::null_mut();
            if libc::timer_create(clock.id(), &raw mut event, &raw mut id) != 0 {
                return Err(io::Error::last_os_error());
            }
            let timer = Self(id);
            let mut times: libc::itimerspec = std::mem::zeroed();
            times.it_interval = timespec(period_nanos);
            times.it_value = timespec(first_nanos.max(1));
            if libc::timer_settime(timer.0, libc::TIMER_ABSTIME, &raw const times, std::ptr::null_mut()) != 0
            {
                return Err(io::Error::last_os_error());
            }
            Ok(timer)
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the id came from `timer_create` and is deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// The time between two ticks of the kernel.
fn tick_nanos() -> u64 {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to the structure above. The coarse clock advances at every tick.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution) };
    u64::try_from(resolution.tv_nsec).unwrap_or(0).clamp(1_000_000, 10_000_000)
}

fn timespec(nanos: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanos / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
    }
}

/// Whether the kernel gives a process timer's signal to the thread that runs when it expires (6.4 and later).
fn sends_to_the_running_thread() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    is_at_least_6_4(&release)
}

fn is_at_least_6_4(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6, 4),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_releases_are_compared_as_numbers() {
        for (release, expected) in [
            ("6.18.44-fc", true),
            ("6.4.0", true),
            ("6.3.13", false),
            ("5.15.0-91", false),
            ("7.0", true),
            ("x", false),
        ] {
            assert_eq!(is_at_least_6_4(release), expected, "{release}");
        }
    }
}
