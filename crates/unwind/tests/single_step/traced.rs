//! A child that runs the workload under ptrace.

use flamelet_unwind::Registers;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Set in the child's environment.
pub(crate) const MARK: &str = "FLAMELET_SINGLE_STEP_CHILD";

pub(crate) struct Traced {
    child: Child,
    stack_top: u64,
}

impl Traced {
    /// Starts the child and lets it run up to its workload. `None` when ptrace is not allowed.
    pub(crate) fn start() -> Option<Self> {
        let mut command = Command::new(std::env::current_exe().expect("this test has a file"));
        command.env(MARK, "1");
        let trace_me = || {
            // SAFETY: a system call between fork and exec.
            match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: the closure only makes one system call.
        unsafe { command.pre_exec(trace_me) };
        let child = command.spawn().ok()?;
        let mut traced = Self { child, stack_top: 0 };
        // It stops at its exec, and again where the workload begins.
        assert_eq!(traced.wait(), Some(libc::SIGTRAP), "stopped at exec");
        let mut signal = 0;
        loop {
            traced.resume(libc::PTRACE_CONT, signal);
            match traced.wait().expect("it stops before the workload") {
                libc::SIGSTOP => break,
                other => signal = other,
            }
        }
        traced.stack_top = stack_top(traced.pid());
        Some(traced)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Executes one instruction. `None` when the workload is over.
    pub(crate) fn step(&mut self) -> Option<Registers> {
        let mut signal = 0;
        loop {
            self.resume(libc::PTRACE_SINGLESTEP, signal);
            match self.wait()? {
                libc::SIGTRAP => return Some(self.registers()),
                libc::SIGSTOP => return None,
                other => signal = other,
            }
        }
    }

    /// Copies the stack from `sp` to its top.
    pub(crate) fn copy_stack(&self, sp: u64, into: &mut Vec<u8>) {
        let length = usize::try_from(self.stack_top.saturating_sub(sp)).expect("64-bit").min(256 << 10);
        into.resize(length, 0);
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: length };
        let remote = libc::iovec { iov_base: sp as *mut _, iov_len: length };
        // SAFETY: the kernel writes at most `length` bytes to `into`, which was made that long; what it reads is the
        // child's memory, whose addresses it checks itself.
        let copied =
            unsafe { libc::process_vm_readv(self.pid() as _, &raw const local, 1, &raw const remote, 1, 0) };
        into.truncate(usize::try_from(copied).unwrap_or(0));
    }

    fn resume(&self, request: libc::c_uint, signal: i32) {
        // SAFETY: the child is stopped and ours to trace; these requests take numbers, and no memory of ours.
        let result = unsafe { libc::ptrace(request, self.pid(), 0, i64::from(signal)) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }

    /// The signal that stopped the child; `None` when it is gone.
    fn wait(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: waits for our child; the kernel writes its status to the variable above.
        let result = unsafe { libc::waitpid(self.pid() as _, &raw mut status, 0) };
        (result > 0 && libc::WIFSTOPPED(status)).then(|| libc::WSTOPSIG(status))
    }

    fn registers(&self) -> Registers {
        // SAFETY: a plain C structure, filled in by the call.
        let registers = unsafe {
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            libc::ptrace(libc::PTRACE_GETREGS, self.pid(), 0, &raw mut registers);
            registers
        };
        Registers { pc: registers.rip, sp: registers.rsp, fp: registers.rbp, lr: 0 }
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn stack_top(pid: u32) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("its maps can be read");
    let line = maps.lines().find(|line| line.ends_with("[stack]")).expect("it has a stack");
    let end = line.split(['-', ' ']).nth(1).expect("a range");
    u64::from_str_radix(end, 16).expect("hexadecimal")
}
