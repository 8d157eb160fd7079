//! The page of services, each with what it uses now and how that changed.

use std::fmt::Write;

use flamelet_profile::{Limits, Result, moment};
use flamelet_report::xml::escaped;
use flamelet_view::Course;

use super::VIEWER;
use crate::ask::course_within;
use crate::reader::Reader;

/// The style of the page, and where it is.
pub(crate) const STYLE_PATH: &str = "/fleet.css";
pub(crate) const STYLE: &str = "\
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }\n\
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }\n\
table { border-collapse: collapse; width: 100%; }\n\
th, td { text-align: left; padding: 0.3rem 0.6rem; border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }\n\
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }\n\
svg { display: block; fill: currentColor; }\n\
nav a { margin-right: 1rem; }\n";

/// The ranges to choose from.
const RANGES: [(&str, &str); 4] =
    [("-1h", "1 hour"), ("-6h", "6 hours"), ("-1d", "1 day"), ("-7d", "7 days")];
/// Bars of a sparkline, and its size.
const BARS: usize = 60;
const BAR: usize = 4;
const TALL: f64 = 28.0;
/// What reading one service may use.
const READING: Limits = Limits::of_memory(512 << 20);
const MILLISECOND: i64 = 1_000_000;

/// Returns the page, with links to the viewer if there is one. `from` is one of the ranges, or a moment.
pub(crate) fn services(reader: &Reader, from: Option<&str>, now: i64, has_viewer: bool) -> Result<String> {
    let from = from.unwrap_or(RANGES[0].0);
    let span = (moment::parse(from, now)?, now);
    let reader = &reader.with_logs(&flamelet_profile::Budget::new(READING))?;
    let mut rows = Vec::new();
    for service in reader.services(&flamelet_profile::Budget::new(READING))? {
        let course = course_within(reader, &service, span, BARS, READING)?;
        rows.push((service, course));
    }
    let total = |course: &Course| course.values.iter().fold(0i64, |sum, value| sum.saturating_add(*value));
    rows.sort_by(|a, b| total(&b.1).cmp(&total(&a.1)).then_with(|| a.0.cmp(&b.0)));
    let first = rows.iter().filter_map(|(_, course)| first_time(course)).min();
    // Before the first profile there was nothing to measure.
    let wall = first.map_or(1, |first| (span.1 / MILLISECOND).saturating_sub(first).max(1));
    let mut html = head(from);
    for (service, course) in &rows {
        let cores = total(course) as f64 / (wall as f64 * MILLISECOND as f64);
        write_row(&mut html, service, cores, course, has_viewer);
    }
    html.push_str("</table>\n");
    if rows.is_empty() {
        html.push_str("<p>There are no profiles yet.</p>\n");
    }
    html.push_str("</body>\n</html>\n");
    Ok(html)
}

/// Returns when the first part with CPU time begins.
fn first_time(course: &Course) -> Option<i64> {
    let at = course.values.iter().position(|value| *value > 0)?;
    let length = course.to.saturating_sub(course.from);
    Some(course.from.saturating_add(length / course.values.len() as i64 * at as i64))
}

fn head(from: &str) -> String {
    let link = |(range, name): &(&str, &str)| match *range == from {
        true => format!("<a aria-current=\"true\">{name}</a> "),
        false => format!("<a href=\"?from={range}\">{name}</a> "),
    };
    let ranges: String = RANGES.iter().map(link).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Services – flamelet</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<link rel=\"stylesheet\" href=\"fleet.css\">\n</head>\n<body>\n\
         <h1>Services</h1>\n<nav aria-label=\"Range\">{ranges}</nav>\n<table>\n\
         <tr><th>Service</th><th class=\"number\">CPU cores</th><th>CPU time</th><th></th></tr>\n"
    )
}

fn write_row(html: &mut String, service: &str, cores: f64, course: &Course, has_viewer: bool) {
    let encoded = encoded(service);
    let link =
        format!("{}#/?s={encoded}&amp;p=range%3A{}-{}%3A{encoded}", &VIEWER[1..], course.from, course.to);
    let shown = escaped(service);
    let name = if has_viewer { format!("<a href=\"{link}\">{shown}</a>") } else { shown.to_string() };
    let changes = format!("api/changes?service={encoded}&amp;from=-1d");
    // Writing to a text does not fail.
    let _ = writeln!(
        html,
        "<tr><td>{name}</td><td class=\"number\">{cores:.3}</td><td>{}</td>\
         <td><a href=\"{changes}\">what changed</a></td></tr>",
        sparkline(course)
    );
}

fn sparkline(course: &Course) -> String {
    let peak = course.values.iter().copied().max().unwrap_or(0).max(1) as f64;
    let bars: String = course
        .values
        .iter()
        .enumerate()
        .filter(|(_, value)| **value > 0)
        .map(|(at, value)| {
            let tall = (TALL * *value as f64 / peak).max(1.0);
            format!(
                "<rect x=\"{}\" y=\"{:.1}\" width=\"{}\" height=\"{tall:.1}\"/>",
                at * BAR,
                TALL - tall,
                BAR - 1
            )
        })
        .collect();
    format!("<svg width=\"{}\" height=\"{TALL}\" aria-hidden=\"true\">{bars}</svg>", BARS * BAR)
}

/// Writes a text for a part of an address.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(byte as char),
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_services_stay_texts() {
        let mut html = String::new();
        let course = Course { from: 5, to: 7, values: vec![0, 3, 1] };
        write_row(&mut html, "<b>\"a&'ü", 1.5, &course, true);
        assert!(html.contains(">&lt;b&gt;&quot;a&amp;&#39;ü</a>"), "{html}");
        let name = "%3Cb%3E%22a%26%27%C3%BC";
        assert!(html.contains(&format!("href=\"view/#/?s={name}&amp;p=range%3A5-7%3A{name}\"")), "{html}");
        assert_eq!(html.matches("<rect ").count(), 2, "{html}");
        assert!(html.contains("<td class=\"number\">1.500</td>"), "{html}");
        let mut html = String::new();
        write_row(&mut html, "<b>", 1.5, &course, false);
        assert!(html.contains("<td>&lt;b&gt;</td>") && !html.contains("view/"), "{html}");
    }
}
