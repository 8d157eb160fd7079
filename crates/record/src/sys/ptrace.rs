//! Stops other threads at their system calls.
//!
//! A tracee belongs to the thread that seized it: all functions of this module must be called from that thread.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use flamelet_unwind::Registers;

const GET_SYSCALL_INFO: libc::c_uint = 0x420e;
const GETREGSET: libc::c_uint = 0x4204;
const SEIZE: libc::c_uint = 0x4206;
const INTERRUPT: libc::c_uint = 0x4207;
const LISTEN: libc::c_uint = 0x4208;
const GETEVENTMSG: libc::c_uint = 0x4201;
const NT_PRSTATUS: usize = 1;

const EVENT_FORK: i32 = 1;
const EVENT_VFORK: i32 = 2;
const EVENT_CLONE: i32 = 3;
const EVENT_EXEC: i32 = 4;
const EVENT_STOP: i32 = 128;

/// Distinguishes stops at system calls from signals, and traces everything that a tracee starts.
const FOLLOW: usize = 1 | 1 << EVENT_FORK | 1 << EVENT_VFORK | 1 << EVENT_CLONE | 1 << EVENT_EXEC;

/// Something that happened to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// It ended, with this wait status.
    Ended(i32),
    /// It is at the beginning or the end of a system call.
    AtCall,
    /// It executed another program.
    Executed,
    /// It was stopped by us, or is new, or started another thread.
    Stopped,
    /// It is stopped by job control, until it is continued.
    JobStopped,
    /// It is about to receive this signal.
    Signal(i32),
}

fn request(request: libc::c_uint, tid: u32, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: the callers pass addresses only where the request takes one, of memory that lives during the call
    // and is as large as the request expects.
    let result = unsafe { libc::ptrace(request as _, tid as libc::pid_t, address, data) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Becomes the tracer of `tid`, which keeps running.
pub(crate) fn seize(tid: u32) -> io::Result<()> {
    request(SEIZE, tid, 0, FOLLOW).map(drop)
}

/// Stops `tid`; [`wait`] reports when it has stopped.
pub(crate) fn interrupt(tid: u32) -> io::Result<()> {
    request(INTERRUPT, tid, 0, 0).map(drop)
}

/// Resumes `tid`, with `signal` if that is not 0; if `to_call`, until the next beginning or end of a call.
pub(crate) fn resume(tid: u32, to_call: bool, signal: i32) -> io::Result<()> {
    let how = if to_call { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT };
    request(how as _, tid, 0, signal as usize).map(drop)
}

/// Leaves `tid` stopped by job control, but is notified when it continues.
pub(crate) fn listen(tid: u32) -> io::Result<()> {
    request(LISTEN, tid, 0, 0).map(drop)
}

/// Detaches from `tid`, with `signal` if that is not 0.
pub(crate) fn detach(tid: u32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH as _, tid, 0, signal as usize).map(drop)
}

/// Returns the id that a thread had before its exec took over that of the process.
pub(crate) fn former_id(tid: u32) -> io::Result<u32> {
    let mut message: libc::c_ulong = 0;
    request(GETEVENTMSG, tid, 0, (&raw mut message) as usize)?;
    Ok(message as u32)
}

/// The call that a thread is about to make or has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SystemCall {
    Begins { number: i64, arguments: [u64; 6] },
    Ends { result: i64 },
}

/// Returns the call at which `tid` is stopped. `None` if it is stopped for anything else.
pub(crate) fn call(tid: u32) -> io::Result<Option<SystemCall>> {
    const ENTRY: u8 = 1;
    const EXIT: u8 = 2;
    // The head of `struct ptrace_syscall_info`: kind, machine, two addresses, then the result, or the number and the
    // arguments.
    let mut info = [0u64; 10];
    request(GET_SYSCALL_INFO, tid, size_of_val(&info), info.as_mut_ptr() as usize)?;
    let [kind, _, _, value, arguments @ ..] = info;
    Ok(match kind.to_ne_bytes()[0] {
        ENTRY => Some(SystemCall::Begins { number: value as i64, arguments }),
        EXIT => Some(SystemCall::Ends { result: value as i64 }),
        _ => None,
    })
}

/// Returns the registers of `tid`, which must be stopped, that unwinding needs.
pub(crate) fn registers(tid: u32) -> io::Result<Registers> {
    // SAFETY: registers are plain integers, for which zero is a value.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let mut place = libc::iovec { iov_base: (&raw mut registers).cast(), iov_len: size_of_val(&registers) };
    request(GETREGSET, tid, NT_PRSTATUS, (&raw mut place) as usize)?;
    #[cfg(target_arch = "x86_64")]
    return Ok(Registers { pc: registers.rip, sp: registers.rsp, fp: registers.rbp, lr: 0 });
    #[cfg(target_arch = "aarch64")]
    return Ok(Registers {
        pc: registers.pc,
        sp: registers.sp,
        fp: registers.regs[29],
        lr: registers.regs[30],
    });
}

/// Waits for the next event of a tracee or a child of this thread.
pub(crate) fn wait() -> io::Result<(u32, Happened)> {
    loop {
        let mut status = 0;
        // SAFETY: the kernel writes one status to a valid place.
        let tid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if tid >= 0 {
            return Ok((tid as u32, happened(status)));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn happened(status: i32) -> Happened {
    const AT_CALL: i32 = libc::SIGTRAP | 0x80;
    if !libc::WIFSTOPPED(status) {
        return Happened::Ended(status);
    }
    match (status >> 16, libc::WSTOPSIG(status)) {
        (0, AT_CALL) => Happened::AtCall,
        (0, signal) => Happened::Signal(signal),
        (EVENT_EXEC, _) => Happened::Executed,
        (EVENT_STOP, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) => Happened::JobStopped,
        _ => Happened::Stopped,
    }
}

/// A child that only waits, and ends when the pipe's writer is dropped, which ends a [`wait`].
pub(crate) struct Alarm {
    pid: u32,
}

impl Alarm {
    /// Forks the child. It ends when the returned writer is dropped.
    pub(crate) fn set() -> io::Result<(Self, io::PipeWriter)> {
        let (held, bell) = io::pipe()?;
        // SAFETY: the child makes only async-signal-safe calls, on descriptors of its own copy, and never returns.
        let pid = unsafe {
            let pid = libc::fork();
            if pid == 0 {
                let mut byte = 0u8;
                close_all_but(held.as_raw_fd());
                while libc::read(held.as_raw_fd(), (&raw mut byte).cast(), 1) > 0 {}
                libc::_exit(0);
            }
            pid
        };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((Self { pid: pid as u32 }, bell))
    }

    /// Returns whether `pid`, as reported by [`wait`], is this child.
    pub(crate) fn is(&self, pid: u32) -> bool {
        self.pid == pid
    }

    /// Kills the child. Do not call it once [`wait`] has reported its end.
    pub(crate) fn cancel(self) {
        // SAFETY: takes integers only; the child is ours and was not waited for, so the number is still its own.
        unsafe {
            libc::kill(self.pid as libc::pid_t, libc::SIGKILL);
            libc::waitpid(self.pid as libc::pid_t, std::ptr::null_mut(), libc::__WALL);
        }
    }
}

/// Closes the descriptors that a fork copied. Others wait for their end of file: for one, std may be starting the
/// command on another thread at this very moment, and learns of its exec that way.
///
/// # Safety
/// Only in a child that uses nothing but `kept` from now on.
unsafe fn close_all_but(kept: RawFd) {
    let close = |first: RawFd, last: RawFd| -> bool {
        // SAFETY: takes integers only.
        unsafe { libc::syscall(libc::SYS_close_range, first as u32, last as u32, 0u32) == 0 }
    };
    if close(kept + 1, RawFd::MAX) && (kept == 0 || close(0, kept - 1)) {
        return;
    }
    // Before Linux 5.9.
    const USUAL_LIMIT: RawFd = 1024;
    for other in (0..USUAL_LIMIT).filter(|&other| other != kept) {
        // SAFETY: takes an integer only; closing what is not open returns an error.
        unsafe { libc::close(other) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::machine;
    use std::time::Duration;

    #[test]
    fn an_alarm_keeps_nothing_open() {
        let (reader, writer) = io::pipe().expect("a pipe");
        let (alarm, bell) = Alarm::set().expect("a child");
        drop(writer);
        let ready = machine::poll(&[reader.as_raw_fd()], Duration::from_secs(60)).expect("a pipe");
        let has_ended = ready[0].hung_up;
        drop(bell);
        alarm.cancel();
        assert!(has_ended, "the alarm's child holds the other end");
    }
}
