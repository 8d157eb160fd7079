//! Which system calls are requested.

use crate::RecordOptions;
use crate::names::calls;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WantedCalls {
    /// Count all calls.
    pub(super) all: bool,
    /// Events by the names of tracepoints: the call, and whether its end is meant.
    pub(super) named: Vec<(i64, bool)>,
}

impl WantedCalls {
    /// Returns `None` if anything else is requested too, or nothing.
    pub(super) fn of(options: &RecordOptions) -> Option<Self> {
        let named: Option<Vec<_>> = options.events.iter().map(|name| tracepoint(name)).collect();
        let wanted = Self { all: options.syscalls, named: named? };
        (wanted.all || !wanted.named.is_empty()).then_some(wanted)
    }

    /// Returns the indices of the events for the beginning, or the end, of the call.
    pub(super) fn events(&self, number: i64, is_end: bool) -> impl Iterator<Item = usize> + '_ {
        let is_it = move |event: &&(i64, bool)| **event == (number, is_end);
        self.named.iter().enumerate().filter(move |(_, event)| is_it(event)).map(|(at, _)| at)
    }
}

/// Parses `syscalls:sys_enter_NAME` or `syscalls:sys_exit_NAME`.
fn tracepoint(name: &str) -> Option<(i64, bool)> {
    let point = name.strip_prefix("syscalls:")?;
    let (call, is_end) = match point.strip_prefix("sys_enter_") {
        Some(call) => (call, false),
        None => (point.strip_prefix("sys_exit_")?, true),
    };
    Some((calls::number(call)?, is_end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    #[test]
    fn only_system_calls_can_be_traced() {
        let with = |events: &[&str], syscalls: bool| {
            let mut options = RecordOptions::new(Target::All);
            options.events = events.iter().map(|&event| event.to_owned()).collect();
            options.syscalls = syscalls;
            WantedCalls::of(&options)
        };
        assert_eq!(with(&[], false), None);
        assert_eq!(with(&["page-faults"], true), None);
        assert_eq!(with(&["syscalls:sys_enter_nonsense"], false), None);
        assert!(with(&[], true).is_some_and(|wanted| wanted.all));
        let wanted = with(&["syscalls:sys_enter_getrandom", "syscalls:sys_exit_read"], false).expect("calls");
        assert_eq!(wanted.events(libc::SYS_getrandom, false).collect::<Vec<_>>(), [0]);
        assert_eq!(wanted.events(libc::SYS_getrandom, true).count(), 0);
        assert_eq!(wanted.events(libc::SYS_read, true).collect::<Vec<_>>(), [1]);
    }
}
