//! How many observations a profile is based on, and what one of them stands for.

use flamelet_profile::Profile;

/// Returns what one observation stands for, in the unit of the sample type at `value_index`: the variance of a value is
/// that value times this. Observations that stand for more count for more.
pub(crate) fn per_observation(profile: &Profile, value_index: usize) -> f64 {
    let squares = profile.total_observed(value_index).squares;
    let total = magnitude(profile, value_index);
    if squares > 0.0 && total > 0.0 { squares / total } else { 1.0 }
}

/// Returns the effective number of observations behind the total of a sample type, if the profile has it.
pub(crate) fn effective_observations(profile: &Profile, value_index: usize) -> Option<f64> {
    let effective = || profile.total_observed(value_index).effective(magnitude(profile, value_index));
    profile.is_sampled(value_index).then(effective)
}

/// Returns the sum of the absolute values of a sample type.
fn magnitude(profile: &Profile, value_index: usize) -> f64 {
    profile.samples().map(|sample| sample.values[value_index].unsigned_abs() as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::ProfileBuilder;

    #[test]
    fn without_a_period_the_mean_says_what_an_observation_stands_for() {
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        let stack = builder.stack(&[]);
        builder.sample(stack, Default::default(), &[4, 40_000_000]);
        let profile = builder.finish();
        assert_eq!(per_observation(&profile, 1), 1e7);
        assert_eq!(per_observation(&profile, 0), 1.0);
        assert_eq!(effective_observations(&profile, 1), Some(4.0));
    }
}
