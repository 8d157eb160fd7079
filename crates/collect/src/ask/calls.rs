//! The questions as HTTP calls, which answer with JSON.

use flamelet_profile::{Error, Granularity, Limits, Profile, Result};
use flamelet_report::{Owners, Report, ReportKind, ReportOptions};
use serde::Serialize;

use super::asked::Asked;
use super::changes::changes;
use super::diff::{DiffSide, Wanted, compared};
use super::given::Given;
use super::usage::{Usage, UsageBy, UsageOptions, usage};
use super::{json, services};
use crate::query::{Query, condition};
use crate::reader::Reader;
use crate::series::profile_name;

/// What a call may use.
const CALL: Limits = Limits::of_memory(512 << 20);
/// Parts of a sparkline, and rows of a table, unless a call says how many.
const PARTS: usize = 60;
const ROWS: usize = 100;
/// The most that a call may request.
const MOST_PARTS: usize = 2000;
const MOST_ROWS: usize = 10_000;

/// A call: `GET /api/NAME`.
pub(crate) struct ApiCall {
    /// The names of its parameters. Others are refused.
    pub(crate) parameters: &'static [&'static str],
    answer: fn(&Reader, &Given<'_>) -> Result<Vec<u8>>,
}

pub(crate) const SERVICES: ApiCall =
    ApiCall { parameters: &["service", "select", "from", "to", "parts"], answer: call_services };
pub(crate) const LABELS: ApiCall = ApiCall { parameters: &["service", "from", "to"], answer: call_labels };
pub(crate) const TOP: ApiCall =
    ApiCall { parameters: &["by", "service", "select", "from", "to", "price", "rows"], answer: call_top };
pub(crate) const DIFF: ApiCall = ApiCall {
    parameters: &[
        "service",
        "profile",
        "type",
        "from",
        "to",
        "select",
        "base_from",
        "base_to",
        "base_select",
        "label",
        "base",
        "new",
        "normalize",
        "rows",
    ],
    answer: call_diff,
};
pub(crate) const CHANGES: ApiCall = ApiCall { parameters: &["service", "from", "to"], answer: call_changes };

impl ApiCall {
    /// Answers with JSON. `price` is what a core costs in an hour, unless the parameters say it.
    pub(crate) fn answer(
        &self,
        reader: &Reader,
        parameters: &[(String, String)],
        now: i64,
        price: Option<f64>,
    ) -> Result<Vec<u8>> {
        let given = Given { parameters, now, price };
        given.check(self.parameters)?;
        (self.answer)(reader, &given)
    }
}

fn call_services(reader: &Reader, given: &Given<'_>) -> Result<Vec<u8>> {
    let (from, to) = given.range("-1h", given.now)?;
    let select = given.selector("select")?;
    let asked = Asked { service: given.text("service"), select: Some(&select), from, to, limits: CALL };
    json::bytes(&services::services(reader, &asked, given.count("parts", PARTS, MOST_PARTS)?)?)
}

/// The labels of a service, with the values that they have.
#[derive(Serialize)]
struct Labels {
    labels: std::collections::BTreeMap<String, std::collections::BTreeSet<String>>,
}

fn call_labels(reader: &Reader, given: &Given<'_>) -> Result<Vec<u8>> {
    let (from, to) = given.range("-1d", i64::MAX)?;
    let query = Query { service: given.text("service"), ..Query::new("", "", from, to) };
    json::bytes(&Labels { labels: reader.labels(&query, &flamelet_profile::Budget::new(CALL))? })
}

fn call_top(reader: &Reader, given: &Given<'_>) -> Result<Vec<u8>> {
    let (from, to) = given.range("-1h", i64::MAX)?;
    let select = given.selector("select")?;
    let asked = Asked { service: given.text("service"), select: Some(&select), from, to, limits: CALL };
    let by = given.text("by").unwrap_or("function");
    let by = if by == "service" { None } else { Some(UsageBy::parse(by)?) };
    let rows = given.count("rows", ROWS, MOST_ROWS)?;
    json::bytes(&fleet_usage(reader, &asked, &UsageOptions { by, price: given.price()? }, rows)?)
}

/// Sums up the CPU time of a fleet, in at most this many rows.
pub(crate) fn fleet_usage(
    reader: &Reader,
    asked: &Asked<'_>,
    options: &UsageOptions,
    rows: usize,
) -> Result<Usage> {
    // The file of a function shows whose code it is; and no group may be missing from a sum.
    let wanted = ReportOptions {
        granularity: Some(Granularity::Lines),
        node_count: Some(0),
        ..ReportOptions::default()
    };
    let mut found = usage(reader, asked, options, |profile: Profile| {
        let report = Report::new(profile, &wanted, ReportKind::Top)?;
        let owners = Owners::of(report.profile(), |_, _| false);
        Ok::<_, Error>((report, owners))
    })?;
    found.services.truncate(rows);
    found.groups.truncate(rows);
    Ok(found)
}

fn call_diff(reader: &Reader, given: &Given<'_>) -> Result<Vec<u8>> {
    let service = given.text("service").ok_or_else(|| Error::invalid("say which service"))?;
    let (from, to) = given.range("-1h", given.now)?;
    let (base, new) = sides(given, from, to)?;
    let wanted = Wanted {
        service,
        profile: profile_name(given.text("profile").unwrap_or("cpu")),
        value: given.text("type").unwrap_or_default(),
        base,
        new,
        is_normalized: given.switch("normalize")?,
        rows: given.count("rows", ROWS, MOST_ROWS)?,
        limits: CALL,
    };
    json::bytes(&compared(reader, &wanted)?)
}

/// Returns the two sides of a comparison. If nothing distinguishes them, the base is right before the range.
fn sides(given: &Given<'_>, from: i64, to: i64) -> Result<(DiffSide, DiffSide)> {
    let side = |from: i64, to: i64, select: String| -> Result<DiffSide> {
        let selector = flamelet_remote::selector::Selector::parse(&select)?;
        Ok(DiffSide { from, to, select, selector })
    };
    let select = given.text("select").unwrap_or_default();
    let base_select = given.text("base_select").unwrap_or(select);
    let of_label = match (given.text("label"), given.text("base"), given.text("new")) {
        (None, None, None) => None,
        (Some(label), Some(base), Some(new)) => {
            Some([(base_select, base), (select, new)].map(|(select, value)| with_label(select, label, value)))
        }
        _ => {
            return Err(Error::invalid("label, base and new belong together: a label and two of its values"));
        }
    };
    let has_base_range = given.text("base_from").is_some();
    if !has_base_range && given.text("base_to").is_some() {
        return Err(Error::invalid("base_to needs base_from"));
    }
    let is_distinct = of_label.is_some() || given.text("base_select").is_some();
    let (base_from, base_to) = match (has_base_range, is_distinct) {
        (true, _) => (given.moment("base_from", 0)?, given.moment("base_to", from)?),
        (false, true) => (from, to),
        (false, false) => (from.saturating_sub(to.saturating_sub(from)), from),
    };
    if base_from >= base_to {
        return Err(Error::invalid("the range of the base is empty"));
    }
    let [base, new] = of_label.unwrap_or_else(|| [base_select, select].map(str::to_owned));
    Ok((side(base_from, base_to, base)?, side(from, to, new)?))
}

/// Adds the value of a label to a selector.
fn with_label(select: &str, label: &str, value: &str) -> String {
    let inner = select.trim().trim_start_matches('{').trim_end_matches('}').trim().trim_end_matches(',');
    let separator = if inner.is_empty() { "" } else { ", " };
    format!("{{{inner}{separator}{}}}", condition(label, value))
}

fn call_changes(reader: &Reader, given: &Given<'_>) -> Result<Vec<u8>> {
    let (from, to) = given.range("-1d", i64::MAX)?;
    let asked = Asked { service: given.text("service"), select: None, from, to, limits: CALL };
    json::bytes(&changes(reader, &asked, |_| {})?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides_of(pairs: &[(&str, &str)]) -> Result<[(i64, i64, String); 2]> {
        let parameters: Vec<(String, String)> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let given = Given { parameters: &parameters, now: 1000, price: None };
        let (base, new) = sides(&given, 600, 1000)?;
        Ok([base, new].map(|side| (side.from, side.to, side.select)))
    }

    #[test]
    fn what_is_compared_is_two_ranges_or_two_values_of_a_label() {
        let side = |from: i64, to: i64, select: &str| (from, to, select.to_owned());
        assert_eq!(sides_of(&[]).expect("read"), [side(200, 600, ""), side(600, 1000, "")]);
        let selected = [("select", "{zone=\"a\"}")];
        let both = [side(200, 600, "{zone=\"a\"}"), side(600, 1000, "{zone=\"a\"}")];
        assert_eq!(sides_of(&selected).expect("read"), both, "a selector holds for both sides");
        let values = [("label", "version"), ("base", "1"), ("new", "2\"\\"), ("select", "{zone=\"a\"}")];
        let wanted = [
            side(600, 1000, "{zone=\"a\", version=\"1\"}"),
            side(600, 1000, "{zone=\"a\", version=\"2\\\"\\\\\"}"),
        ];
        assert_eq!(sides_of(&values).expect("read"), wanted);
        let other = [("base_select", "{zone=\"b\"}"), ("select", "{zone=\"a\"}")];
        let wanted = [side(600, 1000, "{zone=\"b\"}"), side(600, 1000, "{zone=\"a\"}")];
        assert_eq!(sides_of(&other).expect("read"), wanted);
        for wrong in [
            &[("label", "version")][..],
            &[("base", "1"), ("new", "2")],
            &[("base_to", "-1h")],
            &[("select", "{zone")],
            &[("label", "a b"), ("base", "1"), ("new", "2")],
        ] {
            assert!(sides_of(wrong).is_err(), "{wrong:?}");
        }
    }
}
