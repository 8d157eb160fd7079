//! The page of what costs most across the fleet, in CPU cores and, with a price, in money.

use std::fmt::Write;

use flamelet_profile::Result;
use flamelet_report::xml::escaped;

use super::visit::Visit;
use crate::ask::{Usage, UsageBy, UsageOptions, fleet_usage};

const USUAL_FROM: &str = "-1h";
/// The names of what costs can be summed up by.
const BY: [&str; 7] = ["function", "crate", "module", "yours", "line", "thread", "service"];
const ROWS: usize = 100;

/// Returns the page.
pub(crate) fn top(visit: &Visit<'_>) -> Result<String> {
    let by = visit.given.text("by").unwrap_or(BY[0]);
    let sums = if by == "service" { None } else { Some(UsageBy::parse(by)?) };
    let (select, price) = (visit.given.selector("select")?, visit.given.price()?);
    let options = UsageOptions { by: sums, price };
    let found = fleet_usage(&visit.reader, &visit.asked(USUAL_FROM, &select)?, &options, ROWS)?;
    let option = |name: &&str| {
        let chosen = if *name == by { " selected" } else { "" };
        format!("<option{chosen}>{name}</option>")
    };
    let names: String = BY.iter().map(option).collect();
    let price = price.map_or(String::new(), |price| price.to_string());
    let form = format!(
        " <label>by <select name=\"by\">{names}</select></label> <label>Price of a core and hour \
         <input name=\"price\" size=\"6\" value=\"{price}\"></label>"
    );
    let mut html = visit.head("Top", USUAL_FROM, &["by", "price"], &form)?;
    let cost = found.cost_per_month.map_or(String::new(), |cost| format!(", {cost:.2} a month"));
    // Writing to a text does not fail.
    let _ = writeln!(html, "<p>{:.3} CPU cores{cost}</p>", found.cores);
    match sums {
        None => write_services(&mut html, visit, &found),
        Some(_) => write_groups(&mut html, by, &found),
    }
    html.push_str("</body>\n</html>\n");
    Ok(html)
}

fn head_of_costs(found: &Usage) -> &'static str {
    match found.cost_per_month {
        Some(_) => "<th class=\"number\">CPU cores</th><th class=\"number\">Cost a month</th>",
        None => "<th class=\"number\">CPU cores</th>",
    }
}

fn costs(cores: f64, cost: Option<f64>) -> String {
    let cost = cost.map_or(String::new(), |cost| format!("<td class=\"number\">{cost:.2}</td>"));
    format!("<td class=\"number\">{cores:.3}</td>{cost}")
}

fn write_groups(html: &mut String, by: &str, found: &Usage) {
    let _ = writeln!(
        html,
        "<table>\n<tr><th>{}</th><th>Whose code</th>{}<th class=\"number\">Share</th><th class=\"number\">Services</th></tr>",
        escaped(by),
        head_of_costs(found)
    );
    for row in &found.groups {
        let (name, share) = (escaped(&row.name), row.share * 100.0);
        let costs = costs(row.cores, row.cost_per_month);
        let _ = writeln!(
            html,
            "<tr><td>{name}</td><td>{}</td>{costs}<td class=\"number\">{share:.1} %</td><td class=\"number\">{}</td></tr>",
            row.owner, row.services
        );
    }
    html.push_str("</table>\n");
}

fn write_services(html: &mut String, visit: &Visit<'_>, found: &Usage) {
    let _ = writeln!(
        html,
        "<table>\n<tr><th>Service</th>{}<th class=\"number\">Share</th><th>Most expensive function of its own code</th></tr>",
        head_of_costs(found)
    );
    for row in &found.services {
        let (name, share) = (visit.service(&row.service, (found.from, found.to)), row.share * 100.0);
        let costs = costs(row.cores, row.cost_per_month);
        let function = row.function.as_ref();
        let function =
            function.map(|name| format!("{} ({:.1} %)", escaped(name), row.function_share * 100.0));
        let _ = writeln!(
            html,
            "<tr><td>{name}</td>{costs}<td class=\"number\">{share:.1} %</td><td>{}</td></tr>",
            function.unwrap_or_default()
        );
    }
    html.push_str("</table>\n");
}
