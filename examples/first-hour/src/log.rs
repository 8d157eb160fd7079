//! A log, as web servers write it.

use std::fmt::Write;

const ROUTES: [&str; 5] = ["/", "/cart", "/checkout", "/search?q=tea", "/static/logo.svg"];

/// Returns a log of this many lines; one request in seven failed.
pub(crate) fn of_lines(lines: usize) -> String {
    let mut log = String::new();
    for line in 0..lines {
        let (route, second, bytes) = (ROUTES[line % ROUTES.len()], line % 60, 500 + line % 900);
        let status = if line % 7 == 3 { 503 } else { 200 };
        let time = format!("16/Nov/2026:18:{:02}:{second:02} +0000", line / 60 % 60);
        // Writing to a string does not fail.
        let _ = writeln!(
            log,
            "192.0.2.{} - - [{time}] \"GET {route} HTTP/1.1\" {status} {bytes} \"-\" \"curl/8.5.0\"",
            line % 250
        );
    }
    log
}
