//! The open events of a recording and the rings that they write into.
//!
//! Each CPU has two rings: a small one for records that track processes (maps, names, forks, exits), so that a flood
//! of samples cannot push them out, and a large one for samples. A third one is for the stacks of system calls, of which
//! as many are taken as there is room for. A ring belongs to a dummy event on the recorder's
//! own thread, so it never hangs up, whichever of the watched threads end.

use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustc_hash::FxHashMap;

use flamelet_unwind::perf_event::{EventAttr, config, event_kind, flag};

use crate::events::plan::{EventSource, Plan, PlannedEvent, clocked};
use crate::events::ring_records::COMMON_FIELDS;
use crate::sys::event::{PerfEvent, Watch};
use crate::sys::machine;
use crate::sys::ring::Ring;
use crate::{Error, ErrorKind, Result, access};

const TRACK_RING_BYTES: usize = 256 << 10;
const SMALLEST_RING_BYTES: usize = 64 << 10;
const DEFAULT_RING_BYTES: usize = 8 << 20;
/// Enough to lose no system call of a program that does nothing else.
const FLOOD_RING_BYTES: usize = 16 << 20;
/// Room for some hundred stacks of system calls, between two times that the ring is emptied.
const CALL_STACK_RING_BYTES: usize = 8 << 20;
/// The limit for all rings together, on a machine with many CPUs.
const MOST_RING_BYTES: usize = 512 << 20;

/// What the records of one event mean, and the thread that it was opened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) source: EventSource,
    pub(crate) sample_type: u64,
    /// The thread that the event was opened on; 0 for everything. Threads that inherit the event keep this owner.
    pub(crate) owner: u32,
    /// How often the events had been reopened with other options.
    pub(crate) generation: u32,
}

/// Events by the id that their records carry.
pub(crate) type Origins = Arc<Mutex<FxHashMap<u64, Origin>>>;

#[derive(Debug)]
pub(crate) struct CpuRings {
    pub(crate) cpu: u32,
    pub(crate) track: Ring,
    pub(crate) samples: Ring,
    /// For stacks of system calls; those that do not fit are left out.
    pub(crate) call_stacks: Option<Ring>,
}

impl CpuRings {
    /// Returns the size of all rings in bytes.
    pub(crate) fn size(&self) -> usize {
        self.track.size() + self.samples.size() + self.call_stacks.as_ref().map_or(0, Ring::size)
    }
}

/// The open events. Dropping it closes them.
pub(crate) struct Session {
    cpus: Vec<Outputs>,
    events: Vec<(EventSource, PerfEvent)>,
    origins: Origins,
    generation: u32,
    past_running_nanos: u64,
    /// The level of the plan.
    level: i32,
}

fn running_nanos<'a>(events: impl IntoIterator<Item = &'a (EventSource, PerfEvent)>) -> u64 {
    events.into_iter().map(|(_, event)| event.running_nanos().unwrap_or(0)).sum()
}

/// The rings that the events of one CPU write into.
struct Outputs {
    cpu: u32,
    track: RawFd,
    samples: RawFd,
    call_stacks: Option<RawFd>,
}

impl Outputs {
    /// Returns the ring that events of `source` write into.
    fn of(&self, source: EventSource) -> RawFd {
        match source {
            EventSource::Track => self.track,
            EventSource::SyscallStack { is_regular: false } => self.call_stacks.unwrap_or(self.samples),
            _ => self.samples,
        }
    }
}

impl Session {
    /// Creates the rings. [`Session::watch`] opens the events.
    pub(crate) fn new(plan: &Plan, ring_bytes: Option<usize>) -> Result<(Self, Vec<CpuRings>)> {
        machine::raise_file_limit();
        let cpus = machine::online_cpus();
        // Events that are recorded every time come in floods.
        let flood =
            |event: &PlannedEvent| event.source != EventSource::Track && event.attr.sample_period == 1;
        let wanted = if plan.events.iter().any(flood) { FLOOD_RING_BYTES } else { DEFAULT_RING_BYTES };
        let most = (MOST_RING_BYTES / cpus.len().max(1)).max(SMALLEST_RING_BYTES);
        let wanted = ring_bytes.unwrap_or(wanted.min(most)).max(SMALLEST_RING_BYTES);
        let with_call_stacks = plan.event(EventSource::SyscallStack { is_regular: false }).is_some();
        let rings = map_rings(&cpus, wanted, with_call_stacks)?;
        let outputs = rings.iter().map(|rings| Outputs {
            cpu: rings.cpu,
            track: rings.track.fd(),
            samples: rings.samples.fd(),
            call_stacks: rings.call_stacks.as_ref().map(Ring::fd),
        });
        let session = Self {
            cpus: outputs.collect(),
            events: Vec::new(),
            origins: Origins::default(),
            generation: 0,
            past_running_nanos: 0,
            level: plan.level,
        };
        Ok((session, rings))
    }

    /// Returns the meaning of the ids in records; it grows when more is watched.
    pub(crate) fn origins(&self) -> Origins {
        self.origins.clone()
    }

    /// Opens `events` on `watch`. Returns false if the thread has ended meanwhile.
    pub(crate) fn watch(&mut self, watch: Watch, events: &[PlannedEvent]) -> Result<bool> {
        let owner = match watch {
            Watch::Thread(tid) => tid,
            Watch::Everything => 0,
        };
        for outputs in &self.cpus {
            for planned in events {
                let event = match PerfEvent::open(&planned.attr, watch, outputs.cpu) {
                    Ok(event) => event,
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(false),
                    // A CPU that went offline since it was listed has nothing to watch.
                    Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                    Err(error) => return Err(access::explain_watch(&error, watch, self.level)),
                };
                event.redirect_to(outputs.of(planned.source))?;
                let sample_type = planned.attr.sample_type;
                let origin =
                    Origin { source: planned.source, sample_type, owner, generation: self.generation };
                self.origins.lock().unwrap_or_else(PoisonError::into_inner).insert(event.id()?, origin);
                self.events.push((planned.source, event));
            }
        }
        Ok(true)
    }

    /// Starts every event.
    pub(crate) fn enable(&self) -> Result<()> {
        self.events.iter().try_for_each(|(_, event)| event.enable()).map_err(Error::from)
    }

    /// Stops every event, so that the rings can be emptied for the last time.
    pub(crate) fn disable(&self) {
        for (_, event) in &self.events {
            // An event of a thread that has ended cannot be stopped, and need not be.
            let _ = event.disable();
        }
    }

    /// Closes every event. The kernel takes a twentieth of a second for the last event of each tracepoint, so those
    /// of different sources are closed in parallel, while the caller does something else. Join the returned threads.
    pub(crate) fn close(self) -> Vec<JoinHandle<()>> {
        let mut by_source: FxHashMap<EventSource, Vec<PerfEvent>> = FxHashMap::default();
        for (source, event) in self.events {
            by_source.entry(source).or_default().push(event);
        }
        let close = |events: Vec<PerfEvent>| {
            std::thread::Builder::new().name("flamelet-close".to_owned()).spawn(move || drop(events))
        };
        // If no thread can be started, the events are closed on this one.
        by_source.into_values().filter_map(|events| close(events).ok()).collect()
    }

    /// Reopens the events of one source with other options: `open` opens the new ones, then the old ones stop and the
    /// new ones start. On failure the old ones continue.
    pub(crate) fn replace(
        &mut self,
        source: EventSource,
        open: impl FnOnce(&mut Self) -> Result<usize>,
    ) -> Result<()> {
        self.generation += 1;
        let before = self.events.len();
        if let Err(error) = open(self) {
            self.events.truncate(before);
            return Err(error);
        }
        let new = self.events.split_off(before);
        let (old, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.events).into_iter().partition(|(known, _)| *known == source);
        self.events = kept;
        for (_, event) in &old {
            let _ = event.disable();
        }
        for (_, event) in &new {
            // An event whose thread has ended meanwhile cannot be started.
            let _ = event.enable();
        }
        self.past_running_nanos += running_nanos(&old);
        self.events.extend(new);
        Ok(())
    }

    /// Returns for how long the events of `source` watched a running thread.
    pub(crate) fn running_nanos(&self, source: EventSource) -> u64 {
        self.past_running_nanos + running_nanos(self.events.iter().filter(|(known, _)| *known == source))
    }
}

/// Maps rings of `sample_bytes`, or smaller ones if this user may not lock that much memory.
fn map_rings(cpus: &[u32], sample_bytes: usize, with_call_stacks: bool) -> Result<Vec<CpuRings>> {
    let mut sample_bytes = sample_bytes.next_power_of_two();
    loop {
        let track_bytes = TRACK_RING_BYTES.min(sample_bytes);
        let call_stack_bytes = CALL_STACK_RING_BYTES.min(sample_bytes);
        let made: Result<Vec<CpuRings>> = cpus
            .iter()
            .map(|&cpu| {
                let call_stacks = with_call_stacks.then(|| ring(cpu, call_stack_bytes)).transpose()?;
                let (track, samples) = (ring(cpu, track_bytes)?, ring(cpu, sample_bytes)?);
                Ok(CpuRings { cpu, track, samples, call_stacks })
            })
            .collect();
        match made {
            Err(error) if error.kind() == ErrorKind::Denied && sample_bytes > SMALLEST_RING_BYTES => {
                sample_bytes /= 2;
            }
            made => return made,
        }
    }
}

fn ring(cpu: u32, bytes: usize) -> Result<Ring> {
    let mut attr = clocked(EventAttr::new(event_kind::SOFTWARE, config::DUMMY)).with(
        flag::DISABLED | flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV | flag::SAMPLE_ID_ALL | flag::WATERMARK,
    );
    attr.sample_type = COMMON_FIELDS;
    attr.wakeup = (bytes / 4) as u32;
    let event = PerfEvent::open(&attr, Watch::Thread(0), cpu)
        .map_err(|error| access::explain(&error, "cannot use perf_event_open", access::level::USER_SIDE))?;
    Ring::map(event, bytes / machine::page_size()).map_err(|(_, error)| locked_too_much(&error))
}

fn locked_too_much(error: &io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::ENOMEM) => Error::new(
            ErrorKind::Denied,
            "no memory for the rings: raise kernel.perf_event_mlock_kb or `ulimit -l`",
        ),
        _ => Error::new(ErrorKind::Io, format!("the rings cannot be mapped: {error}")),
    }
}
