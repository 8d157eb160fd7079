//! The timeline as one SVG file: a lane for each thread, higher where it worked more. The page's tab draws the same.

use std::fmt::Write;

use flamelet_profile::{Profile, unit};

use crate::flame::{FlameOptions, PATTERNS, legend, paint};
use crate::page::{Lanes, TimelineLane, lanes};
use crate::xml::escaped;

const MARGIN: f64 = 10.0;
/// Where the first lane begins, below the title and the axis.
const TOP: u32 = 64;
const LANE: u32 = 46;
/// The height of the largest bar.
const BAR: f64 = 38.0;
/// The width of the names of threads.
const NAMES: f64 = 150.0;
/// The most lanes of a picture, the busiest of all.
const MAX_LANES: usize = 40;
/// The least width of a bar.
const BAR_WIDTH: f64 = 6.0;
/// The least samples for each bar of a busy thread: with fewer, bars look like gaps.
const SAMPLES_A_BAR: f64 = 4.0;
/// Time that a thread waited off the CPU.
const WAITING: &str = "#e6e8eb";
/// Time in the kernel.
const KERNEL: &str = "#57606a";

/// Draws what each thread did over time; `None` if the profile does not say when its samples were taken.
pub fn svg(profile: &Profile, options: &FlameOptions) -> Option<String> {
    let sample_type = options.sample_type.unwrap_or_else(|| profile.default_sample_index());
    let width = f64::from(options.image_width.clamp(200, 100_000)) - 2.0 * MARGIN - NAMES;
    let found = lanes(profile, &options.frames(profile), sample_type, bars(profile, width))?;
    Some(TimelineDrawing { found: &found, width: width.max(50.0) }.draw(&options.title))
}

/// Returns how many bars a lane of this width has.
fn bars(profile: &Profile, width: f64) -> usize {
    let hertz = profile.quality.as_ref().map_or(0.0, |quality| quality.achieved_millihertz as f64 / 1e3);
    let filled = profile.header.duration_nanos as f64 / 1e9 * hertz / SAMPLES_A_BAR;
    let most = if filled > 0.0 { filled.min(width / BAR_WIDTH) } else { width / BAR_WIDTH };
    most.max(50.0) as usize
}

struct TimelineDrawing<'a> {
    found: &'a Lanes,
    width: f64,
}

impl TimelineDrawing<'_> {
    fn draw(&self, title: &str) -> String {
        let shown = &self.found.lanes[..self.found.lanes.len().min(MAX_LANES)];
        let (width, foot) = (self.width + 2.0 * MARGIN + NAMES, TOP + shown.len() as u32 * LANE + 20);
        let mut out = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" \
             width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             font-family=\"system-ui, sans-serif\" font-size=\"11\">\n<title>{title}</title>\n{PATTERNS}\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"{MARGIN}\" y=\"20\" font-size=\"15\" font-weight=\"600\" fill=\"#1b1f24\">{title}</text>\n",
            height = foot + 16,
            title = escaped(title),
        );
        self.draw_axis(&mut out, foot - 20);
        for (lane, top) in shown.iter().zip((TOP..).step_by(LANE as usize)) {
            self.draw_lane(&mut out, lane, top + LANE - 4);
        }
        out + &legend(MARGIN, foot) + "</svg>\n"
    }

    fn x(&self, time: u64) -> f64 {
        MARGIN + NAMES + time as f64 / self.found.span as f64 * self.width
    }

    fn draw_axis(&self, out: &mut String, foot: u32) {
        let step = round_step(self.found.span as f64 / (self.width / 110.0).max(2.0));
        for time in (0..=self.found.span).step_by(step as usize) {
            let (x, label) = (self.x(time), unit::label(time as i64, "nanoseconds"));
            draw_bar(out, "#e6e8eb", (x, f64::from(TOP - 16)), (1.0, f64::from(foot + 16 - TOP)));
            let _ =
                writeln!(out, "<text x=\"{:.1}\" y=\"{}\" fill=\"#57606a\">{label}</text>", x + 3.0, TOP - 8);
        }
    }

    /// Draws a lane whose bars stand at `foot`.
    fn draw_lane(&self, out: &mut String, lane: &TimelineLane, foot: u32) {
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{}\" fill=\"#1b1f24\">{}</text><text x=\"{MARGIN}\" y=\"{}\" fill=\"#57606a\">{}</text>",
            foot - 16,
            escaped(&lane.title()),
            foot - 3,
            unit::label(lane.total, &self.found.unit),
        );
        let foot = f64::from(foot);
        let wide = (self.width / lane.values.len().max(1) as f64 - 0.4).max(0.4);
        for (at, &value) in lane.values.iter().enumerate().filter(|(_, value)| **value > 0) {
            let x = self.x(at as u64 * self.found.bucket);
            let share = |part: i64| part as f64 / value as f64;
            let tall = (BAR * (value as f64 / self.found.peak as f64).min(1.0)).max(2.0);
            let (kernel, waiting) = (tall * share(lane.kernel[at]), tall * share(lane.waits[at]));
            draw_bar(out, WAITING, (x, foot - tall), (wide, waiting));
            draw_bar(out, paint(lane.hues[at]), (x, foot - tall + waiting), (wide, tall - waiting - kernel));
            draw_bar(out, KERNEL, (x, foot - kernel), (wide, kernel));
        }
        draw_bar(out, "#c4cad2", (self.x(0), foot), (self.width, 1.0));
    }
}

fn draw_bar(out: &mut String, fill: &str, (x, y): (f64, f64), (wide, high): (f64, f64)) {
    if high > 0.0 {
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" fill=\"{fill}\"/>"
        );
    }
}

/// Returns the next of 1, 2, 5, 10, 20, … from `least` on.
fn round_step(least: f64) -> u64 {
    let power = 10u64.pow(least.max(1.0).log10() as u32);
    [1, 2, 5, 10].into_iter().map(|part| part * power).find(|&step| step as f64 >= least).unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use flamelet_profile::{Event, ProfileBuilder, Thread, ThreadId, Timeline};

    use super::*;

    #[test]
    fn steps_are_round() {
        assert_eq!([0.3, 1.0, 1.5, 21.0, 700.0, 1e9].map(round_step), [1, 1, 2, 50, 1000, 1_000_000_000]);
    }

    #[test]
    fn each_thread_has_a_lane_with_its_bars() {
        let cpu = &[("cpu", "nanoseconds")];
        assert_eq!(svg(&ProfileBuilder::new(cpu).finish(), &FlameOptions::default()), None);
        let mut builder = ProfileBuilder::new(cpu);
        let function = builder.named_function("shop::cart", "/home/me/shop/src/main.rs");
        let frame = builder.frame(function, 1);
        let stack = builder.stack(&[frame]);
        let sample = builder.sample(stack, Default::default(), &[30]) as u32;
        let threads = ["worker <1>", "worker 2"].map(|name| Thread {
            name: builder.string(name),
            tid: 1,
            ..Thread::default()
        });
        let event = |time, thread| Event { time, sample, thread: ThreadId::from_index(thread), value: 10 };
        let events = vec![event(0, 0), event(900, 0), event(500, 1)];
        let timeline = Timeline { threads: threads.to_vec(), events, ..Timeline::default() };
        let drawn =
            svg(&builder.finish_with(Some(timeline), None), &FlameOptions::default()).expect("a picture");
        for text in ["worker &lt;1&gt;", "worker 2", ">20ns<", ">10ns<", ">500ns<"] {
            assert!(drawn.contains(text), "{text}: {drawn}");
        }
        assert_eq!(drawn.matches("height=\"38.0\"").count(), 3, "a bar for each event: {drawn}");
    }
}
