//! What SVG files fill boxes with, and the line that says what it means.

use std::fmt::Write;

use super::palette::{KERNEL, LIGHT, NEUTRAL, SYSTEM, YOURS};

/// The width of an average character of the 11 pixel system font.
pub(super) const CHARACTER: f64 = 6.1;

/// Patterns that distinguish system libraries and the kernel without colour.
pub(crate) const PATTERNS: &str = "<defs>\
    <pattern id=\"system\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
    <rect width=\"6\" height=\"6\" fill=\"#c4cad2\"/><circle cx=\"2\" cy=\"2\" r=\".8\" fill=\"#8d95a1\"/></pattern>\
    <pattern id=\"kernel\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
    <rect width=\"6\" height=\"6\" fill=\"#a3abb6\"/><rect width=\"1\" height=\"6\" fill=\"#7d8693\"/></pattern>\
    </defs>\n";

/// Returns what a box of this hue is filled with.
pub(crate) fn paint(hue: u32) -> &'static str {
    match hue {
        SYSTEM => "url(#system)",
        KERNEL => "url(#kernel)",
        hue => LIGHT[hue as usize],
    }
}

/// Returns what the colours mean, in a line of 11 pixel text at `y`.
pub(crate) fn legend(left: f64, y: u32) -> String {
    let entries = [
        ("your code", LIGHT[YOURS as usize], 4),
        ("dependencies, by crate", LIGHT[0], 4),
        ("standard library", LIGHT[NEUTRAL as usize], 4),
        ("system libraries", paint(SYSTEM), 4),
        ("kernel", paint(KERNEL), 4),
        ("folded frames of others", LIGHT[0], 2),
    ];
    let mut out = String::from("<g fill=\"#57606a\" font-size=\"11\" font-family=\"system-ui, sans-serif\">");
    let mut x = left;
    for (text, paint, half) in entries {
        let (top, height) = (y - half, 2 * half);
        let _ = write!(
            out,
            "<rect x=\"{x:.0}\" y=\"{top}\" width=\"12\" height=\"{height}\" fill=\"{paint}\"/>\
             <text x=\"{:.0}\" y=\"{}\">{text}</text>",
            x + 16.0,
            y + 4,
        );
        x += 34.0 + text.len() as f64 * CHARACTER;
    }
    out + "</g>\n"
}
