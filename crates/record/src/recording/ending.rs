//! Ends a recording: the last records, the names, and the summary.

use std::sync::atomic::Ordering;
use std::time::Duration;

use flamelet_profile::{Profile, Quality, ValueType};
use flamelet_symbol::symbolize;
use rustc_hash::FxHashMap;

use super::{Drain, Recording, WatchTarget};
use crate::assemble::{self, Columns};
use crate::collect::{ArgumentsId, CallTotals, Counters, Findings};
use crate::drain::Message;
use crate::events::plan::{CpuClock, EventSource};
use crate::names::{self, FoundNames, calls};
use crate::sys::machine;
use crate::sys::sched::Urgency;
use crate::{CommandEnd, Error, ErrorKind, RecordOptions, Recorded, Result, Summary, Target, summary};

impl Recording {
    /// Stops everything and makes the profile.
    pub(super) fn finish(mut self) -> Result<Recorded> {
        let elapsed = self.started.elapsed();
        self.session.disable();
        let _ = self.messages.send(Message::Stopped(machine::monotonic_nanos()));
        let running_nanos = self.session.running_nanos(EventSource::Cpu);
        let mut urgency = None;
        match std::mem::replace(&mut self.drain, Drain::None) {
            Drain::Batch(batch) => self.drain_cpu_nanos += batch.finish()?.cpu_nanos,
            Drain::Eager(eager) => {
                urgency = eager.urgency();
                self.drain_cpu_nanos += eager.finish()?.cpu_nanos;
            }
            Drain::None => {}
        }
        let Self { messages, collector, background, session, .. } = self;
        drop(messages);
        let closing = session.close();
        let failed = |_| Error::new(ErrorKind::Io, "the collecting thread failed");
        let collected = collector.join().map_err(failed)?;
        let names = background.finish();
        let was_eager = self.completion.was_needed(&self.context);
        self.notes.extend(urgency.filter(|_| was_eager).and_then(urgency_note));
        let clock = match self.plan.clock {
            CpuClock::Cycles => "perf cycles",
            CpuClock::Software => "perf cpu-clock",
        };
        let ending = Ending {
            options: &self.options,
            engine: if self.options.cpu { clock } else { "perf" },
            with_kernel: self.plan.with_kernel,
            columns: &self.columns,
            start_nanos: self.start_nanos,
            elapsed,
            running_nanos,
            own_cpu_nanos: self.drain_cpu_nanos + collected.cpu_nanos,
            findings: &collected.findings,
        };
        let (profile, mut summary, symbols) =
            ending.finish(names, &self.context.counters, self.notes, collected.save_failure);
        summary.was_eager = was_eager;
        let command = match self.watched {
            WatchTarget::Running(mut child) => {
                let status = child.try_wait()?;
                Some(CommandEnd::new(child, status))
            }
            _ => None,
        };
        closing.into_iter().for_each(|closed| drop(closed.join()));
        Ok(Recorded { profile, summary, symbols, command })
    }
}

fn urgency_note(urgency: Urgency) -> Option<String> {
    let note = "the threads that complete stacks have no real-time priority; some stacks stay truncated";
    (urgency == Urgency::Ordinary).then(|| note.to_owned())
}

/// What is known once everything has stopped.
pub(crate) struct Ending<'a> {
    pub(crate) options: &'a RecordOptions,
    /// What took the samples.
    pub(crate) engine: &'static str,
    pub(crate) with_kernel: bool,
    pub(crate) columns: &'a Columns,
    pub(crate) start_nanos: i64,
    pub(crate) elapsed: Duration,
    pub(crate) running_nanos: u64,
    pub(crate) own_cpu_nanos: u64,
    pub(crate) findings: &'a Findings,
}

impl Ending<'_> {
    /// Returns the profile, its summary (with `notes` first), and how its names were found.
    pub(crate) fn finish(
        &self,
        names: FoundNames,
        counters: &Counters,
        notes: Vec<String>,
        save_failure: Option<std::io::Error>,
    ) -> (Profile, Summary, Option<symbolize::SymbolizeSummary>) {
        let mut names = names;
        let (mut profile, symbols, names_nanos) = self.profile(&mut names);
        let mut summary = self.summary(counters, symbols.as_ref(), &profile);
        summary.names_cpu = Duration::from_nanos(names_nanos);
        summary.notes = notes;
        if symbols.is_some() {
            summary.notes.extend(names::advice(self.findings, &mut names, &profile));
        }
        let unsaved = |error| format!("the recording could not be saved while it ran: {error}");
        summary.notes.extend(save_failure.map(unsaved));
        self.judge(&mut profile, &mut summary);
        (profile, summary, symbols)
    }

    /// Returns the profile with names, and the CPU time spent on finding them.
    fn profile(&self, names: &mut FoundNames) -> (Profile, Option<symbolize::SymbolizeSummary>, u64) {
        let before = machine::thread_cpu_nanos();
        let mut profile = assemble::profile(self.findings, self.columns, names, self.start_nanos);
        profile.header.duration_nanos = i64::try_from(self.elapsed.as_nanos()).unwrap_or(i64::MAX);
        if self.options.cpu {
            let (kind, unit) = (profile.intern("cpu"), profile.intern("nanoseconds"));
            profile.header.period_type = Some(ValueType { kind, unit });
            profile.header.period = 1_000_000_000 / i64::from(self.options.frequency);
        }
        let symbols = names.symbolize(&mut profile, &self.findings.stacks.spaces.images);
        (profile, symbols, names.cpu_nanos + (machine::thread_cpu_nanos() - before))
    }

    fn summary(
        &self,
        counters: &Counters,
        symbols: Option<&symbolize::SymbolizeSummary>,
        profile: &Profile,
    ) -> Summary {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let samples = count(&counters.samples);
        let mut quality = self.findings.stacks.quality;
        let begun = self.stacks_from_the_beginning(profile);
        quality.rooted += begun;
        quality.truncated = quality.truncated.saturating_sub(begun);
        quality.no_rule = quality.no_rule.saturating_sub(begun);
        let everything = matches!(self.options.target, Target::All);
        let target_cpu = (self.options.cpu && !everything).then(|| Duration::from_nanos(self.running_nanos));
        Summary {
            engine: self.engine.to_owned(),
            elapsed: self.elapsed,
            samples,
            lost: count(&counters.lost),
            rooted: quality.rooted,
            truncated: quality.truncated,
            cut: quality.out_of_dump,
            without_rule: quality.no_rule,
            locations: if symbols.is_some() { profile.locations().len() } else { 0 },
            unresolved: if symbols.is_some() { profile.unnamed_locations() } else { 0 },
            target_cpu,
            asked_hertz: if self.options.cpu { f64::from(self.options.frequency) } else { 0.0 },
            achieved_hertz: target_cpu
                .filter(|cpu| !cpu.is_zero() && self.options.events.is_empty() && !self.options.syscalls)
                .map(|cpu| samples as f64 / cpu.as_secs_f64()),
            own_cpu: Duration::from_nanos(self.own_cpu_nanos),
            throttled: self.findings.throttled,
            with_kernel: self.with_kernel,
            syscalls: self.syscalls(),
            calls_by_arguments: self.calls_by_arguments(),
            ..Summary::default()
        }
    }

    /// Counts the stacks that end in code without unwind information because programs and threads begin there: in
    /// assembly (or, in musl, C built without it). Recognised by their names, which are known only now.
    fn stacks_from_the_beginning(&self, profile: &Profile) -> u64 {
        const BEGINNINGS: [&str; 15] = [
            "_start",
            "_start_c",
            "__libc_start_main",
            "libc_start_main_stage2",
            "start",
            "start_c11",
            "__clone",
            "clone",
            // Go's goroutines and threads, where the table of its functions could not be used.
            "runtime.goexit",
            "runtime.goexit.abi0",
            "runtime.mstart",
            "runtime.mstart.abi0",
            "runtime.mcall",
            "runtime.rt0_go",
            "runtime.rt0_go.abi0",
        ];
        let stacks = &self.findings.stacks.table;
        let mut by_address: FxHashMap<u64, u64> = FxHashMap::default();
        for (&stack, count) in &self.findings.stacks.open_ended {
            if let Some(&root) = stacks.list(stack).last() {
                *by_address.entry(stacks.locations[root as usize].address).or_default() += count;
            }
        }
        let is_beginning = |location: &flamelet_profile::Location| {
            let function = profile.lines_of(location).last().and_then(|line| line.function);
            function.is_some_and(|id| BEGINNINGS.contains(&profile.string(profile.function(id).name)))
        };
        let beginnings = profile.locations().iter().filter(|location| is_beginning(location));
        beginnings.filter_map(|location| by_address.get(&location.address)).sum()
    }

    fn syscalls(&self) -> Vec<summary::SyscallSummary> {
        let by_number = self.findings.syscalls.by_number.iter();
        let named = |(&number, stats): (&i64, &crate::SyscallStats)| summary::SyscallSummary {
            name: calls::syscall(number),
            stats: stats.clone(),
        };
        let mut calls: Vec<summary::SyscallSummary> = by_number.map(named).collect();
        calls.sort_by(|a, b| b.stats.calls.cmp(&a.stats.calls).then_with(|| a.name.cmp(&b.name)));
        calls
    }

    /// Returns what the calls with the same arguments add up to, the slowest in total first.
    fn calls_by_arguments(&self) -> Vec<summary::ArgumentsSummary> {
        let mut by_arguments: FxHashMap<(i64, ArgumentsId), CallTotals> = FxHashMap::default();
        for (key, totals) in &self.findings.syscalls.by_thread {
            if let Some(arguments) = key.arguments {
                by_arguments.entry((key.number, arguments)).or_default().add(*totals);
            }
        }
        let mut calls: Vec<summary::ArgumentsSummary> = by_arguments
            .into_iter()
            .map(|((number, arguments), totals)| summary::ArgumentsSummary {
                name: calls::syscall(number),
                arguments: self.findings.arguments.text(arguments).to_owned(),
                calls: totals.calls,
                errors: totals.errors,
                nanos: totals.nanos,
            })
            .collect();
        calls.sort_by(|a, b| {
            (b.nanos, b.calls).cmp(&(a.nanos, a.calls)).then_with(|| a.arguments.cmp(&b.arguments))
        });
        calls
    }

    /// Adds the quality to the profile.
    fn judge(&self, profile: &mut Profile, summary: &mut Summary) {
        if summary.throttled > 0 {
            let note = format!("the kernel paused sampling {} times: lower the frequency", summary.throttled);
            summary.notes.push(note);
        }
        if summary.lost > 0 {
            summary.notes.push(format!(
                "{} samples were lost because a ring was full; lower the frequency or raise `ulimit -l`",
                summary.lost
            ));
        }
        /// With fewer samples, a rate means nothing.
        const ENOUGH_SAMPLES: f64 = 100.0;
        let expected = summary.target_cpu.map_or(0.0, |cpu| cpu.as_secs_f64() * summary.asked_hertz);
        let asked_hertz = if expected < ENOUGH_SAMPLES { 0.0 } else { summary.asked_hertz };
        let (samples, truncated) = judged_stacks(self.options.cpu, summary);
        profile.quality = Some(Quality {
            engine: profile.intern(&summary.engine),
            asked_millihertz: (asked_hertz * 1000.0) as u64,
            achieved_millihertz: summary.achieved_hertz.map_or(0, |hertz| (hertz * 1000.0) as u64),
            samples,
            lost: summary.lost,
            truncated,
            unresolved: summary.unresolved as u64,
            own_cpu_nanos: self.own_cpu_nanos,
        });
        for note in &summary.notes {
            profile.add_comment(note);
        }
        // The profile already has this note.
        summary.notes.extend(self.findings.timeline_note());
        for call in &summary.syscalls {
            let stats = &call.stats;
            profile.add_comment(&format!(
                "syscall {}: {} calls, {} errors, {} ns, p50 {} ns, p99 {} ns, max {} ns",
                call.name,
                stats.calls,
                stats.errors,
                stats.nanos,
                stats.quantile_nanos(0.5),
                stats.quantile_nanos(0.99),
                stats.longest_nanos
            ));
        }
    }
}

/// Returns how many samples there are, and how many of their stacks are cut. Calls that were traced and blocked threads
/// have stacks too, which are no samples: of CPU time, as large a part of the samples is cut as of all stacks.
fn judged_stacks(with_cpu: bool, summary: &Summary) -> (u64, u64) {
    let stacks = summary.rooted + summary.truncated;
    let samples = if with_cpu { summary.samples } else { summary.samples.max(stacks) };
    if stacks <= samples {
        return (samples, summary.truncated);
    }
    let cut = summary.truncated as f64 / stacks as f64;
    (samples, (cut * samples as f64).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_stacks_are_cut_than_there_are_samples() {
        let judged = |with_cpu, samples, rooted, truncated| {
            judged_stacks(with_cpu, &Summary { samples, rooted, truncated, ..Summary::default() })
        };
        assert_eq!(judged(true, 1000, 990, 10), (1000, 10));
        assert_eq!(judged(true, 986, 198, 3575), (986, 934), "blocked threads");
        assert_eq!(judged(false, 0, 81, 19), (100, 19), "traced calls");
        assert_eq!(judged(true, 0, 0, 0), (0, 0));
    }
}
