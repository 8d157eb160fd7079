//! axum 0.7: `flamelet::axum` is for axum 0.8, so the endpoints are on a port of their own. The layer that watches
//! requests works with both.

use axum::extract::MatchedPath;
use axum::routing::get;
use axum::{Router, serve};
use flamelet::requests::RequestLayer;

flamelet::global_allocator!();
flamelet::lock_profiling!();

async fn user() -> &'static str {
    "hello"
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let profiler = flamelet::Profiler::builder().name("axum-07").start()?;
    profiler.serve("127.0.0.1:6060")?;
    // `flamelet requests http://127.0.0.1:6060` prints what the requests of each route spend their time on.
    let requests =
        RequestLayer::new(&profiler, |extensions| extensions.get::<MatchedPath>().map(MatchedPath::as_str));
    let app = Router::new().route("/users/:id", get(user)).layer(requests);
    serve(tokio::net::TcpListener::bind("127.0.0.1:3000").await?, app).await?;
    Ok(())
}
