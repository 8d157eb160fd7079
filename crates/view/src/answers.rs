//! The answers to the page's questions.

use flamelet_report::flame::profile::{LabelSetId, Profile, filter, unit};
use flamelet_report::flame::{
    About, FlamePayload, FunctionRow, FunctionsPayload, NEUTRAL, NodeId, Viewport, call_graph, heatmap,
    hue_of, lanes, name_key,
};
use flamelet_report::info::{Verdict, info};
use serde::Serialize;
use std::collections::BTreeMap;

use crate::code::{Code, code_of};
use crate::desk::{Desk, Shaped, Weighed, lock};
use crate::error::Error;
use crate::query::Query;
use crate::source::Entry;

/// The most rows of a table that are sent; the page searches for others.
const MAX_ROWS: usize = 2_000;
/// The most boxes of a picture: a view stays under a megabyte, and nobody can tell more of them apart.
const MAX_BOXES: usize = 8_000;
const MAX_CHILDREN: usize = 500;
const GRAPH_NODES: usize = 60;
const MAX_TAG_VALUES: usize = 50;

/// A JSON text.
pub(crate) type Answer = Result<String, Error>;

fn json(value: &impl Serialize) -> Answer {
    Ok(serde_json::to_string(value).expect("columns of numbers and strings can always be written"))
}

#[derive(Serialize)]
struct AboutOpened {
    id: String,
    #[serde(flatten)]
    about: About,
}

#[derive(Serialize)]
struct Opened {
    about: Option<AboutOpened>,
    entries: Vec<Entry>,
    live: bool,
    code: bool,
}

/// What there is, and what is known about the profile that was chosen.
pub(crate) fn open(desk: &Desk, query: &Query) -> Answer {
    let opened = desk.open(&query.shape)?;
    let about = opened.map(|(id, name, profile)| AboutOpened { id, about: About::new(&profile, &name) });
    let source = &desk.source;
    json(&Opened { about, entries: source.entries()?, live: source.is_live(), code: source.code.is_some() })
}

/// Notes about filters that matched nothing and the like.
#[derive(Serialize)]
struct WithNotes<'a, T: Serialize> {
    notes: &'a [String],
    #[serde(flatten)]
    content: T,
}

/// The boxes of a viewport.
pub(crate) fn flame(desk: &Desk, query: &Query) -> Answer {
    let (shaped, weighed) = desk.weighed(query)?;
    let tree = shaped.tree(&weighed, query)?;
    let mut tree = lock(&tree);
    let (root, _) = tree.walk(query.zoom.iter().copied());
    let viewport = Viewport { max_boxes: MAX_BOXES, ..Viewport::of_width(query.width) };
    let boxes = tree.layout(&viewport.zoomed(root));
    let content = FlamePayload::new(&tree, &boxes, weighed.weights.is_diff());
    json(&WithNotes { notes: &shaped.notes, content })
}

#[derive(Serialize)]
struct Child<'a> {
    name: &'a str,
    key: u32,
    hue: u32,
    weight: u64,
    own: u64,
    new: i64,
    base: i64,
    leaf: bool,
}

/// The rows below a row of the call tree.
pub(crate) fn children(desk: &Desk, query: &Query) -> Answer {
    let (shaped, weighed) = desk.weighed(query)?;
    let tree = shaped.tree(&weighed, query)?;
    let mut tree = lock(&tree);
    let (node, found) = tree.walk(query.zoom.iter().copied());
    if found < query.zoom.len() {
        return json(&[(); 0]);
    }
    let children: Vec<NodeId> = tree.children(node).take(MAX_CHILDREN).collect();
    let leaves: Vec<bool> = children.iter().map(|&child| tree.children(child).len() == 0).collect();
    let row = |(&child, &leaf): (&NodeId, &bool)| {
        let name = tree.text(child);
        let (value, own) = (tree.value(child), tree.own(child));
        Child {
            name,
            key: name_key(name),
            hue: tree.name(child).map_or(NEUTRAL, |name| hue_of(&tree.frames().krate(tree.profile(), name))),
            weight: value.weight(),
            own: own.weight(),
            new: value.new,
            base: value.base,
            leaf,
        }
    };
    json(&children.iter().zip(&leaves).map(row).collect::<Vec<_>>())
}

/// For each name whether the search matches it. Without capitals, case does not matter.
fn matching(shaped: &Shaped, search: &str) -> Result<Option<Vec<bool>>, Error> {
    let is_lower = search == search.to_lowercase();
    let pattern = if is_lower && !search.is_empty() { format!("(?i){search}") } else { search.to_owned() };
    let Some(pattern) =
        filter::regex("search", &pattern).map_err(|error| Error::bad_request(error.to_string()))?
    else {
        return Ok(None);
    };
    let (frames, profile) = (&shaped.frames, &shaped.profile);
    Ok(Some(frames.name_ids().map(|name| pattern.is_match(frames.text(profile, name))).collect()))
}

/// The table of functions.
pub(crate) fn functions(desk: &Desk, query: &Query) -> Answer {
    let (shaped, weighed) = desk.weighed(query)?;
    let wanted = matching(&shaped, &query.search)?;
    let all = shaped.functions(&weighed);
    let is_wanted = |row: &&FunctionRow| wanted.as_ref().is_none_or(|wanted| wanted[row.name.index()]);
    let mut rows: Vec<FunctionRow> = all.iter().filter(is_wanted).copied().collect();
    let count = rows.len();
    let text = |row: &FunctionRow| shaped.frames.text(&shaped.profile, row.name);
    match query.sort.as_str() {
        "name" => rows.sort_by(|a, b| text(a).cmp(text(b))),
        "cum" => {}
        "change" => rows.sort_by_key(|row| std::cmp::Reverse(row.cumulative.delta().unsigned_abs())),
        _ => rows.sort_by_key(|row| std::cmp::Reverse(row.flat.weight())),
    }
    rows.truncate(MAX_ROWS);
    let weights = &weighed.weights;
    let (profile, frames) = (&shaped.profile, &shaped.frames);
    let content = FunctionsPayload::new(profile, frames, &rows, count, weights.total(), weights.is_diff());
    json(&WithNotes { notes: &shaped.notes, content })
}

#[derive(Serialize)]
struct Matched {
    weight: u64,
    total: u64,
}

/// How much the stacks weigh that a search matches.
pub(crate) fn search(desk: &Desk, query: &Query) -> Answer {
    let (shaped, weighed) = desk.weighed(query)?;
    let weights = &weighed.weights;
    let weight = match matching(&shaped, &query.search)? {
        Some(wanted) => weights.matching(&shaped.profile, &shaped.frames, &wanted).weight(),
        None => 0,
    };
    json(&Matched { weight, total: weights.total().weight() })
}

/// The call graph.
pub(crate) fn graph(desk: &Desk, query: &Query) -> Answer {
    let (shaped, weighed) = desk.weighed(query)?;
    let rows = shaped.functions(&weighed);
    json(&call_graph(&shaped.profile, &shaped.frames, &weighed.weights, rows, GRAPH_NODES))
}

/// A lane for each thread.
pub(crate) fn timeline(desk: &Desk, query: &Query) -> Answer {
    let shaped = desk.shaped(&query.shape)?;
    let lanes = lanes(&shaped.profile, &shaped.frames, query.buckets);
    json(&lanes.ok_or_else(|| Error::not_found("this profile does not know when its samples were taken"))?)
}

/// How busy each part of each second was.
pub(crate) fn heat(desk: &Desk, query: &Query) -> Answer {
    let shaped = desk.shaped(&query.shape)?;
    let heat = heatmap(&shaped.profile);
    json(&heat.ok_or_else(|| Error::not_found("this profile does not know when its samples were taken"))?)
}

#[derive(Serialize)]
struct Judged {
    verdict: Verdict,
    faults: Vec<String>,
}

/// How much the profile can be trusted: what `flamelet info` says.
pub(crate) fn judged(desk: &Desk, query: &Query) -> Answer {
    let opened = desk.open(&query.shape)?;
    let (_, _, profile) = opened.ok_or_else(|| Error::not_found("no profile was chosen"))?;
    let info = info(&profile);
    json(&Judged { verdict: info.verdict, faults: info.faults })
}

/// Source and instructions of a function.
pub(crate) fn code(desk: &Desk, query: &Query) -> Answer {
    let options = desk.source.code.as_ref();
    let options = options.ok_or_else(|| Error::not_found("this viewer does not show source files"))?;
    let (shaped, weighed) = desk.weighed(query)?;
    let code: Code = code_of(&shaped.profile, weighed.sample_type, &query.function, options)?;
    json(&code)
}

#[derive(Serialize)]
struct TagValue {
    text: String,
    /// What a chip has to say to keep only this value.
    filter: String,
    weight: u64,
}

#[derive(Serialize)]
struct Tag {
    key: String,
    weight: u64,
    count: usize,
    numeric: bool,
    values: Vec<TagValue>,
}

/// How the value spreads over labels.
pub(crate) fn tags(desk: &Desk, query: &Query) -> Answer {
    let (shaped, weighed) = desk.weighed(query)?;
    json(&tags_of(&shaped.profile, &weighed))
}

fn tags_of(profile: &Profile, weighed: &Weighed) -> Vec<Tag> {
    let mut of_sets = vec![0u64; profile.label_set_count()];
    for sample in profile.samples() {
        let Some(value) = sample.values.get(weighed.sample_type) else { continue };
        let sum = &mut of_sets[sample.labels.index()];
        *sum = sum.saturating_add(value.unsigned_abs());
    }
    let units = filter::number_units(profile);
    let mut keys: BTreeMap<&str, BTreeMap<(bool, i64, String), u64>> = BTreeMap::new();
    let mut weights: BTreeMap<&str, u64> = BTreeMap::new();
    for (row, &weight) in of_sets.iter().enumerate().filter(|(_, weight)| **weight != 0) {
        let labels = profile.labels(LabelSetId::from_index(row));
        let mut seen = Vec::new();
        for label in labels {
            let key = profile.string(label.key);
            let value = if label.is_text() {
                (false, 0, profile.string(label.text).to_owned())
            } else {
                let unit = units.get(&label.key).map_or("", String::as_str);
                (true, label.number, unit::label(label.number, unit))
            };
            let sum = keys.entry(key).or_default().entry(value).or_default();
            *sum = sum.saturating_add(weight);
            if !seen.contains(&key) {
                seen.push(key);
                let sum = weights.entry(key).or_default();
                *sum = sum.saturating_add(weight);
            }
        }
    }
    keys.into_iter().map(|(key, values)| tag(key, weights[key], values)).collect()
}

fn tag(key: &str, weight: u64, values: BTreeMap<(bool, i64, String), u64>) -> Tag {
    let count = values.len();
    let numeric = values.keys().all(|(is_number, ..)| *is_number);
    let mut values: Vec<_> = values
        .into_iter()
        .map(|((is_number, _, text), weight)| {
            let pattern = if is_number { text.clone() } else { format!("^{}$", escaped_pattern(&text)) };
            TagValue { filter: format!("{key}={pattern}"), text, weight }
        })
        .collect();
    // Numbers stay in their order, which is their histogram; texts come by weight.
    if !numeric {
        values.sort_by_key(|value| std::cmp::Reverse(value.weight));
    }
    values.truncate(MAX_TAG_VALUES);
    Tag { key: key.to_owned(), weight, count, numeric, values }
}

/// `text` as a regular expression that matches it alone.
pub(crate) fn escaped_pattern(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Takes a profile of the live service.
pub(crate) fn take(desk: &Desk, query: &Query) -> Answer {
    json(&desk.source.take(query.seconds)?)
}
