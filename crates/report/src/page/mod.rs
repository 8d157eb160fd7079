//! The answers for the viewer: columns of JSON, the page that draws them, and both as one HTML file.
//!
//! The page's source is `ui/`; `assets/` is built from it by a test of this crate (`tests/page.rs`), which fails if
//! the two differ and rewrites `assets/` if `UPDATE_PAGE=1` is set. Neither `cargo build` nor `cargo install` needs
//! Node.

mod about;
#[cfg(feature = "text")]
mod changed;
mod columns;
mod functions;
mod graph;
mod heap;
mod html;
mod judged;
mod labels;
#[cfg(feature = "text")]
mod summary;
mod timeline;

use serde::Serialize;

pub use about::About;
#[cfg(feature = "text")]
pub use changed::Changed;
pub use columns::{FlamePayload, FunctionsPayload, NameColumns};
pub use functions::{FunctionRow, functions};
pub use graph::{CallGraph, call_graph};
pub use heap::{HeapPayload, heap};
pub use html::html;
pub use judged::Judged;
pub use labels::{LabelSpread, escaped_pattern, labels};
#[cfg(feature = "text")]
pub use summary::{Summarized, Summary, summary};
pub use timeline::{Heatmap, Lanes, heatmap, lanes, task_lanes};

/// Text as HTML shows it, in an element or a quoted attribute.
pub use crate::xml::escaped;

/// The page's script, in one file, to be run after the page's elements exist.
pub const SCRIPT: &str = include_str!("assets/app.js");
/// The page's style sheet.
pub const STYLE: &str = include_str!("assets/app.css");
/// `'sha256-…'` of [`SCRIPT`] and [`STYLE`], for the content security policy of a page that has them inline.
pub const SCRIPT_HASH: &str = include_str!("assets/app.js.sha256");
/// See [`SCRIPT_HASH`].
pub const STYLE_HASH: &str = include_str!("assets/app.css.sha256");

/// Returns `data` as JSON that can be placed inside a `<script>` element: it has no `<`, so nothing ends the element.
pub fn json_for_html(data: &impl Serialize) -> String {
    let json = serde_json::to_string(data).expect("columns of numbers and strings can always be written");
    json.replace('<', "\\u003c").replace("\u{2028}", "\\u2028").replace("\u{2029}", "\\u2029")
}

/// Returns the page with `json` (from [`json_for_html`]) inside. It may run only its own script and load nothing.
pub fn document(title: &str, json: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {script_hash}; \
         style-src {style_hash}; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<div id=\"app\"></div>\n\
         <noscript>This page needs JavaScript to draw the profile. It loads nothing from the network.</noscript>\n\
         <script type=\"application/json\" id=\"flamelet-data\">{json}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        script_hash = SCRIPT_HASH.trim(),
        style_hash = STYLE_HASH.trim(),
        title = escaped(title),
    )
}

#[cfg(test)]
mod tests;
