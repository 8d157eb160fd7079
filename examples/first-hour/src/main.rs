//! A small service with an ordinary problem, for `docs/first-hour.md`. It reads the log of a web server and answers which
//! routes failed. It sends itself some requests and prints how long they took.
//!
//! ```text
//! cargo run --release -p first-hour -- --requests 100
//! cargo run --release -p first-hour -- --requests 100 --fixed
//! ```

mod errors;
mod log;

use std::error::Error;
use std::net::SocketAddr;
use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How many lines the log has.
const LINES: usize = 1000;

/// What the service knows.
#[derive(Clone)]
struct Service {
    log: String,
    is_fixed: bool,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (requests, is_fixed) = options(std::env::args().skip(1))?;
    let service = Service { log: log::of_lines(LINES), is_fixed };
    let app = Router::new().route("/errors", get(errors_by_route)).with_state(service);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });

    let started = Instant::now();
    let mut answer = String::new();
    for _ in 0..requests {
        answer = request(address).await?;
    }
    let each = started.elapsed().as_secs_f64() * 1000.0 / f64::from(requests.max(1));
    println!("{answer}\n{requests} requests, {each:.1} ms each");
    Ok(())
}

/// Answers `GET /errors`.
async fn errors_by_route(State(service): State<Service>) -> String {
    let counts = errors::count(&service.log, service.is_fixed);
    let lines = counts.iter().map(|(route, count)| format!("{count:5} {route}\n"));
    lines.collect()
}

/// Asks the service once, as a client would.
async fn request(address: SocketAddr) -> Result<String, Box<dyn Error>> {
    let mut connection = TcpStream::connect(address).await?;
    connection.write_all(b"GET /errors HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    Ok(body.ok_or("the service did not answer")?)
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<(u32, bool), String> {
    let (mut requests, mut is_fixed) = (100, false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--fixed" => is_fixed = true,
            "--requests" => {
                let number = arguments.next().and_then(|text| text.parse().ok());
                requests = number.ok_or("--requests needs a number")?;
            }
            other => return Err(format!("{other:?}: usage: first-hour [--requests N] [--fixed]")),
        }
    }
    Ok((requests, is_fixed))
}
