//! What all pages have: a visit with its parameters, the head with the form, and addresses.

use std::fmt::Write;

use flamelet_profile::{Budget, Limits, Result};
use flamelet_remote::selector::Selector;
use flamelet_report::xml::escaped;

use super::VIEWER;
use crate::ask::{Asked, Given};
use crate::query::{Query, condition};
use crate::reader::Reader;

/// What reading one service may use.
const READING: Limits = Limits::of_memory(512 << 20);
const MILLISECOND: i64 = 1_000_000;
/// Labels with values that a page offers.
const MOST_OFFERED: usize = 300;

/// The pages: path, name.
const PAGES: [(&str, &str); 3] = [("./", "Services"), ("top", "Top"), ("changes", "What changed")];
/// The ranges to choose from.
const RANGES: [(&str, &str); 4] =
    [("-1h", "1 hour"), ("-6h", "6 hours"), ("-1d", "1 day"), ("-7d", "7 days")];
/// What pages pass on to each other.
const PASSED_ON: [&str; 2] = ["from", "select"];

/// A visit to a page.
pub(crate) struct Visit<'a> {
    pub(crate) reader: Reader,
    pub(crate) given: Given<'a>,
    /// Whether the viewer is served.
    pub(crate) has_viewer: bool,
}

impl Visit<'_> {
    /// Returns where the range of the page begins, as its address says it.
    fn from<'a>(&'a self, usual: &'a str) -> &'a str {
        self.given.text("from").unwrap_or(usual)
    }

    /// Returns what to read, until now.
    pub(super) fn asked<'a>(&'a self, usual_from: &str, select: &'a Selector) -> Result<Asked<'a>> {
        let (from, to) = self.given.range(usual_from, self.given.now)?;
        Ok(Asked { service: self.given.text("service"), select: Some(select), from, to, limits: READING })
    }

    /// Returns a link to the same page with another value of a parameter, for an attribute.
    pub(super) fn link(&self, page: &str, names: &[&str], change: (&str, &str)) -> String {
        let kept = names.iter().filter(|name| **name != change.0);
        let kept = kept.filter_map(|name| Some((*name, self.given.text(name)?)));
        let pairs = kept.chain([change]).filter(|(name, _)| !name.is_empty());
        let pairs: Vec<String> = pairs.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        format!("{page}?{}", pairs.join("&amp;"))
    }

    /// Returns a service's name, which leads to the viewer if there is one. The span is in nanoseconds since 1970.
    pub(super) fn service(&self, service: &str, (from, to): (i64, i64)) -> String {
        let shown = escaped(service);
        if !self.has_viewer {
            return shown.to_string();
        }
        let select = match self.given.text("select").unwrap_or_default().trim() {
            conditions if conditions.is_empty() || conditions.starts_with('{') => conditions.to_owned(),
            conditions => format!("{{{conditions}}}"),
        };
        let range = range_id((from, to), &select, service);
        let (service, range) = (encoded(service), encoded(&range));
        format!("<a href=\"{}#/?s={service}&amp;p={range}\">{shown}</a>", &VIEWER[1..])
    }

    /// Begins a page: `form` has more fields for its form, whose names are `names`.
    pub(super) fn head(&self, title: &str, usual_from: &str, names: &[&str], form: &str) -> Result<String> {
        let from = self.from(usual_from);
        let page_link = |(path, name): &(&str, &str)| match *name == title {
            true => format!("<a aria-current=\"page\">{name}</a> "),
            false => format!("<a href=\"{}\">{name}</a> ", self.link(path, &PASSED_ON, ("", ""))),
        };
        let pages: String = PAGES.iter().map(page_link).collect();
        let all: Vec<&str> = PASSED_ON.iter().chain(names).copied().collect();
        let range_link = |(range, name): &(&str, &str)| match *range == from {
            true => format!("<a aria-current=\"true\">{name}</a> "),
            false => format!("<a href=\"{}\">{name}</a> ", self.link("", &all, ("from", range))),
        };
        let ranges: String = RANGES.iter().map(range_link).collect();
        let select = escaped(self.given.text("select").unwrap_or_default());
        // A page is not refused because there are too many labels to offer.
        let labels = self.labels(usual_from).unwrap_or_default();
        Ok(format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title} – flamelet</title>\n\
             <link rel=\"icon\" href=\"data:,\">\n<link rel=\"stylesheet\" href=\"fleet.css\">\n</head>\n<body>\n\
             <nav aria-label=\"Pages\">{pages}</nav>\n<h1>{title}</h1>\n<nav aria-label=\"Range\">{ranges}</nav>\n\
             <form method=\"get\"><input type=\"hidden\" name=\"from\" value=\"{}\">\
             <label>Labels <input name=\"select\" list=\"labels\" size=\"30\" value=\"{select}\" \
             placeholder=\"{{version=&quot;2&quot;}}\"></label><datalist id=\"labels\">{labels}</datalist>\
             {form} <button>Show</button></form>\n",
            escaped(from)
        ))
    }

    /// Returns selectors of one label each, which the form offers.
    fn labels(&self, usual_from: &str) -> Result<String> {
        let (from, to) = self.given.range(usual_from, self.given.now)?;
        let query = Query { service: self.given.text("service"), ..Query::new("", "", from, to) };
        let found = self.reader.labels(&query, &Budget::new(READING))?;
        let pairs = found.iter().flat_map(|(name, values)| values.iter().map(move |value| (name, value)));
        let option = |(name, value): (&String, &String)| {
            format!("<option value=\"{}\">", escaped(&label_selector(name, value)))
        };
        Ok(pairs.take(MOST_OFFERED).map(option).collect())
    }
}

pub(super) fn label_selector(name: &str, value: &str) -> String {
    format!("{{{}}}", condition(name, value))
}

/// Returns the id of a range in the viewer. The span is in nanoseconds since 1970.
pub(super) fn range_id((from, to): (i64, i64), select: &str, service: &str) -> String {
    let (from, to) = (from.div_euclid(MILLISECOND), to.div_euclid(MILLISECOND));
    format!("range:{from}-{to}{select}:{service}")
}

/// Writes a text for a part of an address.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(byte as char),
            other => {
                // Writing to a text does not fail.
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    out
}
