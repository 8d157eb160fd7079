//! The live tasks: as a profile, and as text.

use std::fmt::Write;
use std::time::Duration;

use flamelet_capture::profile::{Profile, ProfileBuilder, sort_rows_by_key};
use flamelet_capture::wait::tasks::{self, Info, Phase};
use flamelet_capture::wait::{Mapped, add_stack};
use flamelet_symbol::symbolize::Frame;

use super::names::Names;
#[cfg(feature = "http")]
use super::names::json_frame;
use super::threads;
use crate::Profiler;

/// The frame of tasks whose last poll was not sampled.
const NOT_SAMPLED: &str = "[not sampled]";

/// What is said where there is none.
const NO_TASKS: &str = "no tasks: flamelet::task, flamelet::spawn and flamelet::axum::layer create them";
const NONE_NOW: &str = "no task is alive at this moment";

/// Returns a profile that counts tasks by where they await.
pub(crate) fn task_profile(profiler: &Profiler) -> Profile {
    profiler.complete(counted().finish(), profiler.shared().settings.symbolize)
}

/// Returns a profile that counts tasks by where they await, and threads by where they are: those have the label `thread`.
#[cfg(feature = "http")]
pub(crate) fn task_and_thread_profile(profiler: &Profiler) -> Profile {
    let (mut mapped, threads) = (counted(), threads::busy_first());
    if !tasks::were_made() {
        mapped.builder().comment(&format!("flamelet: {NO_TASKS}"));
    }
    let names = Names::of(profiler.symbols(), stacks_of(&threads));
    threads::add(&threads, &names, &mut mapped);
    profiler.complete(mapped.finish(), profiler.shared().settings.symbolize)
}

/// Counts tasks by where they await.
fn counted() -> Mapped {
    let all = tasks::all();
    let mut mapped = Mapped::new(&[("goroutine", "count")]);
    mapped.builder().set_period("goroutine", "count", 1);
    for task in &all {
        let stack = add_stack(&mut mapped, &task.stack, missing(task));
        let builder = mapped.builder();
        let name = builder.text_label("task", &task.name);
        let phase = builder.text_label("state", task.phase.name());
        let labels = own_labels(builder, task).into_iter().chain([phase]).collect::<Vec<_>>();
        let labels = if labels.iter().any(|label| label.key == name.key) {
            labels
        } else {
            [&labels[..], &[name]].concat()
        };
        let labels = builder.labels(&labels);
        builder.merge_sample(stack, labels, &[1]);
    }
    if tasks::untracked() > 0 {
        let more = format!(
            "flamelet: {} tasks were not listed: more than {} at once",
            tasks::untracked(),
            tasks::MOST_TASKS
        );
        mapped.builder().comment(&more);
    }
    mapped
}

fn own_labels(builder: &mut ProfileBuilder, task: &Info) -> Vec<flamelet_capture::profile::Label> {
    let labels = task.labels.iter().filter(|(_, value)| !value.is_empty());
    labels.map(|(name, value)| builder.text_label(name, value)).collect()
}

/// Returns what stands for a stack that is not there.
fn missing(task: &Info) -> &'static str {
    match task.phase {
        Phase::Running => "[running]",
        _ if task.polls == 0 => "[not polled yet]",
        _ => NOT_SAMPLED,
    }
}

/// What lives: tasks, those that hold up a thread first, then those that await, the longest on top; threads; and the names on their stacks.
struct Living {
    tasks: Vec<Info>,
    threads: Vec<threads::Info>,
    names: Names,
}

impl Living {
    fn of(profiler: &Profiler) -> Self {
        let mut tasks = tasks::all();
        let threshold = tasks::long_polls::threshold();
        sort_rows_by_key(&mut tasks, |task| {
            let holds_up = task.phase == Phase::Running && task.phase_nanos >= threshold;
            std::cmp::Reverse((holds_up, task.phase == Phase::Awaiting, task.phase_nanos))
        });
        let threads = threads::busy_first();
        let of_tasks = tasks.iter().flat_map(|task| task.stack.iter().chain(&task.spawned).copied());
        let names = Names::of(profiler.symbols(), of_tasks.chain(stacks_of(&threads)));
        Self { tasks, threads, names }
    }
}

fn stacks_of(threads: &[threads::Info]) -> impl Iterator<Item = u64> + '_ {
    threads.iter().flat_map(|thread| thread.stack.iter().copied())
}

/// Returns all tasks as Go's `debug=2` shows goroutines: those that hold up a thread first, then those that await, the
/// longest on top. The threads
/// follow.
pub(crate) fn task_text(profiler: &Profiler) -> String {
    let Living { tasks, threads, names } = Living::of(profiler);
    let mut out = String::new();
    for task in &tasks {
        write_task(task, &names, &mut out);
    }
    if tasks.is_empty() {
        let _ = writeln!(out, "# {}\n", if tasks::were_made() { NONE_NOW } else { NO_TASKS });
    }
    threads::write_text(&threads, &names, &mut out);
    out
}

/// Returns all tasks and threads as JSON, in the same order: `{"tasks": [...], "threads": [...]}`, with all times in
/// nanoseconds.
#[cfg(feature = "http")]
pub(crate) fn task_json(profiler: &Profiler) -> String {
    let Living { tasks, threads, names } = Living::of(profiler);
    let tasks: Vec<String> = tasks.iter().map(|task| json(task, &names)).collect();
    let threads: Vec<String> = threads.iter().map(|thread| threads::json(thread, &names)).collect();
    let untracked = tasks::untracked();
    let (tasks, threads) = (tasks.join(",\n"), threads.join(",\n"));
    format!("{{\"tasks\": [\n{tasks}\n], \"threads\": [\n{threads}\n], \"untracked\": {untracked}}}\n")
}

/// Returns one task as JSON; `None` if no live task has this number.
#[cfg(feature = "http")]
pub(crate) fn one_task_json(profiler: &Profiler, id: u64) -> Option<String> {
    let task = tasks::all().into_iter().find(|task| task.id == id)?;
    let names = Names::of(profiler.symbols(), task.stack.iter().chain(&task.spawned).copied());
    Some(format!("{{\"tasks\": [\n{}\n]}}\n", json(&task, &names)))
}

#[cfg(feature = "http")]
fn json(task: &Info, names: &Names) -> String {
    use crate::anatomy::json_text as text;

    let labels = task.labels.iter().map(|(name, value)| format!("{}: {}", text(name), text(value)));
    let labels: Vec<String> = labels.collect();
    let stack: Vec<String> =
        task.stack.iter().flat_map(|&address| names.at(address)).map(json_frame).collect();
    let spawned: Vec<String> = makers(task, names).map(json_frame).collect();
    format!(
        "{{\"id\": {}, \"name\": {}, \"state\": \"{}\", \"state_ns\": {}, \"age_ns\": {}, \"polls\": {}, \
         \"labels\": {{{}}}, \"stack\": [{}], \"created_by\": [{}]}}",
        task.id,
        text(&task.name),
        task.phase.name(),
        task.phase_nanos,
        task.age_nanos,
        task.polls,
        labels.join(", "),
        stack.join(", "),
        spawned.join(", "),
    )
}

fn write_task(task: &Info, names: &Names, out: &mut String) {
    let (since, age) = (shown(task.phase_nanos), shown(task.age_nanos));
    let _ = writeln!(out, "goroutine {} [{}, {since}]:", task.id, task.phase.name());
    let _ = writeln!(out, "# {}: {age} old, polled {} times", task.name, task.polls);
    if task.stack.is_empty() {
        let _ = writeln!(out, "{}", missing(task));
    }
    for &address in &task.stack {
        names.write_at(address, out);
    }
    if let Some(maker) = makers(task, names).next() {
        let _ = writeln!(out, "created by {}\n\t{}:{}", maker.name, maker.file, maker.line);
    }
    out.push('\n');
}

/// Returns the functions that made a task, without flamelet's own.
fn makers<'a>(task: &'a Info, names: &'a Names) -> impl Iterator<Item = &'a Frame> {
    let is_own = |frame: &&Frame| {
        let name = frame.name.trim_start_matches('<');
        ["flamelet::", "flamelet_capture::"].iter().any(|own| name.starts_with(own))
    };
    task.spawned.iter().flat_map(|&address| names.at(address)).skip_while(is_own)
}

fn shown(nanos: u64) -> String {
    let time = Duration::from_nanos(nanos);
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds @ 1..120 => format!("{seconds} seconds"),
        seconds => format!("{} minutes", seconds / 60),
    }
}
