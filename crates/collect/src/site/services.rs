//! The page of services, each with what it uses now and how that changed.

use std::fmt::Write;

use flamelet_profile::Result;

use super::visit::{Visit, encoded};
use crate::ask::{self, ServiceCourse};

/// From when, unless the address says it.
const USUAL_FROM: &str = "-1h";
/// Bars of a sparkline, and its size.
const BARS: usize = 60;
const BAR: usize = 4;
const TALL: f64 = 28.0;

/// Returns the page.
pub(crate) fn services(visit: &Visit<'_>) -> Result<String> {
    let select = visit.given.selector("select")?;
    let found = ask::services(&visit.reader, &visit.asked(USUAL_FROM, &select)?, BARS)?;
    let mut html = visit.head("Services", USUAL_FROM, &[], "")?;
    html.push_str(
        "<table>\n<tr><th>Service</th><th class=\"number\">CPU cores</th><th>CPU time</th><th></th></tr>\n",
    );
    for service in &found.services {
        write_row(&mut html, visit, service, (found.from, found.to));
    }
    html.push_str("</table>\n");
    if found.services.is_empty() {
        html.push_str("<p>There are no profiles yet.</p>\n");
    }
    html.push_str("</body>\n</html>\n");
    Ok(html)
}

fn write_row(html: &mut String, visit: &Visit<'_>, row: &ServiceCourse, span: (i64, i64)) {
    let (name, cores) = (visit.service(&row.service, span), row.cores);
    let changes = format!("changes?service={}", encoded(&row.service));
    // Writing to a text does not fail.
    let _ = writeln!(
        html,
        "<tr><td>{name}</td><td class=\"number\">{cores:.3}</td><td>{}</td>\
         <td><a href=\"{changes}\">what changed</a></td></tr>",
        sparkline(&row.values)
    );
}

fn sparkline(values: &[i64]) -> String {
    let peak = values.iter().copied().max().unwrap_or(0).max(1) as f64;
    let bars: String = values
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
