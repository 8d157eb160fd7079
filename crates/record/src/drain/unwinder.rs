//! Keeps the records of a ring. The stacks of samples are unwound in place, so that their dumps, by far the largest
//! part, need not be copied.
//!
//! A stack that cannot be unwound completely is kept as it is: the collector, which sees new code in the right order
//! and is in no hurry, unwinds it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use flamelet_unwind::perf_event::sample_bit;
use flamelet_unwind::{Dump, End, MAX_DEPTH, Modules, walk};
use rustc_hash::FxHashMap;

use crate::collect::live_stack::LiveStack;
use crate::collect::{Counters, LARGEST_DUMP, Published, SharedModules};
use crate::events::chunk::{Kept, Unwound, UnwoundStack};
use crate::events::plan::EventSource;
use crate::events::ring_records::{RingRecord, RingSample, UserSide};
use crate::events::session::{Origin, Origins};

/// What the draining threads share with the rest of the recording.
#[derive(Clone)]
pub(crate) struct DrainContext {
    pub(crate) modules: SharedModules,
    pub(crate) origins: Origins,
    pub(crate) counters: Arc<Counters>,
}

/// Unwinds samples in place. Never waits for a lock: the collector may hold it, and may be the very thread that this
/// one just preempted.
pub(super) struct Unwinder {
    context: DrainContext,
    known: FxHashMap<u64, Origin>,
    /// The last ones used: most samples are like the one before.
    last_origin: Option<(u64, Origin)>,
    last_process: Option<LastProcess>,
    /// When the code of a process last changed, until the collector has processed the change.
    changes: FxHashMap<u32, u64>,
    frames: Box<[u64; MAX_DEPTH]>,
}

/// The code of a process at one version of the shared modules.
struct LastProcess {
    pid: u32,
    version: u64,
    published: Published,
}

impl Unwinder {
    pub(super) fn new(context: &DrainContext) -> Self {
        Self {
            context: context.clone(),
            known: FxHashMap::default(),
            last_origin: None,
            last_process: None,
            changes: FxHashMap::default(),
            frames: Box::new([0; MAX_DEPTH]),
        }
    }

    /// Keeps a record about processes.
    pub(super) fn keep_track(&mut self, bytes: &[u8], kept: &mut Kept) {
        if let Some((record, _)) = RingRecord::first(bytes)
            && let (Some(pid), Some(time)) = (record.changes_code_of(), record.time())
        {
            let known = self.changes.entry(pid).or_insert(time);
            *known = time.max(*known);
        }
        kept.bytes.extend_from_slice(bytes);
    }

    /// Keeps a record from the ring of samples. Records about processes must be known up to `settled`: a later sample
    /// may be in code that is not known yet. With `live`, stacks larger than their dumps are completed. Returns the
    /// time of the record.
    pub(super) fn keep(
        &mut self,
        bytes: &[u8],
        kept: &mut Kept,
        settled: u64,
        live: Option<&mut LiveStack>,
    ) -> Option<u64> {
        let (record, _) = RingRecord::first(bytes)?;
        match self.unwind(&record, kept, settled, live) {
            Some(stack_at) => record.push_without_stack(stack_at, &mut kept.bytes),
            None => kept.bytes.extend_from_slice(bytes),
        }
        record.time()
    }

    /// Unwinds a sample. Returns the offset of its stack, which is no longer needed.
    fn unwind(
        &mut self,
        record: &RingRecord<'_>,
        kept: &mut Kept,
        settled: u64,
        live: Option<&mut LiveStack>,
    ) -> Option<usize> {
        let origin = if record.is_sample() { self.origin(record)? } else { return None };
        if origin.sample_type & sample_bit::STACK_USER == 0 {
            return None;
        }
        let sample = record.sample(origin.sample_type)?;
        let (user, stack_at) = (sample.user?, sample.stack_at?);
        if sample.time >= settled {
            return None;
        }
        let process = self.code_of(sample.thread.pid)?;
        let live = live.filter(|_| origin.source == EventSource::Cpu);
        let depth = self.whole_stack(&process.published.modules, &sample, &user, live);
        self.last_process = Some(process);
        let depth = depth?;
        let Unwound { frames, stacks } = &mut kept.unwound;
        let (record, first) = (kept.bytes.len() as u32, frames.len() as u32);
        frames.extend_from_slice(&self.frames[..depth]);
        stacks.push(UnwoundStack { record, first, depth: depth as u32 });
        Some(stack_at)
    }

    fn origin(&mut self, record: &RingRecord<'_>) -> Option<Origin> {
        let id = record.identifier()?;
        if let Some((_, origin)) = self.last_origin.filter(|(known, _)| *known == id) {
            return Some(origin);
        }
        if !self.known.contains_key(&id) {
            // Only newly opened events are missing, so this is rare.
            self.known = self.context.origins.try_lock().ok()?.clone();
        }
        let origin = *self.known.get(&id)?;
        self.last_origin = Some((id, origin));
        Some(origin)
    }

    /// Returns the code of `pid`, unless a change to it is not included yet.
    fn code_of(&mut self, pid: u32) -> Option<LastProcess> {
        let version = self.context.modules.version();
        let last = self.last_process.take().filter(|last| last.pid == pid && last.version == version);
        let process = match last {
            Some(last) => last,
            None => LastProcess { pid, version, published: self.context.modules.try_get(pid)? },
        };
        if let Some(&changed) = self.changes.get(&pid) {
            if process.published.as_of < changed {
                return None;
            }
            self.changes.remove(&pid);
        }
        Some(process)
    }

    /// Returns the number of frames, if the stack is complete.
    fn whole_stack(
        &mut self,
        modules: &Modules,
        sample: &RingSample<'_>,
        user: &UserSide<'_>,
        live: Option<&mut LiveStack>,
    ) -> Option<usize> {
        let (sp, frames) = (user.registers.sp, &mut self.frames[..]);
        let walked = match live {
            None => walk(modules, &user.registers, &mut Dump::new(sp, user.stack), frames),
            Some(live) => {
                live.begin(sample.thread.pid, sample.time);
                let mut is_far = false;
                let mut stack = Dump::with_beyond(sp, user.stack, |address| {
                    is_far |= address.wrapping_sub(sp) >= LARGEST_DUMP;
                    live.read(address)
                });
                let walked = walk(modules, &user.registers, &mut stack, frames);
                // Memory that was read too late may belong to another call.
                if !live.is_right() {
                    return None;
                }
                if live.is_used() && walked.end == End::Rooted {
                    let Counters { completed, completed_far, .. } = &*self.context.counters;
                    completed.fetch_add(1, Ordering::Relaxed);
                    completed_far.fetch_add(u64::from(is_far), Ordering::Relaxed);
                }
                walked
            }
        };
        (walked.end == End::Rooted).then_some(walked.depth)
    }
}
