//! The thread of the collector: takes in records, asks for names, saves now and then.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flamelet_symbol::MappedAt;
use flamelet_symbol::symbolize::ModuleName;

use crate::Result;
use crate::assemble::{self, Columns};
use crate::background::Question;
use crate::checkpoint::Saver;
use crate::collect::{Collector, Intake, MappingNumber};
use crate::drain::Message;
use crate::sys::machine;

/// How often names are asked for.
const ASK: Duration = Duration::from_millis(250);

/// What the thread works with.
pub(super) struct Worker {
    pub(super) collector: Collector,
    pub(super) questions: Option<mpsc::Sender<Question>>,
    pub(super) saver: Option<Saver>,
    pub(super) columns: Columns,
    pub(super) start_nanos: i64,
}

/// What it leaves.
pub(super) struct Collected {
    pub(super) intake: Intake,
    pub(super) cpu_nanos: u64,
    pub(super) save_failure: Option<std::io::Error>,
}

impl Worker {
    pub(super) fn start(self, inbox: mpsc::Receiver<Message>) -> Result<JoinHandle<Collected>> {
        let thread = std::thread::Builder::new().name("flamelet-collect".to_owned());
        Ok(thread.spawn(move || self.run(&inbox))?)
    }

    /// Until all who send are gone.
    fn run(mut self, inbox: &mpsc::Receiver<Message>) -> Collected {
        let mut asked = Instant::now();
        let mut asked_locations = 0;
        while let Ok(message) = inbox.recv() {
            match message {
                Message::Chunk(chunk) => self.collector.add(chunk),
                Message::Introduce { pid, with_waits } => self.collector.introduce(pid, with_waits),
            }
            if asked.elapsed() >= ASK {
                asked_locations = self.ask(asked_locations);
                asked = Instant::now();
            }
            if let Some(saver) = &mut self.saver {
                let so_far = self.collector.so_far();
                let (columns, start_nanos) = (&self.columns, self.start_nanos);
                saver.save_if_due(|| assemble::profile(so_far, columns, None, start_nanos));
            }
        }
        let intake = self.collector.finish(machine::monotonic_nanos());
        let save_failure = self.saver.and_then(|saver| saver.failure);
        Collected { intake, cpu_nanos: machine::thread_cpu_nanos(), save_failure }
    }

    /// Asks for the names of all locations that are new since the last time.
    fn ask(&self, asked: usize) -> usize {
        let Some(questions) = &self.questions else { return asked };
        let intake = self.collector.so_far();
        let mut by_mapping: Vec<(MappingNumber, Vec<u64>)> = Vec::new();
        for location in &intake.stacks.locations[asked..] {
            let Some(mapping) = location.mapping else { continue };
            match by_mapping.iter_mut().find(|(known, _)| *known == mapping) {
                Some((_, addresses)) => addresses.push(location.address),
                None => by_mapping.push((mapping, vec![location.address])),
            }
        }
        for (mapping, addresses) in by_mapping {
            let seen = &intake.stacks.mappings[mapping as usize];
            if seen.pid.is_some() {
                continue;
            }
            let module = &seen.module;
            let stray = intake.spaces.images.stray(&module.name, &module.build_id);
            let path =
                stray.map_or_else(|| module.name.to_string(), |path| path.to_string_lossy().into_owned());
            let mapped = MappedAt { start: module.start, limit: module.end, offset: module.file_offset };
            let name = ModuleName { path, build_id: module.build_id_hex() };
            let _ = questions.send(Question { module: name, mapped, addresses });
        }
        intake.stacks.locations.len()
    }
}
