//! A flame graph as one SVG file: a still picture everywhere, with zoom and search where scripts run.

use std::fmt::Write;
use std::sync::Arc;

use flamelet_profile::{Profile, unit};
use flamelet_symbol::owner::Owner;
use rustc_hash::FxHashMap;

use super::FlameOptions;
use super::boxes::{Boxes, FlameBox, Viewport};
use super::folding::{Folding, name_key};
use super::legend::{CHARACTER, PATTERNS, legend, paint};
use super::palette::hue_of;
use super::tree::FlameTree;
use crate::names::short_name;
use crate::stacks::{StackWeights, Value};
use crate::xml::escaped;

/// The script that zooms and searches inside the file; its source is `ui/`.
const SCRIPT: &str = include_str!(concat!(env!("OUT_DIR"), "/svg.js"));
const STYLE: &str = include_str!(concat!(env!("OUT_DIR"), "/svg.css"));

const ROW: u32 = 17;
const TOP: u32 = 46;
const MARGIN: f64 = 10.0;

/// Draws the flame graph of `profile`. Boxes narrower than a third of a pixel are not drawn.
pub fn svg(profile: &Profile, options: &FlameOptions) -> String {
    let sample_type = options.sample_type.unwrap_or_else(|| profile.default_sample_index());
    let weights = StackWeights::new(profile, sample_type);
    let frames = options.frames(profile);
    let mut tree =
        FlameTree::new(profile, Arc::clone(&frames), &weights, options.direction(), &options.folding());
    let width = f64::from(options.image_width.clamp(200, 100_000)) - 2.0 * MARGIN;
    let viewport = Viewport { min_pixels: 0.34, max_boxes: 60_000, ..Viewport::of_width(width) };
    let boxes = tree.layout(&viewport);
    let value_type = profile.sample_types().get(sample_type).copied().unwrap_or_default();
    let picture = FlameDrawing {
        tree: &tree,
        boxes: &boxes,
        unit: profile.string(value_type.unit),
        total: weights.total(),
        is_diff: weights.is_diff(),
        width,
        icicle: options.icicle,
    };
    let has_chains = boxes.boxes.iter().any(|found| found.chain.is_some());
    let frames = if has_chains {
        let mut tree = FlameTree::new(profile, frames, &weights, options.direction(), &Folding::off());
        let boxes = tree.layout(&Viewport { max_boxes: 20_000, ..viewport });
        FlameDrawing { tree: &tree, boxes: &boxes, ..picture }.data()
    } else {
        String::new()
    };
    picture.draw(&options.title, profile.string(value_type.kind), &frames)
}

/// Every frame of a picture that folds some, for its script.
struct EveryFrame {
    rows: u32,
    icicle: bool,
    names: Vec<String>,
    fills: Vec<String>,
    /// The name, the fill, whether it is yours, the row, x, the width, and what follows the name in the tooltip.
    boxes: Vec<(usize, usize, u8, u32, f64, f64, String)>,
}
serialize!(EveryFrame: rows, icicle, names, fills, boxes);

struct FlameDrawing<'a> {
    tree: &'a FlameTree<&'a Profile>,
    boxes: &'a Boxes,
    unit: &'a str,
    total: Value,
    is_diff: bool,
    width: f64,
    icicle: bool,
}

impl FlameDrawing<'_> {
    fn rows(&self) -> u32 {
        self.boxes.boxes.iter().map(|found| found.depth).max().unwrap_or(0) + 1
    }

    /// Returns what the script needs to draw this when a folded box is opened, as JSON.
    fn data(&self) -> String {
        let (mut names, mut fills) = (IndexedTexts::default(), IndexedTexts::default());
        let rounded = |pixels: f64| (pixels * 100.0).round() / 100.0;
        let mut boxes = Vec::with_capacity(self.boxes.boxes.len());
        for found in &self.boxes.boxes {
            let name = self.tree.text(found.node);
            let (x, width) = self.extent(found);
            let is_yours = u8::from(self.class(found).contains("yours"));
            let (at, fill) = (names.row(&name), fills.row(&self.fill(&name, found)));
            boxes.push((at, fill, is_yours, found.depth, rounded(x), rounded(width), self.values(found)));
        }
        let every = EveryFrame {
            rows: self.rows(),
            icicle: self.icicle,
            names: names.texts,
            fills: fills.texts,
            boxes,
        };
        serde_json::to_string(&every).expect("numbers and strings can always be written")
    }

    /// Draws the picture; `frames` is the [`data`](Self::data) of the picture with every frame, if this one folds some.
    fn draw(&self, title: &str, kind: &str, frames: &str) -> String {
        let rows = self.rows();
        let (width, height) = (self.width + 2.0 * MARGIN, TOP + rows * ROW + 42);
        let mut out = String::with_capacity(self.boxes.boxes.len() * 220 + 8000);
        let _ = write!(
            out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" \
             width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             font-family=\"system-ui, sans-serif\" font-size=\"11\" data-margin=\"{MARGIN}\">\n\
             <title>{title}</title>\n<style>{style}</style>\n{patterns}\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"{MARGIN}\" y=\"20\" font-size=\"15\" font-weight=\"600\" fill=\"#1b1f24\">{title}</text>\n\
             <text x=\"{MARGIN}\" y=\"37\" fill=\"#57606a\">{subtitle}</text>\n\
             <text id=\"matched\" x=\"{right}\" y=\"37\" text-anchor=\"end\" fill=\"#57606a\"></text>\n\
             <text id=\"search\" class=\"button\" x=\"{right}\" y=\"20\" text-anchor=\"end\">Search</text>\n\
             <text id=\"reset\" class=\"button\" x=\"{reset}\" y=\"20\" text-anchor=\"end\" visibility=\"hidden\">Reset zoom</text>\n\
             <text id=\"fold\" class=\"button\" x=\"{fold}\" y=\"20\" text-anchor=\"end\" visibility=\"hidden\">Fold again</text>\n\
             <g id=\"boxes\" class=\"boxes\">\n",
            title = escaped(title),
            style = STYLE,
            patterns = PATTERNS,
            subtitle = escaped(&self.subtitle(kind)),
            right = width - MARGIN,
            reset = width - MARGIN - 55.0,
            fold = width - MARGIN - 130.0,
        );
        for found in &self.boxes.boxes {
            self.draw_box(&mut out, found, rows);
        }
        let _ = write!(
            out,
            "</g>\n<g id=\"foot\">{legend}<text id=\"details\" x=\"{MARGIN}\" y=\"{y}\" fill=\"#1b1f24\"></text></g>\n\
             <metadata id=\"frames\">{frames}</metadata>\n<script type=\"text/javascript\"><![CDATA[\n{script}\n]]></script>\n</svg>\n",
            legend = if self.is_diff { String::new() } else { legend(MARGIN, height - 27) },
            y = height - 8,
            frames = escaped(frames),
            script = SCRIPT,
        );
        out
    }

    fn subtitle(&self, kind: &str) -> String {
        let total = match self.is_diff {
            true => format!("{} → {}", self.label(self.total.base), self.label(self.total.new)),
            false => self.label(self.total.new),
        };
        let cut = match self.boxes.narrower {
            0 => String::new(),
            _ => " · boxes under a third of a pixel are not drawn".to_owned(),
        };
        format!("{kind}, {total} in total{cut}")
    }

    /// Returns where a box starts and how wide it is.
    fn extent(&self, found: &FlameBox) -> (f64, f64) {
        let all = self.total.weight().max(1) as f64;
        let pixels = |weight: u64| weight as f64 / all * self.width;
        (MARGIN + pixels(found.x), pixels(found.value.weight()))
    }

    fn draw_box(&self, out: &mut String, found: &FlameBox, rows: u32) {
        let (x, width) = self.extent(found);
        let row = if self.icicle { found.depth } else { rows - 1 - found.depth };
        let y = TOP + row * ROW;
        let name = self.tree.text(found.node);
        // A chain is thinner than a frame.
        let inset = if found.chain.is_some() { 3 } else { 0 };
        let _ = write!(
            out,
            "<g{}><title>{}</title><rect x=\"{x:.2}\" y=\"{}\" width=\"{width:.2}\" height=\"{}\" rx=\"1\" {}/>",
            self.class(found),
            escaped(&format!("{name} ({})", self.values(found))),
            y + inset,
            ROW - 1 - 2 * inset,
            self.fill(&name, found),
        );
        // The text element always exists, empty if the name does not fit, for the script to fill after a zoom.
        let _ = writeln!(
            out,
            "<text x=\"{:.2}\" y=\"{}\">{}</text></g>",
            x + 3.0,
            y + 12,
            escaped(&clipped(&name, width))
        );
    }

    /// Returns the class by which the style distinguishes boxes without colour.
    fn class(&self, found: &FlameBox) -> &'static str {
        if found.chain.is_some() {
            return " class=\"chain\"";
        }
        match found.owner.map(|owner| self.tree.frames().owner_at(owner)) {
            Some(Owner::Yours) => " class=\"yours\"",
            _ => "",
        }
    }

    fn label(&self, value: i64) -> String {
        unit::label(value, self.unit)
    }

    fn share(&self, value: i64) -> String {
        unit::percentage(value, self.total.weight().try_into().unwrap_or(i64::MAX)).trim().to_owned()
    }

    /// Returns `12.30ms, 4.56%`, and in a diff also the base value and the change.
    fn values(&self, found: &FlameBox) -> String {
        let value = found.value;
        if self.is_diff {
            let sign = if value.delta() > 0 { "+" } else { "" };
            let (base, new, delta) =
                (self.label(value.base), self.label(value.new), self.label(value.delta()));
            return format!("{base} → {new}, {sign}{delta}");
        }
        let own = match found.own.weight() {
            0 => String::new(),
            _ => format!("; self {}, {}", self.label(found.own.new), self.share(found.own.new)),
        };
        format!("{}, {}{own}", self.label(value.new), self.share(value.new))
    }

    fn fill(&self, name: &str, found: &FlameBox) -> String {
        if self.is_diff {
            return format!("fill=\"{}\"", diff_colour(found.value));
        }
        let Some(owner) = found.owner.filter(|_| found.parent.is_some()) else {
            return "fill=\"#e6e8eb\"".to_owned();
        };
        let frames = self.tree.frames();
        let krate = found.name.map(|name| frames.krate(self.tree.profile(), name)).unwrap_or_default();
        let hue = hue_of(frames.owner_at(owner), &krate);
        // Two shades of a crate's hue, by name, so that neighbours can be distinguished.
        let opacity = ["1", ".84"][(name_key(name) / 64 % 2) as usize];
        format!("fill=\"{}\" fill-opacity=\"{opacity}\"", paint(hue))
    }
}

/// Texts, each once.
#[derive(Default)]
struct IndexedTexts {
    rows: FxHashMap<String, usize>,
    texts: Vec<String>,
}

impl IndexedTexts {
    fn row(&mut self, text: &str) -> usize {
        if let Some(&row) = self.rows.get(text) {
            return row;
        }
        self.texts.push(text.to_owned());
        self.rows.insert(text.to_owned(), self.texts.len() - 1);
        self.texts.len() - 1
    }
}

/// Returns a colour from blue (gone) through grey (unchanged) to red (new), by the share that changed.
fn diff_colour(value: Value) -> String {
    let both = value.weight().max(1) as f64;
    let change = (value.delta() as f64 / both).clamp(-1.0, 1.0);
    let strength = change.abs().sqrt();
    let far = if change > 0.0 { [229.0, 115.0, 90.0] } else { [96.0, 150.0, 220.0] };
    let near = [228.0, 230.0, 233.0];
    let mix = |at: usize| (near[at] + (far[at] - near[at]) * strength) as u8;
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

/// Returns as much of `name` as fits: all of it, its short form, or the start of that, with dots where it is cut.
fn clipped(name: &str, width: f64) -> String {
    let room = ((width - 6.0) / CHARACTER).max(0.0) as usize;
    let fits = |name: &str| name.chars().count() <= room;
    if room < 3 || fits(name) {
        return if fits(name) { name.to_owned() } else { String::new() };
    }
    let short = short_name(name);
    if fits(&short) { short } else { short.chars().take(room - 1).chain(['…']).collect() }
}
