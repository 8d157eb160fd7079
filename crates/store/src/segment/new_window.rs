//! Windows that are about to be written, and the sum of those of a kind.

use flamelet_profile::{Observed, Quality};

/// A sample: the number of its stack and labels, its values, and what they are based on.
pub(crate) struct NewSample {
    pub(crate) row: u32,
    pub(crate) values: Vec<i64>,
    pub(crate) observed: Observed,
}

/// A window, or the sum of some, as it is written.
pub(crate) struct NewWindow {
    pub(crate) start: i64,
    pub(crate) duration: i64,
    pub(crate) kind: u32,
    pub(crate) windows: u64,
    /// Sorted by row, each row once.
    pub(crate) samples: Vec<NewSample>,
    /// The value whose observations are known.
    pub(crate) observed: Option<usize>,
    /// The number of the engine's name, and the rest.
    pub(crate) quality: Option<(u32, Quality)>,
}

/// Adds up the windows of a kind.
#[derive(Debug)]
pub(crate) struct KindSum {
    start: i64,
    duration: i64,
    kind: u32,
    windows: u64,
    /// How many values a row has.
    width: usize,
    /// By row.
    values: Vec<i64>,
    /// The value whose observations all windows state, and the observations by row.
    observed: Option<(usize, Vec<Observed>)>,
    quality: Option<(u32, Quality)>,
}

impl KindSum {
    /// Begins with the first window.
    pub(crate) fn new(first: &NewWindow, width: usize) -> Self {
        let mut sum = Self {
            start: first.start,
            duration: 0,
            kind: first.kind,
            windows: 0,
            width,
            values: Vec::new(),
            observed: first.observed.map(|value_type| (value_type, Vec::new())),
            quality: None,
        };
        sum.add(first);
        sum
    }

    pub(crate) fn add(&mut self, window: &NewWindow) {
        self.start = self.start.min(window.start);
        self.duration = self.duration.saturating_add(window.duration);
        self.windows += window.windows;
        let rows = window.samples.last().map_or(0, |last| last.row as usize + 1);
        if self.values.len() < rows * self.width {
            self.values.resize(rows * self.width, 0);
        }
        for sample in &window.samples {
            let sums = &mut self.values[sample.row as usize * self.width..][..self.width];
            sums.iter_mut().zip(&sample.values).for_each(|(sum, value)| *sum = sum.saturating_add(*value));
        }
        self.observed = self.observed.take().filter(|(value_type, _)| window.observed == Some(*value_type));
        if let Some((_, observed)) = &mut self.observed {
            observed.resize(rows.max(observed.len()), Observed::default());
            window.samples.iter().for_each(|sample| observed[sample.row as usize] += sample.observed);
        }
        if let Some((engine, other)) = window.quality {
            self.quality =
                Some(self.quality.map_or((engine, other), |(engine, mine)| (engine, mine.and(other))));
        }
    }

    pub(crate) fn kind(&self) -> u32 {
        self.kind
    }

    /// Returns the bytes that it takes.
    pub(crate) fn memory(&self) -> usize {
        let observed = self.observed.as_ref().map_or(0, |(_, rows)| rows.capacity() * size_of::<Observed>());
        self.values.capacity() * size_of::<i64>() + observed
    }

    /// Returns the sum as a window. Its time is that of the first one, and as long as all together.
    pub(crate) fn window(&self) -> NewWindow {
        let rows = self.values.chunks_exact(self.width.max(1)).enumerate();
        let samples = rows.filter(|(_, values)| values.iter().any(|&sum| sum != 0)).map(|(row, values)| {
            let observed = self.observed.as_ref().and_then(|(_, rows)| rows.get(row)).copied();
            NewSample { row: row as u32, values: values.to_vec(), observed: observed.unwrap_or_default() }
        });
        NewWindow {
            start: self.start,
            duration: self.duration,
            kind: self.kind,
            windows: self.windows,
            samples: samples.collect(),
            observed: self.observed.as_ref().map(|(value_type, _)| *value_type),
            quality: self.quality,
        }
    }
}
