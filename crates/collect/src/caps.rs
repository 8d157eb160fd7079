//! How much is accepted.

/// The most that a collector accepts. What is over a cap is refused with the name of the cap, never dropped silently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The body of a request, as it is sent.
    pub body: usize,
    /// A profile after unpacking.
    pub profile: usize,
    /// Samples of a profile.
    pub samples: usize,
    /// Labels of a series.
    pub labels: usize,
    /// Bytes of a label's name.
    pub label_name: usize,
    /// Bytes of a label's value.
    pub label_value: usize,
    /// Series of a service in an hour.
    pub series: usize,
    /// Services in an hour.
    pub services: usize,
    /// The file of a build, with its symbols.
    pub symbols: usize,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            body: 16 << 20,
            profile: 15 << 20,
            samples: 65_536,
            labels: 30,
            label_name: 1024,
            label_value: 2048,
            series: 5000,
            services: 5000,
            symbols: 256 << 20,
        }
    }
}
