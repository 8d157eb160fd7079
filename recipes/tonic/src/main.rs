//! tonic: the endpoints are on a port of their own, since a gRPC server answers HTTP/2 only.

use tonic::transport::Server;

flamelet::global_allocator!();
flamelet::lock_profiling!();

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    flamelet::serve("127.0.0.1:6060")?;
    let (_reporter, health) = tonic_health::server::health_reporter();
    Server::builder().add_service(health).serve("127.0.0.1:50051".parse()?).await?;
    Ok(())
}
