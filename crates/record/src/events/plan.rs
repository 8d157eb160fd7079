//! Chooses which events a recording opens, with which fields, within what the kernel permits.

use std::io;

use flamelet_unwind::perf_event::{EventAttr, NATIVE_REGISTERS, config, event_kind, flag, sample_bit};

use crate::access::tracefs;
use crate::access::{self, level};
use crate::events::name::{self, NamedEvent};
use crate::events::ring_records::COMMON_FIELDS;
use crate::sys::event::{PerfEvent, READ_TIMES, Watch};
use crate::{Error, RecordOptions, Result, Target};

/// What a record of an event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EventSource {
    /// No samples: maps, names, forks and exits.
    Track,
    /// A sample of CPU time.
    Cpu,
    /// A thread stopped running.
    Switch,
    /// A system call began.
    SyscallEnter,
    /// A system call ended.
    SyscallExit,
    /// A system call that began, with its stack: every n-th call, or every call for whose stack there is room in a ring.
    SyscallStack { is_regular: bool },
    /// The event at this index of the options.
    Named(usize),
}

/// An event to open on every watched thread and CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedEvent {
    pub(crate) source: EventSource,
    pub(crate) attr: EventAttr,
}

/// What counts CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuClock {
    /// The cycle counter.
    Cycles,
    /// The kernel's timer.
    Software,
}

/// All events of a recording, and notes on what had to be left out.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) events: Vec<PlannedEvent>,
    /// Events that were opened as a trial. Closing the last event of a tracepoint takes the kernel a twentieth of a
    /// second, so these are kept until the real ones are open.
    pub(crate) tried: Vec<PerfEvent>,
    pub(crate) clock: CpuClock,
    /// The probes among them live as long as this does.
    _named: Vec<NamedEvent>,
    /// Whether the kernel's side is sampled.
    pub(crate) with_kernel: bool,
    /// The level of `kernel.perf_event_paranoid` that the whole plan needs.
    pub(crate) level: i32,
    /// Notes for the user, a line each.
    pub(crate) notes: Vec<String>,
}

/// One in this many calls has its stack taken, for programs that call often; all calls are counted. A prime number: a
/// frequency settles at periods that divide the program's own, and then always hits the same place in its loop.
const SYSCALL_STACK_PERIOD: u64 = 509;

impl Plan {
    /// Chooses the events for `options` by trying each on `watch`.
    pub(crate) fn new(options: &RecordOptions, watch: Watch, cpu: u32) -> Result<Self> {
        // Before anything is opened: probes can be removed only when all of their events are closed.
        let named: Vec<NamedEvent> =
            options.events.iter().map(|name| name::find(name)).collect::<Result<_>>()?;
        let (tried, notes) = (Vec::new(), Vec::new());
        let (level, with_kernel) = (needed_level(options, &named), options.kernel);
        let mut planner = Planner { options, watch, cpu, with_kernel, level, tried, notes };
        let mut events = vec![planner.track()?];
        let mut clock = CpuClock::Software;
        if options.cpu {
            let (event, chosen) = planner.cpu()?;
            clock = chosen;
            events.push(event);
        }
        if options.off_cpu {
            events.push(planner.switches()?);
        }
        if options.syscalls {
            events.extend(planner.syscalls()?);
        }
        for (at, event) in named.iter().enumerate() {
            events.push(planner.named(at, event)?);
        }
        let Planner { with_kernel, tried, notes, .. } = planner;
        Ok(Self { events, tried, _named: named, clock, with_kernel, level, notes })
    }

    pub(crate) fn event(&self, source: EventSource) -> Option<&PlannedEvent> {
        self.events.iter().find(|event| event.source == source)
    }
}

struct Planner<'a> {
    options: &'a RecordOptions,
    watch: Watch,
    cpu: u32,
    with_kernel: bool,
    level: i32,
    tried: Vec<PerfEvent>,
    notes: Vec<String>,
}

impl Planner<'_> {
    /// The attributes that every event has.
    fn base(&self, kind: u32, config: u64) -> EventAttr {
        let mut attr = EventAttr::new(kind, config).with(flag::DISABLED | flag::SAMPLE_ID_ALL);
        attr = clocked(attr).with(flag::EXCLUDE_HV);
        attr.sample_type = COMMON_FIELDS;
        attr.read_format = READ_TIMES;
        if !matches!(self.options.target, Target::All) {
            attr = attr.with(flag::INHERIT);
        }
        if matches!(self.options.target, Target::Command(_)) {
            attr = attr.with(flag::ENABLE_ON_EXEC);
        }
        attr
    }

    /// Adds the thread's stack, and the kernel's if permitted.
    fn with_stack(&self, mut attr: EventAttr) -> EventAttr {
        attr.sample_type |= sample_bit::REGS_USER | sample_bit::STACK_USER;
        attr.sample_regs_user = NATIVE_REGISTERS;
        attr.sample_stack_user = self.options.dump_bytes;
        if self.with_kernel {
            attr.sample_type |= sample_bit::CALLCHAIN;
            attr = attr.with(flag::EXCLUDE_CALLCHAIN_USER);
        } else {
            attr = attr.with(flag::EXCLUDE_KERNEL);
        }
        attr
    }

    fn try_open(&mut self, attr: &EventAttr) -> io::Result<()> {
        self.tried.push(PerfEvent::open(attr, self.watch, self.cpu)?);
        Ok(())
    }

    fn refused(&self, error: &io::Error, what: &str) -> Error {
        access::explain(error, what, self.level)
    }

    fn track(&mut self) -> Result<PlannedEvent> {
        let attr = self.base(event_kind::SOFTWARE, config::DUMMY).with(
            flag::EXCLUDE_KERNEL | flag::MMAP | flag::MMAP2 | flag::COMM | flag::COMM_EXEC | flag::TASK,
        );
        let with_build_ids = attr.with(flag::BUILD_ID);
        let attr = match self.try_open(&with_build_ids) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => attr,
            _ => with_build_ids,
        };
        self.try_open(&attr).map_err(|error| access::explain_watch(&error, self.watch, self.level))?;
        Ok(PlannedEvent { source: EventSource::Track, attr })
    }

    fn cpu(&mut self) -> Result<(PlannedEvent, CpuClock)> {
        let frequency = u64::from(self.options.frequency);
        if self.with_kernel && self.try_kernel_side() {
            self.with_kernel = false;
            let level = access::paranoid().map_or_else(|| "?".to_owned(), |level| level.to_string());
            self.notes.push(format!(
                "user side only: time inside the kernel is not seen (kernel.perf_event_paranoid={level}; \
                 `sudo sysctl kernel.perf_event_paranoid=1` shows it)"
            ));
        }
        let mut cycles =
            self.with_stack(self.base(event_kind::HARDWARE, config::CPU_CYCLES)).with(flag::FREQ);
        cycles.sample_period = frequency;
        if self.try_open(&cycles).is_ok() {
            return Ok((PlannedEvent { source: EventSource::Cpu, attr: cycles }, CpuClock::Cycles));
        }
        let mut clock = self.with_stack(self.base(event_kind::SOFTWARE, config::CPU_CLOCK));
        clock.sample_period = 1_000_000_000 / frequency;
        self.try_open(&clock).map_err(|error| self.refused(&error, "cannot sample the CPU clock"))?;
        Ok((PlannedEvent { source: EventSource::Cpu, attr: clock }, CpuClock::Software))
    }

    /// Returns whether the kernel's side is refused although the user's is not.
    fn try_kernel_side(&mut self) -> bool {
        let mut attr = self.with_stack(self.base(event_kind::SOFTWARE, config::CPU_CLOCK));
        attr.sample_period = 1_000_000;
        let refused = |error: io::Error| matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM));
        self.try_open(&attr).is_err_and(refused)
    }

    fn switches(&mut self) -> Result<PlannedEvent> {
        let mut attr = self.with_stack(self.base(event_kind::SOFTWARE, config::CONTEXT_SWITCHES));
        attr = attr.without(flag::EXCLUDE_KERNEL).with(flag::CONTEXT_SWITCH);
        attr.sample_period = 1;
        self.try_open(&attr).map_err(|error| self.refused(&error, "cannot record blocked time"))?;
        Ok(PlannedEvent { source: EventSource::Switch, attr })
    }

    fn syscalls(&mut self) -> Result<[PlannedEvent; 4]> {
        let mut enter =
            self.base(event_kind::TRACEPOINT, tracefs::tracepoint_id("raw_syscalls", "sys_enter")?);
        let mut exit = self.base(event_kind::TRACEPOINT, tracefs::tracepoint_id("raw_syscalls", "sys_exit")?);
        let mut stacks = self.with_stack(enter).without(flag::EXCLUDE_KERNEL);
        stacks.sample_type |= sample_bit::RAW;
        stacks.sample_type &= !sample_bit::CALLCHAIN;
        // The call's number and result come with its end. Of its beginning only the time matters, and its six
        // arguments would be most of the data.
        exit.sample_type |= sample_bit::RAW;
        (enter.sample_period, exit.sample_period) = (1, 1);
        // A process too short for the period has its stacks from the other event. That one writes into a ring of its own,
        // and what does not fit there is not copied.
        let (mut regular, mut every) = (stacks, stacks);
        (regular.sample_period, every.sample_period) = (SYSCALL_STACK_PERIOD, 1);
        let events = [
            PlannedEvent { source: EventSource::SyscallEnter, attr: enter },
            PlannedEvent { source: EventSource::SyscallExit, attr: exit },
            PlannedEvent { source: EventSource::SyscallStack { is_regular: true }, attr: regular },
            PlannedEvent { source: EventSource::SyscallStack { is_regular: false }, attr: every },
        ];
        for event in &events {
            self.try_open(&event.attr).map_err(|error| self.refused(&error, "cannot record system calls"))?;
        }
        Ok(events)
    }

    fn named(&mut self, at: usize, event: &NamedEvent) -> Result<PlannedEvent> {
        let mut attr = self.with_stack(self.base(event.kind, event.config));
        attr.sample_type |= sample_bit::PERIOD;
        if matches!(event.kind, event_kind::HARDWARE | event_kind::HARDWARE_CACHE | event_kind::RAW) {
            attr.sample_period = u64::from(self.options.frequency);
            attr = attr.with(flag::FREQ);
        } else if event.kind == event_kind::SOFTWARE && event.config <= 1 {
            attr.sample_period = 1_000_000_000 / u64::from(self.options.frequency);
        } else {
            attr.sample_period = 1;
        }
        if event.kind == event_kind::TRACEPOINT {
            attr = attr.without(flag::EXCLUDE_KERNEL);
        }
        let what = format!("cannot record {}", event.name);
        let tried = match self.try_open(&attr) {
            // The kernel's side may be refused although the user's is not.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => {
                attr = attr.with(flag::EXCLUDE_KERNEL).without(flag::EXCLUDE_CALLCHAIN_USER);
                attr.sample_type &= !sample_bit::CALLCHAIN;
                self.try_open(&attr)
            }
            tried => tried,
        };
        tried.map_err(|error| self.refused(&error, &what))?;
        Ok(PlannedEvent { source: EventSource::Named(at), attr })
    }
}

/// The level of `kernel.perf_event_paranoid` that all requested events need, so that a user who sets it is not
/// refused again.
fn needed_level(options: &RecordOptions, named: &[NamedEvent]) -> i32 {
    if options.syscalls || named.iter().any(|event| event.kind == event_kind::TRACEPOINT) {
        level::TRACEPOINTS
    } else if matches!(options.target, Target::All) {
        level::EVERY_PROCESS
    } else if options.off_cpu {
        level::KERNEL_SIDE
    } else {
        level::USER_SIDE
    }
}

/// Sets the clock that all events and rings share, by which their records are put in order.
pub(crate) fn clocked(mut attr: EventAttr) -> EventAttr {
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.with(flag::USE_CLOCKID)
}
