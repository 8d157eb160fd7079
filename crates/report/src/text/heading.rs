//! The lines above a report: what the profile is, and what part of it is shown.

use flamelet_profile::unit;

use crate::graph::Cutoffs;
use crate::info::comment_lines;
use crate::names::base_name;
use crate::report::{Extent, Report};
use crate::utc::utc;

impl Report {
    /// Returns the lines that describe the profile, with its total in `output_unit`.
    pub fn heading(&self, output_unit: &str) -> Vec<String> {
        let profile = &self.profile;
        let mut lines = Vec::new();
        if let Some(mapping) = profile.mappings().first() {
            let file = profile.string(mapping.filename);
            if !file.is_empty() {
                lines.push(format!("File: {}", base_name(file)));
            }
            let build_id = profile.string(mapping.build_id);
            if !build_id.is_empty() {
                lines.push(format!("Build ID: {build_id}"));
            }
        }
        lines.extend(comment_lines(profile).into_iter().filter(|line| !line.starts_with('#')));
        lines.push(format!("Type: {}", self.value_name()));
        if !profile.header.doc_url.is_empty() {
            lines.push(format!("Doc: {}", profile.string(profile.header.doc_url)));
        }
        if profile.header.time_nanos != 0 {
            lines.push(format!("Time: {}", utc(profile.header.time_nanos)));
        }
        if profile.header.duration_nanos != 0 {
            lines.push(self.duration_line(output_unit));
        }
        lines
    }

    fn duration_line(&self, output_unit: &str) -> String {
        let duration = self.profile.header.duration_nanos;
        let (nanos, name) = unit::scale(self.total, self.unit(), "nanoseconds");
        let share = if name == "ns" && nanos != 0.0 {
            format!("({})", unit::percentage(nanos as i64, duration))
        } else {
            String::new()
        };
        let total = self.format(self.total, output_unit);
        format!("Duration: {}, Total samples = {total} {share}", unit::label(duration, "nanoseconds"))
    }
}

/// Returns the lines about the profile, the filters and the part that is shown, as `go tool pprof` prints them.
pub(crate) fn heading(report: &Report, output_unit: &str, extent: &Extent) -> Vec<String> {
    let options = &report.options;
    let mut lines = Vec::new();
    if !options.compact_labels || extent.dropped_edges.is_some() {
        lines = report.heading(output_unit);
    }
    let filters = options.active_filters();
    if !filters.is_empty() {
        lines.push("Active filters:".into());
        lines.extend(filters.iter().map(|filter| match filter.char_indices().nth(80) {
            Some((end, _)) => format!("   {}…", &filter[..end]),
            None => format!("   {filter}"),
        }));
    }
    let format = |value: i64| report.format(value, output_unit);
    let share = unit::percentage(extent.shown, report.total);
    lines.push(format!(
        "Showing nodes accounting for {}, {} of {} total",
        format(extent.shown),
        share.trim(),
        format(report.total)
    ));
    if report.total != 0 {
        lines.extend(what_is_left_out(report, extent, format));
    }
    lines
}

fn what_is_left_out(report: &Report, extent: &Extent, format: impl Fn(i64) -> String) -> Vec<String> {
    let cutoffs = Cutoffs::of(report, report.total);
    let plural = |count: usize| if count > 1 { "s" } else { "" };
    let mut lines = Vec::new();
    if let dropped @ 1.. = extent.dropped {
        lines.push(format!("Dropped {dropped} node{} (cum <= {})", plural(dropped), format(cutoffs.node)));
    }
    if let Some(dropped @ 1..) = extent.dropped_edges {
        lines.push(format!("Dropped {dropped} edge{} (freq <= {})", plural(dropped), format(cutoffs.edge)));
    }
    if extent.count > 0 && extent.count < extent.candidates {
        lines.push(format!("Showing top {} nodes out of {}", extent.count, extent.candidates));
    }
    lines
}
