//! The scheduling of this thread.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Pins this thread to `cpu`.
pub(crate) fn pin_to(cpu: u32) -> io::Result<()> {
    // SAFETY: an all-zero cpu_set_t is the empty set; the macros stay within it for cpu < 1024, which the
    // check ensures; the call reads the set that it is given the size of.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if cpu as usize >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `struct sched_attr`, first version.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Gives this thread priority over all others: as a real-time thread if permitted, else with the shortest time slice.
/// Returns which of them it is.
pub(crate) fn run_first() -> Urgency {
    let realtime = SchedAttr { policy: libc::SCHED_FIFO as u32, priority: 1, ..SchedAttr::default() };
    if set_attr(realtime).is_ok() {
        return Urgency::Realtime;
    }
    let short_slice =
        SchedAttr { policy: libc::SCHED_OTHER as u32, runtime: 100_000, ..SchedAttr::default() };
    if set_attr(short_slice).is_ok() { Urgency::ShortSlice } else { Urgency::Ordinary }
}

/// Makes this thread yield to whatever wakes up: background work must not disturb what is measured. (A nice value
/// would persist after the recording, when the user waits for this very thread.)
pub(crate) fn run_last() {
    let _ = set_attr(SchedAttr { policy: libc::SCHED_BATCH as u32, ..SchedAttr::default() });
}

/// How a thread got its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    Realtime,
    ShortSlice,
    Ordinary,
}

/// How long this thread was ready to run while others ran instead.
pub(crate) struct RunDelay {
    file: File,
    before: u64,
}

impl RunDelay {
    /// Measures the delays of the calling thread from now on, where the kernel counts them.
    pub(crate) fn of_this_thread() -> Option<Self> {
        let mut delay = Self { file: File::open("/proc/thread-self/schedstat").ok()?, before: 0 };
        delay.since_last()?;
        Some(delay)
    }

    /// Returns the nanoseconds of delay since the last call.
    pub(crate) fn since_last(&mut self) -> Option<u64> {
        let mut text = [0; 96];
        let length = self.file.read_at(&mut text, 0).ok()?;
        let total = run_delay(&text[..length])?;
        Some(total.saturating_sub(std::mem::replace(&mut self.before, total)))
    }
}

/// Returns the second figure of a `schedstat` file: nanoseconds on a run queue.
fn run_delay(schedstat: &[u8]) -> Option<u64> {
    std::str::from_utf8(schedstat).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn set_attr(attr: SchedAttr) -> io::Result<()> {
    let attr = SchedAttr { size: size_of::<SchedAttr>() as u32, ..attr };
    // SAFETY: the kernel reads as many bytes of the struct as its size field says.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_is_the_second_figure() {
        assert_eq!(run_delay(b"123456 789 4\n"), Some(789));
        assert_eq!(run_delay(b"123456\n"), None);
        assert_eq!(run_delay(b"a b c\n"), None);
    }
}
