//! What stands out on a timeline beside its functions: system calls, page faults, the garbage collector, and spans.

use flamelet_profile::{Label, LabelSetId, Profile, StackId, StringId};
use rustc_hash::FxHashMap;

use crate::stacks::Frames;

/// A mark that lanes refer to by its row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mark {
    /// `call`, `fault`, `gc` or `span`.
    pub(crate) kind: &'static str,
    /// The name of the system call, or the path of the span.
    pub(crate) name: String,
}
serialize!(Mark: kind, name);

/// The marks of a profile.
pub(super) struct Marks {
    pub(super) rows: Vec<Mark>,
    /// For each stack.
    of_stack: Vec<Option<u32>>,
    /// For each label set, the system call in which its samples wait.
    of_call: Vec<Option<u32>>,
    /// For each label set.
    of_span: Vec<Option<u32>>,
}

impl Marks {
    pub(super) fn of(profile: &Profile, frames: &Frames) -> Self {
        let mut marks =
            Self { rows: Vec::new(), of_stack: Vec::new(), of_call: Vec::new(), of_span: Vec::new() };
        let mut known = FxHashMap::default();
        let mut row = |kind, name: &str| {
            let mark = Mark { kind, name: name.to_owned() };
            *known.entry(mark).or_insert_with_key(|mark| {
                marks.rows.push(mark.clone());
                (marks.rows.len() - 1) as u32
            })
        };
        let names: Vec<Option<(Rank, u32)>> = frames
            .name_ids()
            .map(|name| meaning(frames.text(profile, name)).map(|(rank, kind, name)| (rank, row(kind, name))))
            .collect();
        let outermost = |stack: usize| {
            let frames =
                profile.stack(StackId::from_index(stack)).iter().flat_map(|&frame| frames.raw(frame));
            // Of equal ones the outermost: a read that faults is a read.
            frames.filter_map(|&name| names[name as usize]).max_by_key(|(rank, _)| *rank).map(|(_, row)| row)
        };
        marks.of_stack = (0..profile.stack_count()).map(outermost).collect();
        let mut labelled = |key: &str, kind| -> Vec<Option<u32>> {
            let key = profile.strings().find(key);
            let sets = (0..profile.label_set_count()).map(LabelSetId::from_index);
            sets.map(|set| Some(row(kind, text(profile, profile.labels(set), key?)?))).collect()
        };
        (marks.of_call, marks.of_span) = (labelled("syscall", "call"), labelled("span", "span"));
        marks
    }

    /// Returns what a sample with this stack and these labels does, apart from its functions.
    pub(super) fn of_sample(&self, stack: StackId, labels: LabelSetId) -> Option<u32> {
        self.of_stack[stack.index()].or(self.of_call[labels.index()])
    }

    pub(super) fn span(&self, labels: LabelSetId) -> Option<u32> {
        self.of_span[labels.index()]
    }
}

fn text<'p>(profile: &'p Profile, labels: &[Label], key: StringId) -> Option<&'p str> {
    let label = labels.iter().find(|label| label.key == key && label.is_text())?;
    Some(profile.string(label.text))
}

/// Which mark of a stack counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// The kernel's work, for whatever called it.
    Kernel,
    /// A collector makes system calls, too.
    Collector,
}

/// How the names of functions begin that collect garbage: of Go, V8, HotSpot, CPython, .NET, Ruby and OCaml.
const COLLECTORS: [&str; 26] = [
    "runtime.gcBgMarkWorker",
    "runtime.gcAssistAlloc",
    "runtime.gcDrain",
    "runtime.gcStart",
    "runtime.bgsweep",
    "runtime.bgscavenge",
    "v8::internal::Heap::CollectGarbage",
    "v8::internal::ScavengerCollector",
    "v8::internal::MarkCompactCollector",
    "v8::internal::ConcurrentMarking",
    "ConcurrentGCThread::run",
    "GCTaskThread::run",
    "VM_G1CollectForAllocation::doit",
    "VM_GenCollectForAllocation::doit",
    "G1EvacuateRegionsBaseTask::work",
    "G1CMTask::do_marking_step",
    "PSScavenge::invoke",
    "gc_collect_main",
    "_PyGC_Collect",
    "WKS::gc_heap::garbage_collect",
    "SVR::gc_heap::garbage_collect",
    "gc_marks_continue",
    "gc_sweep_step",
    "gc_start_internal",
    "caml_major_collection_slice",
    "caml_empty_minor_heap",
];

/// Returns what a function marks.
fn meaning(function: &str) -> Option<(Rank, &'static str, &str)> {
    if let Some(call) = system_call(function) {
        return Some((Rank::Kernel, "call", call));
    }
    let plain = function.split(['(', '.']).next().unwrap_or(function);
    match plain {
        "asm_exc_page_fault" | "exc_page_fault" | "do_user_addr_fault" | "do_page_fault" => {
            Some((Rank::Kernel, "fault", ""))
        }
        _ => {
            // `gc_sweep_step` and its copies `gc_sweep_step.isra.0`, but not `gc_sweep_steps`.
            let is_collector = |start: &&str| {
                let rest = function.strip_prefix(*start);
                rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
            };
            COLLECTORS.iter().find(|start| is_collector(start)).map(|_| (Rank::Collector, "gc", ""))
        }
    }
}

/// Returns the system call of a kernel entry function: `read` for `__x64_sys_read`.
fn system_call(name: &str) -> Option<&str> {
    ["__x64_sys_", "__arm64_sys_", "__do_sys_", "__se_sys_", "ksys_"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::ProfileBuilder;

    #[test]
    fn functions_that_mark_a_moment() {
        let kind = |function: &str| meaning(function).map(|(_, kind, name)| format!("{kind} {name}"));
        assert_eq!(kind("__x64_sys_read").as_deref(), Some("call read"));
        assert_eq!(kind("asm_exc_page_fault").as_deref(), Some("fault "));
        for collector in [
            "runtime.gcBgMarkWorker",
            "runtime.gcBgMarkWorker.func2",
            "gc_sweep_step.isra.0",
            "GCTaskThread::run()",
        ] {
            assert_eq!(kind(collector).as_deref(), Some("gc "), "{collector}");
        }
        for other in ["read", "gc_sweep_steps", "app::page_fault", "runtime.gcDrainer", "main"] {
            assert_eq!(kind(other), None, "{other}");
        }
    }

    #[test]
    fn a_stack_has_its_outermost_call_unless_it_collects_garbage() {
        let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
        let mut stack = |names: &[&str]| {
            let frames: Vec<_> = names.iter().map(|name| builder.named_frame(name)).collect();
            builder.stack(&frames)
        };
        let reads = stack(&["copy", "asm_exc_page_fault", "__x64_sys_read", "main"]);
        let collects = stack(&["__x64_sys_futex", "gc_collect_main", "main"]);
        let works = stack(&["work", "main"]);
        let labels = [("span", "a:b"), ("syscall", "poll")].map(|(key, text)| builder.text_label(key, text));
        let labels = builder.labels(&labels);
        builder.sample(works, labels, &[1]);
        let profile = builder.finish();
        let marks = Marks::of(&profile, &Frames::new(&profile));
        let named = |row: Option<u32>| {
            row.map(|row| (marks.rows[row as usize].kind, &*marks.rows[row as usize].name))
        };
        assert_eq!(named(marks.of_sample(reads, LabelSetId::EMPTY)), Some(("call", "read")));
        assert_eq!(named(marks.of_sample(collects, LabelSetId::EMPTY)), Some(("gc", "")));
        assert_eq!(named(marks.of_sample(works, LabelSetId::EMPTY)), None);
        assert_eq!(named(marks.of_sample(works, labels)), Some(("call", "poll")), "where a thread waits");
        assert_eq!((named(marks.span(labels)), marks.span(LabelSetId::EMPTY)), (Some(("span", "a:b")), None));
    }
}
