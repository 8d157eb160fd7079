//! Cutting a profile that is over a receiver's limits.

use flamelet_profile::{Profile, Result, pprof};

/// The most that a receiver takes in one profile.
pub(super) struct Most {
    pub(super) samples: usize,
    /// Of the pprof message before compression.
    pub(super) bytes: usize,
}

/// Called with a part and its pprof message.
pub(super) type EachPart<'a> = dyn FnMut(&Profile, &[u8]) -> Result<()> + 'a;

/// Calls `each` for parts that are within the limits and add up to the profile. A single sample is never cut.
pub(super) fn each_part(profile: &Profile, most: &Most, each: &mut EachPart<'_>) -> Result<()> {
    let samples = profile.sample_count();
    if samples <= most.samples {
        let message = pprof::encode(profile);
        if message.len() <= most.bytes || samples <= 1 {
            return each(profile, &message);
        }
    }
    for rows in [0..samples / 2, samples / 2..samples] {
        let mut half = profile.clone();
        half.keep_rows(|row| rows.contains(&row));
        each_part(&half, most, each)?;
    }
    Ok(())
}
