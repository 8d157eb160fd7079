//! The page of what changed with the deploys of each service.

use std::fmt::Write;

use flamelet_profile::{Result, moment};
use flamelet_report::xml::escaped;

use super::VIEWER;
use super::visit::{Visit, encoded, label_selector, range_id};
use crate::ask::{Deploy, ServiceChanges, Slower, VersionSeen, changes};

const USUAL_FROM: &str = "-1d";
/// A profile is longer than a moment: what a version did last is in its range.
const AFTER: i64 = 60_000_000_000;

/// Returns the page.
pub(crate) fn what_changed(visit: &Visit<'_>) -> Result<String> {
    let select = visit.given.selector("select")?;
    let found = changes(&visit.reader, &visit.asked(USUAL_FROM, &select)?, |_| {})?;
    let mut html = visit.head("What changed", USUAL_FROM, &["service"], &service_field(visit))?;
    for service in &found.services {
        write_service(&mut html, visit, service);
    }
    if found.services.is_empty() {
        html.push_str("<p>There are no CPU profiles in this range.</p>\n");
    }
    html.push_str("</body>\n</html>\n");
    Ok(html)
}

/// The page stays that of one service.
fn service_field(visit: &Visit<'_>) -> String {
    let Some(service) = visit.given.text("service") else { return String::new() };
    let service = escaped(service);
    format!(" <label>Service <input name=\"service\" value=\"{service}\"></label>")
}

fn write_service(html: &mut String, visit: &Visit<'_>, found: &ServiceChanges) {
    // Writing to a text does not fail.
    let _ = writeln!(html, "<h2>{}</h2>", escaped(&found.service));
    if let [only] = &found.versions[..] {
        let _ = writeln!(html, "<p>One version: {} {}</p>", only.by, escaped(&only.version));
    }
    for deploy in &found.deploys {
        write_deploy(html, visit, found, deploy);
    }
    for note in &found.notes {
        let _ = writeln!(html, "<p>{}</p>", escaped(note));
    }
}

fn write_deploy(html: &mut String, visit: &Visit<'_>, service: &ServiceChanges, deploy: &Deploy) {
    let (before, after) = (escaped(&deploy.before), escaped(&deploy.after));
    let verdict = if deploy.slower.is_empty() { "nothing slower" } else { "<strong>slower</strong>" };
    let compared = comparison(visit, service, deploy);
    let compared = compared.map(|link| format!(" <a href=\"{link}\">compare</a>"));
    let _ = writeln!(
        html,
        "<p>{before} → {after}, since {}: {verdict}{}</p>",
        moment::format(deploy.since),
        compared.unwrap_or_default()
    );
    if deploy.slower.is_empty() && deploy.new_functions.is_empty() {
        return;
    }
    html.push_str(
        "<table>\n<tr><th>Function</th><th>Whose code</th><th>Where</th><th class=\"number\">Growth</th>\
         <th class=\"number\">Share of CPU</th><th class=\"number\">Sure</th></tr>\n",
    );
    deploy.slower.iter().for_each(|row| write_row(html, row));
    for row in &deploy.new_functions {
        let (name, share) = (escaped(&row.function), row.share * 100.0);
        let _ = writeln!(
            html,
            "<tr><td>{name}</td><td>{}</td><td></td><td class=\"number\">new</td><td class=\"number\">{share:.2} %</td>\
             <td></td></tr>",
            row.owner
        );
    }
    html.push_str("</table>\n");
}

fn write_row(html: &mut String, row: &Slower) {
    let place = match (&*row.file, row.line) {
        ("", _) => String::new(),
        (file, 0) => escaped(file).to_string(),
        (file, line) => format!("{}:{line}", escaped(file)),
    };
    let what = if row.with_callees { " with what it calls" } else { "" };
    let (before, after) = (row.share_before * 100.0, row.share_after * 100.0);
    // Rounded down: nothing is certain.
    let sure = (row.confidence * 10_000.0).floor().min(9999.0) / 100.0;
    let _ = writeln!(
        html,
        "<tr><td>{}{what}</td><td>{}</td><td>{place}</td><td class=\"number\">{:+.1} %</td>\
         <td class=\"number\">{before:.2} → {after:.2} %</td><td class=\"number\">{sure} %</td></tr>",
        escaped(&row.function),
        row.owner,
        row.growth * 100.0
    );
}

/// Returns a link to the viewer that compares the two versions of a deploy.
fn comparison(visit: &Visit<'_>, service: &ServiceChanges, deploy: &Deploy) -> Option<String> {
    let version = |name: &str| service.versions.iter().find(|version| version.version == name);
    let (before, after) = (version(&deploy.before)?, version(&deploy.after)?);
    let id = |version: &VersionSeen| {
        let is_label = !version.by.contains(' ');
        let select = if is_label { label_selector(version.by, &version.version) } else { String::new() };
        let span = (version.first, version.last.saturating_add(AFTER));
        encoded(&range_id(span, &select, &service.service))
    };
    let name = encoded(&service.service);
    let link = format!("{}#/?s={name}&amp;p={}&amp;base={}", &VIEWER[1..], id(after), id(before));
    visit.has_viewer.then_some(link)
}
