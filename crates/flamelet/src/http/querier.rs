//! Pyroscope's query calls, answered from the history: Grafana's Pyroscope data source can point at the service.

use super::answer::Refusal;
use super::incoming::Incoming;
use super::plan::{PastQuestion, Plan};

/// `POST /querier.v1.QuerierService/…`.
pub(super) fn plan_call(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    request.rules.history.map_err(Refusal::forbidden)?;
    let header = |name: &str| {
        let value = request.parts.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    Ok(Plan::Query(PastQuestion::Call {
        method: request.name,
        content_type: header("content-type"),
        encoding: header("content-encoding"),
        body: request.body.to_vec(),
    }))
}

/// `GET /pyroscope/render?query=…&from=now-1h` and `render-diff`.
pub(super) fn plan_render(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    request.rules.history.map_err(Refusal::forbidden)?;
    let parameters = request.query.pairs().to_vec();
    Ok(Plan::Query(PastQuestion::Render {
        is_diff: request.name == "render-diff",
        parameters,
        now: request.rules.now,
    }))
}
