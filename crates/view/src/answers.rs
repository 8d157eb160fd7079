//! Answers to the page's requests.

use std::sync::Arc;

use flamelet_report::flame::{Boxes, FlameTree, NEUTRAL, NodeId, Viewport, hue_of};
use flamelet_report::page::{
    self, About, FlamePayload, FunctionRow, FunctionsPayload, Judged, call_graph, heatmap, labels, lanes,
    task_lanes,
};
use flamelet_report::profile::{Profile, filter};
use serde::Serialize;

use crate::Error;
use crate::cache::{Cache, Shaped};
use crate::cancel::CancelToken;
use crate::code::{Code, code_of};
use crate::lock::lock;
use crate::past::RangeId;
use crate::query::{ShapeKey, ViewQuery};
use crate::source::{LIVE_HEAP, ProfileEntry, WaitKind};

/// The maximum number of table rows to send; the page finds others with its search.
const MAX_ROWS: usize = 2_000;
/// The maximum number of boxes in a picture: it stays under a megabyte, and more boxes would be too small to see.
const MAX_BOXES: usize = 8_000;
const MAX_CHILDREN: usize = 500;
const GRAPH_NODES: usize = 60;

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
struct OpenedPage {
    about: Option<AboutOpened>,
    entries: Vec<ProfileEntry>,
    live: bool,
    /// Whether time ranges of a service's past can be chosen.
    past: bool,
    /// The services whose past can be shown, if there are several.
    services: Vec<String>,
    /// Which heap profiles can be taken of a live service, by the names of their endpoints.
    live_heap: Vec<&'static str>,
    /// Which profiles of waiting can be taken of it, by the names of their endpoints.
    live_waits: Vec<&'static str>,
    /// Whether it counts requests.
    requests: bool,
    /// How many profiles of a live service were dropped to make room.
    let_go: usize,
    code: bool,
    /// Why no code is shown, if that is worth telling the user.
    no_code: &'static str,
    /// The expressions for code that is yours which the viewer was started with.
    mine: Vec<String>,
}

/// Answers with the list of profiles, and facts about the chosen one.
pub(crate) fn open(cache: &Cache, query: &ViewQuery) -> Answer {
    let opened = cache.open(&query.shape)?;
    let range = ranged(cache, &query.shape)?;
    let about = opened.map(|(id, name, profile)| {
        let about = About::new(&profile, &name);
        let about = match &range {
            Some(range) => about.in_range(&range.profile),
            None => about,
        };
        AboutOpened { id, about }
    });
    let source = &cache.source;
    let views = LIVE_HEAP.iter().filter(|_| source.has_live_heap());
    let waits = WaitKind::ALL.iter().filter(|_| source.has_requests());
    json(&OpenedPage {
        about,
        entries: source.entries()?,
        live: source.is_live(),
        past: source.has_past(),
        services: source.services()?,
        live_heap: views.map(|view| view.endpoint()).collect(),
        live_waits: waits.map(|kind| kind.endpoint()).collect(),
        requests: source.has_requests(),
        let_go: source.let_go(),
        code: source.code.is_some(),
        no_code: source.no_code,
        mine: source.mine.clone(),
    })
}

/// Returns the profile of the selected time range, if there is one and no other is compared with it.
fn ranged(cache: &Cache, key: &ShapeKey) -> Result<Option<Arc<Shaped>>, Error> {
    if key.time.is_none() || key.base_time.is_some() {
        return Ok(None);
    }
    let (profile, base, time) = (key.profile.clone(), key.base.clone(), key.time.clone());
    cache.shaped(&ShapeKey { profile, base, time, ..ShapeKey::default() }).map(Some)
}

/// An answer with notes, such as that a filter matched nothing.
#[derive(Serialize)]
struct WithNotes<'a, T: Serialize> {
    notes: &'a [String],
    #[serde(flatten)]
    content: T,
}

/// Answers with the boxes of a viewport.
pub(crate) fn flame(cache: &Cache, query: &ViewQuery) -> Answer {
    let (shaped, weighed) = cache.weighed(query)?;
    let tree = shaped.tree(&weighed, query)?;
    let mut tree = lock(&tree);
    let boxes = visible_boxes(&mut tree, query);
    let content = FlamePayload::new(&tree, &boxes, weighed.weights.is_diff());
    json(&WithNotes { notes: &shaped.notes, content })
}

fn visible_boxes(tree: &mut FlameTree<Arc<Profile>>, query: &ViewQuery) -> Boxes {
    let (root, _) = tree.walk(query.zoom.iter().copied());
    let viewport = Viewport { max_boxes: MAX_BOXES, ..Viewport::of_width(query.width) };
    tree.layout(&viewport.zoomed(root))
}

/// Answers with the boxes of a viewport that are folded and hold a frame that the search matches.
pub(crate) fn holding(cache: &Cache, query: &ViewQuery) -> Answer {
    let (shaped, weighed) = cache.weighed(query)?;
    let Some(wanted) = matching(&shaped, &query.search)? else { return json(&[(); 0]) };
    let tree = shaped.tree(&weighed, query)?;
    let mut tree = lock(&tree);
    let boxes = visible_boxes(&mut tree, query);
    let nodes: Vec<NodeId> = boxes.boxes.iter().map(|found| found.node).collect();
    json(&tree.holding(&nodes, &wanted))
}

#[derive(Serialize)]
struct Child {
    name: String,
    key: u32,
    hue: u32,
    /// Whose code it is, in one word.
    owner: &'static str,
    weight: u64,
    own: u64,
    new: i64,
    base: i64,
    leaf: bool,
}

/// Answers with the rows below a row of the call tree.
pub(crate) fn children(cache: &Cache, query: &ViewQuery) -> Answer {
    let (shaped, weighed) = cache.weighed(query)?;
    let tree = shaped.tree(&weighed, query)?;
    let mut tree = lock(&tree);
    let (node, found) = tree.walk(query.zoom.iter().copied());
    if found < query.zoom.len() {
        return json(&[(); 0]);
    }
    let children: Vec<NodeId> = tree.children(node).take(MAX_CHILDREN).collect();
    let leaves: Vec<bool> = children.iter().map(|&child| tree.children(child).len() == 0).collect();
    let row = |(&child, &leaf): (&NodeId, &bool)| {
        let (value, own) = (tree.value(child), tree.own(child));
        let owner = tree.owner(child).map(|owner| tree.frames().owner_at(owner));
        let krate = tree.name(child).map(|name| tree.frames().krate(tree.profile(), name));
        Child {
            name: tree.text(child).into_owned(),
            key: tree.key(child),
            hue: owner.map_or(NEUTRAL, |owner| hue_of(owner, &krate.unwrap_or_default())),
            owner: owner.map_or("unknown", |owner| owner.kind()),
            weight: value.weight(),
            own: own.weight(),
            new: value.new,
            base: value.base,
            leaf,
        }
    };
    json(&children.iter().zip(&leaves).map(row).collect::<Vec<_>>())
}

/// Returns for each name whether the search matches it. A search without capitals ignores case.
fn matching(shaped: &Shaped, search: &str) -> Result<Option<Vec<bool>>, Error> {
    let is_lower = search == search.to_lowercase();
    let pattern = if is_lower && !search.is_empty() { format!("(?i){search}") } else { search.to_owned() };
    let Some(pattern) =
        filter::regex("search", &pattern).map_err(|error| Error::invalid(error.to_string()))?
    else {
        return Ok(None);
    };
    let (frames, profile) = (&shaped.frames, &shaped.profile);
    Ok(Some(frames.name_ids().map(|name| pattern.is_match(frames.text(profile, name))).collect()))
}

/// Answers with the table of functions.
pub(crate) fn functions(cache: &Cache, query: &ViewQuery) -> Answer {
    let (shaped, weighed) = cache.weighed(query)?;
    let wanted = matching(&shaped, &query.search)?;
    let all = shaped.functions(&weighed);
    let is_wanted = |row: &&FunctionRow| wanted.as_ref().is_none_or(|wanted| wanted[row.name.index()]);
    let mut rows: Vec<FunctionRow> = all.iter().filter(is_wanted).copied().collect();
    let count = rows.len();
    let text = |row: &FunctionRow| shaped.frames.text(&shaped.profile, row.name);
    let is_diff = weighed.weights.is_diff();
    match query.sort.as_str() {
        "name" => rows.sort_by(|a, b| text(a).cmp(text(b))),
        "change" => rows.sort_by_key(|row| std::cmp::Reverse(row.cum.delta().unsigned_abs())),
        // Of a difference, the columns show the new side.
        "cum" if is_diff => rows.sort_by_key(|row| std::cmp::Reverse(row.cum.new)),
        "cum" => {}
        _ if is_diff => rows.sort_by_key(|row| std::cmp::Reverse(row.flat.new)),
        _ => rows.sort_by_key(|row| std::cmp::Reverse(row.flat.weight())),
    }
    rows.truncate(MAX_ROWS);
    let weights = &weighed.weights;
    let (profile, frames) = (&shaped.profile, &shaped.frames);
    let content = FunctionsPayload::new(profile, frames, &rows, count, weights.total(), weights.is_diff());
    let content = match shaped.changed(&weighed) {
        Some(changed) => content.with_changed(changed),
        None => content,
    };
    json(&WithNotes { notes: &shaped.notes, content })
}

#[derive(Serialize)]
struct Matched {
    weight: u64,
    /// How much of it matches only in frames that are folded.
    folded: u64,
    total: u64,
}

/// Answers with the total weight of the stacks that a search matches.
pub(crate) fn search(cache: &Cache, query: &ViewQuery) -> Answer {
    let (shaped, weighed) = cache.weighed(query)?;
    let weights = &weighed.weights;
    let (profile, frames) = (&shaped.profile, &shaped.frames);
    let wanted = matching(&shaped, &query.search)?;
    let weight = wanted.as_ref().map_or(0, |wanted| weights.matching(profile, frames, wanted).weight());
    let wanted = wanted.filter(|_| !query.is_unfolded);
    let folded = wanted.map_or(0, |wanted| weights.matching_folded(profile, frames, &wanted).weight());
    json(&Matched { weight, folded, total: weights.total().weight() })
}

/// Answers with the call graph.
pub(crate) fn graph(cache: &Cache, query: &ViewQuery) -> Answer {
    let (shaped, weighed) = cache.weighed(query)?;
    let is_folded = !query.is_unfolded;
    json(&call_graph(&shaped.profile, &shaped.frames, &weighed.weights, GRAPH_NODES, is_folded))
}

/// Answers with a lane for each thread or task.
pub(crate) fn timeline(cache: &Cache, query: &ViewQuery) -> Answer {
    let (shaped, weighed) = cache.weighed(query)?;
    let lanes = if query.by_task { task_lanes } else { lanes };
    let lanes = lanes(&shaped.profile, &shaped.frames, weighed.sample_type, query.buckets);
    json(&lanes.ok_or_else(|| Error::not_found("this profile has no sample times"))?)
}

/// Answers with how busy each part of each second was.
pub(crate) fn heat(cache: &Cache, query: &ViewQuery) -> Answer {
    let (shaped, weighed) = cache.weighed(query)?;
    let heat = heatmap(&shaped.profile, weighed.sample_type);
    json(&heat.ok_or_else(|| Error::not_found("this profile has no sample times"))?)
}

/// Answers with how far the profile can be trusted, as `flamelet info` judges it; of a time range, how far that part can.
pub(crate) fn judged(cache: &Cache, query: &ViewQuery) -> Answer {
    if let Some(range) = ranged(cache, &query.shape)? {
        return json(&Judged::of(&range.profile));
    }
    let opened = cache.open(&query.shape)?;
    let (_, _, profile) = opened.ok_or_else(|| Error::not_found("no profile selected"))?;
    json(&Judged::of(&profile))
}

/// Answers with source and instructions of a function.
pub(crate) fn code(cache: &Cache, query: &ViewQuery) -> Answer {
    let options = cache.source.code.as_ref();
    let options = options.ok_or_else(|| Error::not_found("this viewer does not show source files"))?;
    let (shaped, weighed) = cache.weighed(query)?;
    let code: Code = code_of(&shaped.profile, weighed.sample_type, &query.function, options)?;
    json(&code)
}

/// Answers with how the value is distributed over labels.
pub(crate) fn tags(cache: &Cache, query: &ViewQuery) -> Answer {
    let (shaped, weighed) = cache.weighed(query)?;
    json(&labels(&shaped.profile, weighed.sample_type))
}

/// Answers with what stands out.
pub(crate) fn summary(cache: &Cache, query: &ViewQuery) -> Answer {
    let (shaped, weighed) = cache.weighed(query)?;
    if shaped.profile.sample_types().is_empty() {
        return Err(Error::not_found("this profile has no sample types"));
    }
    let (profile, owners) = cache.summarized(&query.shape, &shaped)?;
    let content = page::summary(&profile, &owners, weighed.sample_type);
    json(&WithNotes { notes: &shaped.notes, content })
}

/// Answers with sizes, lifetimes and sites of a heap profile.
pub(crate) fn heap(cache: &Cache, query: &ViewQuery) -> Answer {
    let (shaped, weighed) = cache.weighed(query)?;
    json(&page::heap(&shaped.profile, &shaped.frames, weighed.sample_type))
}

/// Answers with what the requests of a live service spend their time on.
pub(crate) fn requests(cache: &Cache, _: &ViewQuery) -> Answer {
    json(&cache.source.requests()?)
}

/// Takes a profile of the live service.
pub(crate) fn take(cache: &Cache, query: &ViewQuery, cancel: &CancelToken) -> Answer {
    json(&cache.source.take(query.wanted, query.seconds, cancel)?)
}

/// Answers with the course of the past.
pub(crate) fn course(cache: &Cache, query: &ViewQuery) -> Answer {
    json(&cache.source.course(&query.service, query.buckets)?)
}

/// Answers with the labels that can be selected in the past of a service.
pub(crate) fn past_labels(cache: &Cache, query: &ViewQuery) -> Answer {
    json(&cache.source.labels(&query.service)?)
}

/// Adds a time range of the past to the profiles to choose from.
pub(crate) fn range(cache: &Cache, query: &ViewQuery) -> Answer {
    let (Some(from), Some(to)) = (query.from, query.to) else {
        return Err(Error::invalid("a time range needs from and to, in milliseconds since 1970"));
    };
    let select = match query.select.trim() {
        "" | "{}" => String::new(),
        select if select.starts_with('{') => select.to_owned(),
        select => format!("{{{select}}}"),
    };
    let range = RangeId { from, to, select, service: query.service.clone() };
    match RangeId::parse(&range.to_string()) {
        Some(read) if read == range => json(&cache.source.add_range(&range)?),
        _ => Err(Error::invalid("the label selector has no closing brace or quote")),
    }
}
