//! An open event.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use flamelet_unwind::perf_event::{EventAttr, control};

/// The read format that [`PerfEvent::running_nanos`] expects: the count, the time enabled, the time running.
pub(crate) const READ_TIMES: u64 = 3;

/// What an event watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// One thread, and with inheritance everything it starts.
    Thread(u32),
    /// Everything on the CPU.
    Everything,
}

/// An event opened by `perf_event_open`; dropping it closes it.
#[derive(Debug)]
pub(crate) struct PerfEvent {
    fd: OwnedFd,
}

impl PerfEvent {
    pub(crate) fn open(attr: &EventAttr, watch: Watch, cpu: u32) -> io::Result<Self> {
        let pid = match watch {
            Watch::Thread(tid) => tid as libc::pid_t,
            Watch::Everything => -1,
        };
        // SAFETY: the attribute is a valid, initialised struct of the size that it states, and the kernel
        // only reads it (it may write the size field back on E2BIG, which is why the copy is passed).
        let fd = unsafe {
            let mut copy = *attr;
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw mut copy,
                pid,
                cpu as i32,
                -1,
                control::CLOSE_ON_EXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call just returned this descriptor, and it has no other owner.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd as RawFd) } })
    }

    /// Returns the id that records of this event, and of those inherited from it, carry.
    pub(crate) fn id(&self) -> io::Result<u64> {
        let mut id = 0u64;
        // SAFETY: the kernel writes one u64 to the pointer, which points to one.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), control::ID as _, &raw mut id) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(id) }
    }

    /// Starts it, with all events inherited from it.
    pub(crate) fn enable(&self) -> io::Result<()> {
        self.control(control::ENABLE, 0)
    }

    /// Stops it, with all events inherited from it.
    pub(crate) fn disable(&self) -> io::Result<()> {
        self.control(control::DISABLE, 0)
    }

    /// Makes it write its records into the ring of `other`.
    pub(crate) fn redirect_to(&self, other: RawFd) -> io::Result<()> {
        self.control(control::SET_OUTPUT, other as u64)
    }

    /// Returns for how long it, and what inherited it, watched a running thread. Needs [`READ_TIMES`].
    pub(crate) fn running_nanos(&self) -> io::Result<u64> {
        let mut values = [0u64; 3];
        let length = size_of_val(&values);
        // SAFETY: the kernel writes at most `length` bytes to the array of that size.
        let result = unsafe { libc::read(self.fd.as_raw_fd(), values.as_mut_ptr().cast(), length) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(values[2]) }
    }

    fn control(&self, request: u64, argument: u64) -> io::Result<()> {
        // SAFETY: these requests take a plain integer; no memory is passed.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), request as _, argument) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsRawFd for PerfEvent {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
