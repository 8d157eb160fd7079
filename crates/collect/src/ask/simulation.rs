//! How often a comparison of versions is right: simulated deploys in which one function, or nothing, got slower.
//!
//! Each version has twelve windows of about 400,000 observations, which is 17 minutes of four cores at 100 samples a second.
//! Traffic differs from window to window by a factor of about 1.3, the speed of the machine by 3 %, and each function by
//! 1 % for itself, all independently and by chance. There are 60 functions; the one that is planted has 5 to 17 % of the
//! CPU time, and costs 5 % more. All deploys are of one answer, so each is tested as one of 20 or of 100.
//! (Of 400 such deploys with a regression 400 were found, and of 1,000 without one none raised an alarm.)

use flamelet_profile::{Line, Profile, ProfileBuilder};
use flamelet_test_support::Random;

use super::compare::{Deploy, Side, WINDOWS, deploys};
use crate::block::merge::PART;

const FUNCTIONS: usize = 60;
const OBSERVATIONS: f64 = 400_000.0;

fn share(function: usize) -> f64 {
    let weight = |rank: usize| 1.0 / (rank as f64 + 1.5);
    weight(function) / (0..FUNCTIONS).map(weight).sum::<f64>()
}

/// Returns the profile of two versions; in the second one, `slow` costs this much more.
fn service(random: &mut Random, slow: usize, factor: f64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.set_period("cpu", "nanoseconds", 10_000_000);
    let main = builder.named_frame("main");
    let stacks: Vec<_> = (0..FUNCTIONS)
        .map(|at| {
            let function = Some(builder.named_function(&format!("f{at}"), "src/shop.rs"));
            let line = Line { function, line: 10 + at as i64, column: 0 };
            let location = builder.location(None, 0, &[line]);
            builder.stack(&[location, main])
        })
        .collect();
    for part in 0..2 * WINDOWS {
        let label = builder.text_label(PART, &part.to_string());
        let labels = builder.labels(&[label]);
        let all = OBSERVATIONS * (0.3 * random.normal()).exp() * (0.03 * random.normal()).exp();
        for (at, &stack) in stacks.iter().enumerate() {
            let planted = if at == slow && part >= WINDOWS { factor } else { 1.0 };
            let mean = all * share(at) * planted * (0.01 * random.normal()).exp();
            // For counts this large, Poisson's distribution is close to the normal one.
            let count = (mean + mean.sqrt() * random.normal()).round().max(0.0) as i64;
            builder.sample(stack, labels, &[count, count * 10_000_000]);
        }
    }
    builder.finish()
}

fn compared(profile: &Profile, comparisons: usize) -> Deploy {
    let side = |number: u32, name: &str| Side { number, name: name.to_owned(), since: i64::from(number) };
    let (mut deploys, notes) =
        deploys(profile, &[side(0, "1"), side(1, "2")], comparisons).expect("compared");
    assert!(notes.is_empty(), "{notes:?}");
    deploys.remove(0)
}

#[test]
fn a_planted_regression_is_found_in_every_deploy() {
    for number in 0..20 {
        let slow = number % 5;
        let found = compared(&service(&mut Random::new(number as u64), slow, 1.05), 20);
        let names: Vec<&str> = found.slower.iter().map(|row| &*row.function).collect();
        assert_eq!(names, [format!("f{slow}")], "deploy {number}: {found:?}");
        let row = &found.slower[0];
        assert_eq!((&*row.file, row.line), ("src/shop.rs", 10 + slow as i64));
        assert!((row.growth - 0.05).abs() < 0.03 && row.confidence > 0.99, "{row:?}");
        assert!(row.share_after > row.share_before && !row.with_callees, "{row:?}");
    }
}

#[test]
fn deploys_without_a_regression_raise_no_alarm() {
    for number in 0..100 {
        let found = compared(&service(&mut Random::new(1000 + number), 0, 1.0), 100);
        assert!(found.slower.is_empty() && found.new_functions.is_empty(), "deploy {number}: {found:?}");
        assert_eq!(found.windows, [WINDOWS as usize; 2]);
    }
}

/// What the alarms are based on: without the variation between windows, the same deploys would raise many.
#[test]
fn the_simulation_finds_a_comparison_that_is_too_bold() {
    let bold = (0..20).filter(|&number| {
        let profile = service(&mut Random::new(1000 + number), 0, 1.0);
        let mut sums = [[0.0; 2]; FUNCTIONS];
        for (at, sample) in profile.samples().enumerate() {
            let side = at / (FUNCTIONS * WINDOWS as usize);
            sums[at % FUNCTIONS][side] += sample.values[0] as f64;
        }
        let totals = [0, 1].map(|side| sums.iter().map(|pair| pair[side]).sum::<f64>());
        // Counts alone, as if each window were alike: a tenth of a percent of difference is "significant".
        sums.iter().any(|[base, new]| {
            let (a, b) = (base / totals[0], new / totals[1]);
            (b - a) / (a / totals[0] + b / totals[1]).sqrt() > 3.5
        })
    });
    assert!(bold.count() > 2);
}
