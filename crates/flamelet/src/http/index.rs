//! The page at `/debug/pprof/`.

use std::fmt::Write;

use flamelet_report::page::escaped;

use super::answer::{self, Answer};
use super::endpoints::{ENDPOINTS, PageLink};
use crate::Profiler;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;\
                     color:#1b1f24}code,pre{background:#f3f4f6;border-radius:4px;padding:.1rem .3rem}\
                     pre{padding:.6rem .8rem;overflow-x:auto}td{padding:.1rem 1rem .1rem 0}\
                     @media(prefers-color-scheme:dark){body{background:#15181c;color:#e6e8eb}\
                     code,pre{background:#23272e}a{color:#7ab7ff}}";

/// Returns the page. Its links are relative, so that it works wherever it is mounted; commands to copy contain its
/// whole `address`.
pub(super) fn page(profiler: &Profiler, address: &str, has_viewer: bool) -> Answer {
    let name = escaped(profiler.name());
    let base = escaped(address);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{name} · flamelet</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\n\
         <h1>{name}</h1>\n<p>A browser gets flame graphs; programs get gzipped pprof.</p>\n<ul>\n"
    );
    if has_viewer {
        page.push_str("<li><a href=\"view/\">the viewer</a></li>\n");
    }
    for endpoint in ENDPOINTS {
        let Some(PageLink { query, text }) = &endpoint.link else { continue };
        let _ = writeln!(page, "<li><a href=\"{}{query}\">{text}</a></li>", endpoint.name());
    }
    let _ = write!(
        page,
        "</ul>\n<pre>flamelet view '{base}profile?seconds=10'\ngo tool pprof '{base}profile?seconds=10'\n\
         curl '{base}profile?seconds=10' -o profile.pb.gz</pre>\n<table>\n"
    );
    for (what, value) in facts(profiler) {
        let _ = writeln!(page, "<tr><td>{what}</td><td>{}</td></tr>", escaped(&value));
    }
    page.push_str("</table>\n</body></html>\n");
    answer::inline(answer::HTML, page)
}

fn facts(profiler: &Profiler) -> Vec<(&'static str, String)> {
    let (metrics, limits) = (profiler.metrics(), profiler.limits());
    let sampling = match metrics.frequency {
        0 => "nothing right now".into(),
        hertz => format!("{hertz} Hz, engine {}", metrics.engine),
    };
    let caps = format!(
        "{} s, {} Hz, {} captures at once",
        limits.max_duration.as_secs(),
        limits.max_frequency,
        limits.max_captures
    );
    vec![
        ("sampling", sampling),
        ("samples taken, lost", format!("{}, {}", metrics.samples, metrics.lost)),
        ("CPU time of the profiler", format!("{:.3} s", metrics.overhead.as_secs_f64())),
        ("captures served, refused", format!("{}, {}", metrics.captures_served, metrics.captures_refused)),
        ("caps", caps),
    ]
}
