//! The sample values of a recording.

use crate::collect::{Meaning, SampleRow};

/// The values that each sample has, depending on what is recorded.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    types: Vec<(String, &'static str)>,
    cpu: Option<usize>,
    off_cpu: Option<usize>,
    wall: Option<usize>,
    /// The first of three: calls, errors and time.
    syscalls: Option<usize>,
    named: Option<usize>,
}

impl Columns {
    pub(crate) fn new(options: &crate::RecordOptions) -> Self {
        let mut types: Vec<(String, &'static str)> = Vec::new();
        let mut add = |columns: &[(&str, &'static str)]| {
            let first = types.len();
            types.extend(columns.iter().map(|&(kind, unit)| (kind.to_owned(), unit)));
            first
        };
        let cpu = options.cpu.then(|| add(&[("samples", "count"), ("cpu", "nanoseconds")]));
        let off_cpu = options.off_cpu.then(|| add(&[("off_cpu", "nanoseconds")]));
        let wall = (options.cpu && options.off_cpu).then(|| add(&[("wall", "nanoseconds")]));
        let calls = [("syscalls", "count"), ("syscall_errors", "count"), ("syscall_time", "nanoseconds")];
        let syscalls = options.syscalls.then(|| add(&calls));
        let named = (!options.events.is_empty()).then_some(types.len());
        types.extend(options.events.iter().map(|name| (name.clone(), "count")));
        Self { types, cpu, off_cpu, wall, syscalls, named }
    }

    /// The types and units of all values.
    pub(super) fn types(&self) -> Vec<(&str, &str)> {
        self.types.iter().map(|(kind, unit)| (kind.as_str(), *unit)).collect()
    }

    /// The column that the timeline is weighted by, and whether all of its weights are 1.
    pub(super) fn of_timeline(&self) -> Option<(usize, bool)> {
        let time = self.wall.or(self.off_cpu);
        time.map(|column| (column, false))
            .or_else(|| self.cpu.map(|column| (column, true)))
            .or_else(|| self.named.map(|column| (column, false)))
    }

    /// The sample type to show first.
    pub(super) fn default_kind(&self) -> &str {
        let column = self.cpu.map(|column| column + 1).or(self.off_cpu).or(self.syscalls).or(self.named);
        column.map_or("", |column| self.types[column].0.as_str())
    }

    pub(super) fn values(&self, row: &SampleRow) -> Vec<i64> {
        let mut values = vec![0; self.types.len()];
        let (count, amount) = (row.count as i64, i64::try_from(row.amount).unwrap_or(i64::MAX));
        let mut set = |column: Option<usize>, value| column.into_iter().for_each(|at| values[at] = value);
        match row.key.meaning {
            Meaning::Cpu => {
                set(self.cpu, count);
                set(self.cpu.map(|column| column + 1), amount);
                set(self.wall, amount);
            }
            Meaning::OffCpu { .. } => {
                set(self.off_cpu, amount);
                set(self.wall, amount);
            }
            Meaning::Syscall { .. } => {}
            Meaning::Named(at) => set(self.named.map(|column| column + at), amount),
        }
        values
    }

    /// The values of system calls: calls, errors and nanoseconds. `None` if system calls are not recorded.
    pub(super) fn syscall_values(&self, totals: [i64; 3]) -> Option<Vec<i64>> {
        let first = self.syscalls?;
        let mut values = vec![0; self.types.len()];
        values[first..first + 3].copy_from_slice(&totals);
        Some(values)
    }
}
