//! Polls that block the executor, as `tracing` events.

use flamelet_capture::wait::tasks::long_polls::{self, LongPoll};
use tracing_core::callsite::{DefaultCallsite, Identifier};
use tracing_core::field::{FieldSet, Value};
use tracing_core::metadata::Kind;
use tracing_core::{Event, Level, Metadata, dispatcher};

static CALLSITE: DefaultCallsite = DefaultCallsite::new(&METADATA);

static METADATA: Metadata<'static> = Metadata::new(
    "blocked poll",
    "flamelet::blocked",
    Level::WARN,
    Some(file!()),
    Some(line!()),
    Some(module_path!()),
    FieldSet::new(&["message", "task", "cause", "duration_ms"], Identifier(&CALLSITE)),
    Kind::EVENT,
);

/// Emits an event for each poll that takes long, or stops to.
pub(crate) fn switch(is_on: bool) {
    long_polls::tell(emit, is_on);
}

fn emit(poll: &LongPoll<'_>) {
    if CALLSITE.interest().is_never() {
        return;
    }
    dispatcher::get_default(|dispatch| {
        if !dispatch.enabled(&METADATA) {
            return;
        }
        let fields = METADATA.fields();
        let mut names = fields.iter();
        let mut next = || names.next();
        let (Some(message), Some(task), Some(cause), Some(duration)) = (next(), next(), next(), next())
        else {
            return;
        };
        let text = format_args!("a poll blocked the executor");
        let milliseconds = poll.duration.as_secs_f64() * 1e3;
        let values: [(_, Option<&dyn Value>); 4] = [
            (&message, Some(&text)),
            (&task, Some(&poll.task)),
            (&cause, Some(&poll.cause)),
            (&duration, Some(&milliseconds)),
        ];
        dispatch.event(&Event::new(&METADATA, &fields.value_set(&values)));
    });
}
