//! The answers for the viewer: columns of JSON, the page that draws them, and both as one HTML file.
//!
//! The page's source is `ui/`, a symbolic link in this crate; its build script bundles it.

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
mod marks;
#[cfg(feature = "text")]
mod summary;
mod timeline;

use std::io::Read;
use std::sync::OnceLock;

use flate2::read::DeflateDecoder;
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
#[cfg(feature = "text")]
pub(crate) use timeline::TimelineLane;
pub use timeline::{Heatmap, Lanes, heatmap, lanes, task_lanes};

/// Text as HTML shows it, in an element or a quoted attribute.
pub use crate::xml::escaped;

/// Returns the page's script, in one file, to be run after the page's elements exist.
pub fn script() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/app.js.deflate"))))
}

/// Returns the page's style sheet.
pub fn style() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/app.css.deflate"))))
}

fn unpacked(packed: &[u8]) -> String {
    let mut text = String::new();
    DeflateDecoder::new(packed).read_to_string(&mut text).expect("the build script packed a text");
    text
}

/// `'sha256-…'` of [`script`] and [`style`], for the content security policy of a page that has them inline.
pub const SCRIPT_HASH: &str = include_str!(concat!(env!("OUT_DIR"), "/app.js.sha256"));
/// See [`SCRIPT_HASH`].
pub const STYLE_HASH: &str = include_str!(concat!(env!("OUT_DIR"), "/app.css.sha256"));

/// Returns `data` as JSON that can be placed inside a `<script>` element: it has no `<`, so nothing ends the element.
pub fn json_for_html(data: &impl Serialize) -> String {
    let json = serde_json::to_string(data).expect("columns of numbers and strings can always be written");
    json.replace('<', "\\u003c").replace("\u{2028}", "\\u2028").replace("\u{2029}", "\\u2029")
}

/// Returns the page with `json` (from [`json_for_html`]) inside. It may run only its own script and load nothing.
pub fn document(title: &str, json: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {SCRIPT_HASH}; \
         style-src {STYLE_HASH}; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<div id=\"app\"></div>\n\
         <noscript>This page needs JavaScript to draw the profile. It loads nothing from the network.</noscript>\n\
         <script type=\"application/json\" id=\"flamelet-data\">{json}</script>\n\
         <script>{script}</script>\n</body>\n</html>\n",
        title = escaped(title),
        style = style(),
        script = script(),
    )
}

#[cfg(test)]
mod tests;
