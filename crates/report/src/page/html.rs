//! A flame graph as one HTML file: the viewer's own page with its data inside.

use std::sync::Arc;

use flamelet_profile::Profile;
#[cfg(feature = "text")]
use flamelet_symbol::owner::Owners;

use super::about::{About, counts_memory};
#[cfg(feature = "text")]
use super::changed::Changed;
use super::columns::{FlamePayload, FunctionsPayload};
use super::functions::functions;
use super::graph::{CallGraph, call_graph};
use super::heap::{HeapPayload, heap};
use super::judged::Judged;
use super::labels::{LabelSpread, labels};
#[cfg(feature = "text")]
use super::summary::{Summarized, Summary, summary};
use super::timeline::{Heatmap, Lanes, heatmap, lanes};
use super::{document, json_for_html, script, style};
use crate::flame::{Direction, FlameOptions, FlameTree, Folding};
use crate::stacks::StackWeights;

/// How many functions the table of an exported page contains.
const MAX_FUNCTIONS: usize = 2_000;
/// The most boxes of one tree, before the size of the file is considered.
const MAX_BOXES: usize = 40_000;
/// A profile with fewer stacks than this includes the trees of all its sample types.
const SMALL_PROFILE: usize = 20_000;

/// How many functions the call graph of an exported page shows.
const GRAPH_NODES: usize = 60;
/// How many buckets the timeline of an exported page has.
const LANE_BUCKETS: usize = 400;

/// The data of one sample type in an exported page.
struct ExportedType {
    sample_type: usize,
    flame: FlamePayload,
    functions: FunctionsPayload,
    graph: CallGraph,
    labels: Vec<LabelSpread>,
    heap: Option<HeapPayload>,
    #[cfg(feature = "text")]
    summary: Option<Summary>,
}
serialize!(
    ExportedType: sample_type, flame, functions, graph, labels; heap, #[cfg(feature = "text")] summary
);

/// The data of an exported page.
struct Export {
    about: About,
    first: usize,
    inverted: bool,
    icicle: bool,
    /// Whether the page starts with every frame, and not with chains of frames as one box.
    everything: bool,
    pictures: Vec<ExportedType>,
    judged: Judged,
    /// Included if there is room.
    timeline: Option<Lanes>,
    heatmap: Option<Heatmap>,
}
serialize!(Export: about, first, inverted, icicle, everything, pictures, judged; timeline, heatmap);

/// Returns the viewer's page for `profile`, with everything in one file of at most about [`FlameOptions::max_bytes`].
/// It loads nothing from elsewhere. Boxes too narrow to fit are left out, and the page says so.
pub fn html(profile: &Profile, options: &FlameOptions) -> String {
    let first = options.sample_type.unwrap_or_else(|| profile.default_sample_index());
    let frames = options.frames(profile);
    let mut max_boxes = MAX_BOXES;
    let mut export = Export {
        about: About::new(profile, &options.title),
        first,
        inverted: options.inverted,
        icicle: options.icicle,
        everything: options.everything,
        pictures: Vec::new(),
        judged: Judged::of(profile),
        timeline: None,
        heatmap: None,
    };
    let room = options.max_bytes.saturating_sub(script().len() + style().len() + 2_000);
    let mut data = String::new();
    for sample_type in types_to_show(profile, first) {
        let weights = StackWeights::new(profile, sample_type);
        let mut tree =
            FlameTree::new(profile, Arc::clone(&frames), &weights, Direction::Callees, &Folding::off());
        loop {
            export.pictures.push(picture(profile, &mut tree, &weights, sample_type, max_boxes, options));
            let with_it = json_for_html(&export);
            if with_it.len() <= room || (export.pictures.len() == 1 && max_boxes <= 100) {
                data = with_it;
                break;
            }
            let dropped = export.pictures.pop();
            if !export.pictures.is_empty() {
                break;
            }
            let boxes = dropped.map_or(0, |picture| picture.flame.box_count());
            max_boxes = boxes.min(max_boxes) / 2;
        }
    }
    if profile.timeline.is_some() {
        export.timeline = lanes(profile, &frames, first, LANE_BUCKETS);
        export.heatmap = heatmap(profile, first);
        data = Some(json_for_html(&export)).filter(|with| with.len() <= room).unwrap_or(data);
    }
    document(&options.title, &data)
}

/// Returns the chosen type, and the others if that is cheap.
fn types_to_show(profile: &Profile, first: usize) -> Vec<usize> {
    let others = 0..profile.sample_types().len();
    let small = profile.stack_count() <= SMALL_PROFILE;
    std::iter::once(first).chain(others.filter(|&other| small && other != first)).collect()
}

fn picture(
    profile: &Profile,
    tree: &mut FlameTree<&Profile>,
    weights: &StackWeights,
    sample_type: usize,
    max_boxes: usize,
    options: &FlameOptions,
) -> ExportedType {
    let boxes = tree.layout_most(max_boxes);
    let diff = weights.is_diff();
    let mut rows = functions(profile, tree.frames(), weights);
    let count = rows.len();
    let graph = call_graph(profile, tree.frames(), weights, GRAPH_NODES, !options.everything);
    rows.truncate(MAX_FUNCTIONS.min(max_boxes));
    let functions = FunctionsPayload::new(profile, tree.frames(), &rows, count, weights.total(), diff);
    #[cfg(feature = "text")]
    let functions = match diff && profile.stack_count() <= SMALL_PROFILE {
        true => {
            let owners = owners(profile, options);
            functions.with_changed(&Changed::between_sides(profile, &owners, sample_type))
        }
        false => functions,
    };
    let heap = counts_memory(profile).then(|| heap(profile, tree.frames(), sample_type));
    let flame = FlamePayload::new(tree, &boxes, diff);
    ExportedType {
        sample_type,
        flame,
        functions,
        graph,
        labels: labels(profile, sample_type),
        heap,
        #[cfg(feature = "text")]
        summary: saved_summary(profile, options, sample_type),
    }
}

/// Returns what stands out, of a profile that is small enough to be copied for it.
#[cfg(feature = "text")]
fn saved_summary(profile: &Profile, options: &FlameOptions, sample_type: usize) -> Option<Summary> {
    if profile.stack_count() > SMALL_PROFILE || profile.sample_types().is_empty() {
        return None;
    }
    let shown = Arc::new(profile.clone());
    let whole = options.whole.clone().unwrap_or_else(|| Arc::clone(&shown));
    Some(summary(&Summarized { shown, whole }, &owners(profile, options), sample_type))
}

/// Returns whose code the functions are.
#[cfg(feature = "text")]
fn owners(profile: &Profile, options: &FlameOptions) -> Arc<Owners> {
    let found = || Arc::new(Owners::of(profile, |_, _| false));
    options.owners.clone().unwrap_or_else(found)
}
