//! The style of the pages.

/// Where the style is.
pub(crate) const STYLE_PATH: &str = "/fleet.css";
pub(crate) const STYLE: &str = "\
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }\n\
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }\n\
table { border-collapse: collapse; width: 100%; }\n\
th, td { text-align: left; padding: 0.3rem 0.6rem; border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); overflow-wrap: anywhere; }\n\
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }\n\
svg { display: block; fill: currentColor; }\n\
form { margin: 0.6rem 0; }\n\
input, select, button { font: inherit; }\n\
nav a { margin-right: 1rem; }\n";
