//! Work without requests, so that a profile of an idle example is not empty.

use std::time::Duration;

use crate::routes::{burn_for, one_megabyte};

/// A thread that uses half a core and holds some memory.
pub(crate) fn start() {
    let work = || {
        let mut held = std::collections::VecDeque::new();
        loop {
            burn_for(Duration::from_millis(50));
            held.push_back(one_megabyte());
            if held.len() > 32 {
                held.pop_front();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    if let Err(error) = std::thread::Builder::new().name("busy".into()).spawn(work) {
        eprintln!("axum-service: no thread to be busy on: {error}");
    }
}
