//! actix-web: the endpoints are on a port of their own, and the service's routes stay as they are.
//!
//! Each worker of actix-web is a thread with its own runtime. The sampler sees all of them.

use actix_web::{App, HttpServer, Responder, get, web};

flamelet::global_allocator!();
flamelet::lock_profiling!();

#[get("/hello/{name}")]
async fn hello(name: web::Path<String>) -> impl Responder {
    // A task with this name: what it awaits is at /debug/pprof/await, and its samples carry the label `task`.
    flamelet::task("hello", greet(name.into_inner())).await
}

async fn greet(name: String) -> String {
    format!("Hello, {name}!")
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    flamelet::serve("127.0.0.1:6060")?;
    HttpServer::new(|| App::new().service(hello)).bind(("127.0.0.1", 8080))?.run().await?;
    Ok(())
}
