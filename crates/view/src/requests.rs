//! What a live service says about its requests: for each route how long they took, and what they spent it on.

use serde::{Deserialize, Serialize};

use crate::Error;

/// More routes than this are not shown; a service of ours has no more than 501.
const MOST_ROUTES: usize = 1_000;

/// The longest answer that is read: a thousand routes need a tenth of it.
pub const LONGEST_REQUESTS: u64 = 4 << 20;

/// Longer names are cut.
const LONGEST_NAME: usize = 200;

/// What was understood of a service's answer, and nothing else of it.
#[derive(Debug, Deserialize, Serialize)]
pub struct Requests {
    /// The routes, in the order of the answer.
    pub routes: Vec<RouteRequests>,
}

/// The requests of one route. All times are nanoseconds.
#[derive(Debug, Deserialize, Serialize)]
#[serde(from = "RouteInJson")]
#[expect(missing_docs, reason = "the names of the service's JSON")]
pub struct RouteRequests {
    pub route: String,
    pub method: String,
    #[serde(flatten)]
    pub all: RequestTimes,
    pub errors: u64,
    pub cancelled: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    pub slowest: RequestTimes,
}

/// The same without `flatten`, which would keep all unknown fields of the answer in memory.
#[derive(Deserialize)]
struct RouteInJson {
    route: String,
    method: String,
    count: u64,
    wall_ns: u64,
    cpu_ns: u64,
    blocked_ns: u64,
    awaiting_ns: u64,
    runnable_ns: u64,
    errors: u64,
    #[serde(default)]
    cancelled: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    slowest: RequestTimes,
}

impl From<RouteInJson> for RouteRequests {
    fn from(json: RouteInJson) -> Self {
        let RouteInJson { route, method, errors, cancelled, p50_ns, p90_ns, p99_ns, max_ns, slowest, .. } =
            json;
        let RouteInJson { count, wall_ns, cpu_ns, blocked_ns, awaiting_ns, runnable_ns, .. } = json;
        let all = RequestTimes { count, wall_ns, cpu_ns, blocked_ns, awaiting_ns, runnable_ns };
        Self { route, method, all, errors, cancelled, p50_ns, p90_ns, p99_ns, max_ns, slowest }
    }
}

/// Times of several requests together.
#[derive(Debug, Deserialize, Serialize)]
#[expect(missing_docs, reason = "the names of the service's JSON")]
pub struct RequestTimes {
    pub count: u64,
    pub wall_ns: u64,
    pub cpu_ns: u64,
    pub blocked_ns: u64,
    pub awaiting_ns: u64,
    pub runnable_ns: u64,
}

impl Requests {
    /// Reads the answer of a service's `/debug/pprof/requests`.
    pub fn parse(json: &[u8]) -> Result<Self, Error> {
        if json.len() as u64 > LONGEST_REQUESTS {
            return Err(Error::unreadable("the service's answer is longer than 4 MiB"));
        }
        let mut requests: Self = serde_json::from_slice(json).map_err(|error| {
            Error::unreadable(format!("the service's answer is not about requests: {error}"))
        })?;
        requests.routes.truncate(MOST_ROUTES);
        for route in &mut requests.routes {
            cut(&mut route.route);
            cut(&mut route.method);
        }
        Ok(requests)
    }
}

fn cut(name: &mut String) {
    let end = (0..=LONGEST_NAME.min(name.len())).rev().find(|&end| name.is_char_boundary(end));
    name.truncate(end.unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: &str =
        r#""count": 1, "wall_ns": 4, "cpu_ns": 1, "blocked_ns": 1, "awaiting_ns": 1, "runnable_ns": 1"#;

    fn answer(routes: usize, name: &str) -> String {
        let route = format!(
            r#"{{"route": "{name}", "method": "GET", {SUM}, "errors": 0, "cancelled": 0, "p50_ns": 4, "p90_ns": 4,
                "p99_ns": 4, "max_ns": 4, "slowest": {{{SUM}}}, "more": [1, 2]}}"#
        );
        format!(r#"{{"routes": [{}]}}"#, vec![route; routes].join(","))
    }

    #[test]
    fn an_answer_is_read_bounded_and_stripped_of_everything_else() {
        let requests = Requests::parse(answer(2, "/a").as_bytes()).expect("read");
        let shown = serde_json::to_value(&requests).expect("JSON");
        assert_eq!(shown["routes"][1]["slowest"]["awaiting_ns"], 1);
        assert_eq!(shown["routes"][0].get("more"), None);
        let many = Requests::parse(answer(2 * MOST_ROUTES, &"ä".repeat(500)).as_bytes()).expect("read");
        assert_eq!(many.routes.len(), MOST_ROUTES);
        assert_eq!(many.routes[0].route.len(), LONGEST_NAME);
    }

    #[test]
    fn anything_else_is_refused() {
        let endless = answer(2 * MOST_ROUTES, &"ä".repeat(2000));
        let error = Requests::parse(endless.as_bytes()).expect_err("refused").to_string();
        assert!(error.contains("longer than 4 MiB"), "{error}");
        for text in ["", "[]", "{\"routes\": 1}", "{\"routes\": [{}]}", &answer(1, "/a").replace("4", "-4")] {
            assert!(Requests::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
