//! The live threads, which show what tasks do not.

use std::fmt::Write;
use std::time::Duration;

use flamelet_capture::profile::sort_rows_by_key;
pub(super) use flamelet_capture::wait::threads::Info;
use flamelet_capture::wait::threads::all;
#[cfg(feature = "http")]
use flamelet_capture::wait::{Mapped, add_stack};

use super::idle;
use super::names::Names;

/// What stands for the stack of a thread that did not answer.
const NO_ANSWER: &str = "[no answer]";

/// Returns the threads of the service: those that run first, then by the CPU time that they have used.
pub(super) fn busy_first() -> Vec<Info> {
    let mut all = all();
    sort_rows_by_key(&mut all, |thread| std::cmp::Reverse((thread.is_running, thread.cpu_nanos)));
    all
}

/// Returns `running`, `waiting` or, for a worker without work, `idle`.
fn state(thread: &Info, names: &Names) -> &'static str {
    match thread.is_running {
        true => "running",
        false if idle::is_idle(names.on(&thread.stack)) => "idle",
        false => "waiting",
    }
}

/// Adds the threads to a profile that counts tasks.
#[cfg(feature = "http")]
pub(super) fn add(threads: &[Info], names: &Names, mapped: &mut Mapped) {
    for thread in threads {
        let stack = add_stack(mapped, &thread.stack, NO_ANSWER);
        let builder = mapped.builder();
        let state = builder.text_label("state", state(thread, names));
        let own = labels(thread);
        let mut labels: Vec<_> = own.map(|(name, value)| builder.text_label(name, value)).collect();
        labels.extend([builder.text_label("thread", &thread.name), state]);
        labels.extend(thread.call.as_deref().map(|call| builder.text_label("syscall", call)));
        let labels = builder.labels(&labels);
        builder.merge_sample(stack, labels, &[1]);
    }
}

/// Returns the labels of what a thread works on.
fn labels(thread: &Info) -> impl Iterator<Item = (&str, &str)> {
    thread.labels.iter().filter(|(_, value)| !value.is_empty())
}

/// Writes threads as tasks are written.
pub(super) fn write_text(threads: &[Info], names: &Names, out: &mut String) {
    for thread in threads {
        let call = thread.call.as_deref().map(|call| format!(", {call}")).unwrap_or_default();
        let _ = writeln!(out, "thread {} [{}{call}]:", thread.id, state(thread, names));
        let cpu = Duration::from_nanos(thread.cpu_nanos).as_secs_f64();
        // What it works on: a task that runs has no stack of its own.
        let labels: String = labels(thread).map(|(name, value)| format!(", {name}={value:?}")).collect();
        let _ = writeln!(out, "# {}: {cpu:.3} s of CPU time{labels}", thread.name);
        if thread.stack.is_empty() {
            let _ = writeln!(out, "{NO_ANSWER}");
        }
        for &address in &thread.stack {
            names.write_at(address, out);
        }
        out.push('\n');
    }
}

#[cfg(feature = "http")]
pub(super) fn json(thread: &Info, names: &Names) -> String {
    use crate::anatomy::json_text as text;

    let call = thread.call.as_deref().map_or_else(|| "null".to_owned(), text);
    let stack = thread.stack.iter().flat_map(|&address| names.at(address));
    let stack: Vec<String> = stack.map(super::names::json_frame).collect();
    let labels = labels(thread).map(|(name, value)| format!("{}: {}", text(name), text(value)));
    let labels: Vec<String> = labels.collect();
    format!(
        "{{\"id\": {}, \"name\": {}, \"state\": \"{}\", \"syscall\": {call}, \"cpu_ns\": {}, \
         \"labels\": {{{}}}, \"stack\": [{}]}}",
        thread.id,
        text(&thread.name),
        state(thread, names),
        thread.cpu_nanos,
        labels.join(", "),
        stack.join(", "),
    )
}
