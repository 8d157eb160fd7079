//! The tasks that live: as a profile, and as text.

use std::fmt::Write;
use std::time::Duration;

use flamelet_capture::profile::{Profile, ProfileBuilder};
use flamelet_capture::wait::tasks::{self, Info, Phase};
use flamelet_capture::wait::{Mapped, add_stack};

use super::names::Names;
use crate::Profiler;

/// The frame of tasks whose last poll was not sampled.
const NOT_SAMPLED: &str = "[not sampled]";

/// Returns a profile that counts tasks by where they await.
pub(crate) fn task_profile(profiler: &Profiler) -> Profile {
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
    profiler.complete(mapped.finish(), profiler.shared().settings.symbolize)
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

/// Returns all tasks as Go's `debug=2` shows goroutines: those that await first, the longest wait on top.
pub(crate) fn task_text(profiler: &Profiler) -> String {
    let mut all = tasks::all();
    all.sort_by_key(|task| std::cmp::Reverse((task.phase == Phase::Awaiting, task.phase_nanos)));
    let names =
        Names::of(profiler, all.iter().flat_map(|task| task.stack.iter().chain(&task.spawned).copied()));
    let mut out = String::new();
    for task in &all {
        write_task(task, &names, &mut out);
    }
    if all.is_empty() {
        out.push_str("# no tasks: flamelet::task, flamelet::spawn and flamelet::axum::layer make them\n");
    }
    out
}

fn write_task(task: &Info, names: &Names, out: &mut String) {
    let (since, age) = (shown(task.phase_nanos), shown(task.age_nanos));
    let _ = writeln!(out, "goroutine {} [{}, {since}]:", task.id, task.phase.name());
    let _ = writeln!(out, "# {}: {age} old, polled {} times", task.name, task.polls);
    if task.stack.is_empty() {
        let _ = writeln!(out, "{}", missing(task));
    }
    for &address in &task.stack {
        write_frames(address, names, "", "(...)", out);
    }
    if let Some(&maker) = task.spawned.first() {
        write_frames(maker, names, "created by ", "", out);
    }
    out.push('\n');
}

fn write_frames(address: u64, names: &Names, before: &str, after: &str, out: &mut String) {
    let frames = names.at(address);
    if frames.is_empty() {
        let _ = writeln!(out, "{before}{address:#x}{after}");
    }
    for frame in frames {
        let _ = writeln!(out, "{before}{}{after}\n\t{}:{}", frame.name, frame.file, frame.line);
    }
}

fn shown(nanos: u64) -> String {
    let time = Duration::from_nanos(nanos);
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds @ 1..120 => format!("{seconds} seconds"),
        seconds => format!("{} minutes", seconds / 60),
    }
}
