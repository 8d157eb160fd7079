//! Measures whether the machine has spare CPU time.

/// Measures how long CPUs have been idle since the last call.
#[derive(Debug)]
pub(crate) struct SpareTime {
    before: Option<Ticks>,
}

/// The time that all CPUs together have spent since the machine started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    all: u64,
    idle: u64,
    cpus: u64,
}

impl SpareTime {
    /// Starts measuring.
    pub(crate) fn new() -> Self {
        Self { before: now() }
    }

    /// Returns whether about one CPU has been idle since the last call. Returns true if that is unknown.
    pub(crate) fn is_there(&mut self) -> bool {
        let now = now();
        let before = std::mem::replace(&mut self.before, now);
        before.zip(now).is_none_or(|(before, now)| now.is_idle_since(before))
    }
}

impl Ticks {
    fn is_idle_since(self, before: Self) -> bool {
        let all = self.all.saturating_sub(before.all);
        let idle = self.idle.saturating_sub(before.idle);
        // Three quarters of one CPU, because the recorder itself takes a little.
        4 * idle * self.cpus >= 3 * all
    }
}

fn now() -> Option<Ticks> {
    parse(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// Parses the lines `cpu user nice system idle iowait irq softirq steal …` and `cpuN …`.
fn parse(text: &str) -> Option<Ticks> {
    const USER_TO_STEAL: usize = 8;
    let mut lines = text.lines().take_while(|line| line.starts_with("cpu"));
    let ticks: Vec<u64> = lines
        .next()?
        .split_whitespace()
        .skip(1)
        .take(USER_TO_STEAL)
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    let [_, _, _, idle, waiting, ..] = ticks[..] else { return None };
    Some(Ticks { all: ticks.iter().sum(), idle: idle + waiting, cpus: lines.count() as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_idle_cpu_is_enough() {
        let at = |idle: u64, busy: u64| {
            let text = format!("cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2\ncpu1 1 2\nintr 7\n");
            parse(&text).expect("ticks")
        };
        let before = at(1000, 1000);
        assert_eq!(before, Ticks { all: 2000, idle: 1000, cpus: 2 });
        assert!(at(1025, 1025).is_idle_since(before));
        assert!(!at(1010, 1040).is_idle_since(before));
        assert!(at(1050, 1000).is_idle_since(before));
        assert_eq!(parse("cpu x"), None);
        assert_eq!(parse(""), None);
    }
}
