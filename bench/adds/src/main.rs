//! A service of one route; it prints the address that it listens at.

#[cfg(feature = "flamelet")]
flamelet::global_allocator!();

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = axum::Router::new().route("/", axum::routing::get(|| async { "hello" }));
    #[cfg(feature = "flamelet")]
    let app = app.merge(flamelet::axum::router(flamelet::Profiler::builder().name("adds").start()?));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}
