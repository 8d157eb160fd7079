//! What strangers may ask for.

use std::time::Duration;

/// What a request over HTTP may ask for. More is refused with a message that names the cap.
///
/// The service's own calls, such as [`Profiler::cpu`](crate::Profiler::cpu), are not capped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest capture; ten minutes unless set.
    pub max_duration: Duration,
    /// The highest frequency in hertz; 1000 unless set.
    pub max_frequency: u32,
    /// How many captures may run at the same time; 16 unless set.
    pub max_captures: usize,
    /// The widest picture in pixels.
    pub max_image_width: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_duration: Duration::from_secs(600),
            max_frequency: 1000,
            max_captures: 16,
            max_image_width: 20_000,
        }
    }
}
