//! Finds names while the recording runs, if there is CPU time to spare, so that little is left to do at its end.

use std::sync::mpsc;
use std::thread::JoinHandle;

use flamelet_symbol::MappedAt;
use flamelet_symbol::kernel::KernelSymbols;
use flamelet_symbol::symbolize::{ModuleName, SymbolizeOptions, Symbolizer};

use super::FoundNames;
use crate::Result;
use crate::collect::{MappingNumber, StackCollector, is_kernel};
use crate::sys::{machine, sched};

/// A request for names.
#[derive(Debug)]
enum NameQuestion {
    /// Addresses of one module.
    Module { module: ModuleName, mapped: MappedAt, addresses: Vec<u64> },
    /// The kernel, whose names are all read at once.
    Kernel,
}

/// The thread that finds names.
pub(crate) struct Background {
    questions: Questions,
    thread: JoinHandle<FoundNames>,
}

impl Background {
    /// Starts the thread. Without options, only the kernel's names are found.
    pub(crate) fn start(options: Option<SymbolizeOptions>) -> Result<Self> {
        let (sender, asked) = mpsc::channel::<NameQuestion>();
        let questions = Questions { sender, about_files: options.is_some() };
        let thread = std::thread::Builder::new().name("flamelet-names".to_owned()).spawn(move || {
            sched::run_last();
            answer(asked, options.map(Symbolizer::new))
        })?;
        Ok(Self { questions, thread })
    }

    /// Returns a handle for requesting names.
    pub(crate) fn questions(&self) -> Questions {
        self.questions.clone()
    }

    /// Waits for the last answer. All [`Questions`] must have been dropped.
    pub(crate) fn finish(self) -> FoundNames {
        drop(self.questions);
        self.thread.join().unwrap_or_default()
    }
}

fn answer(asked: mpsc::Receiver<NameQuestion>, mut symbolizer: Option<Symbolizer>) -> FoundNames {
    let mut kernel = None;
    for question in asked {
        match (question, &mut symbolizer) {
            (NameQuestion::Kernel, _) => {
                kernel.get_or_insert_with(KernelNames::load);
            }
            (NameQuestion::Module { module, mapped, addresses }, Some(symbolizer)) => {
                symbolizer.frames(&module, mapped, &addresses);
            }
            (NameQuestion::Module { .. }, None) => {}
        }
    }
    let (kernel, kernel_nanos) = kernel.map_or((None, 0), KernelNames::wait);
    FoundNames::new(symbolizer, kernel, machine::thread_cpu_nanos() + kernel_nanos)
}

/// Requests names from the background thread.
#[derive(Clone)]
pub(crate) struct Questions {
    sender: mpsc::Sender<NameQuestion>,
    about_files: bool,
}

impl Questions {
    /// Requests the names of all locations from the number `asked` on. Returns the number of locations.
    pub(crate) fn ask(&self, stacks: &StackCollector, asked: usize) -> usize {
        let mut by_mapping: Vec<(MappingNumber, Vec<u64>)> = Vec::new();
        for location in &stacks.table.locations[asked..] {
            let Some(mapping) = location.mapping else {
                if is_kernel(location.address) {
                    self.send(NameQuestion::Kernel);
                }
                continue;
            };
            match by_mapping.iter_mut().find(|(known, _)| *known == mapping) {
                Some((_, addresses)) => addresses.push(location.address),
                None => by_mapping.push((mapping, vec![location.address])),
            }
        }
        for (mapping, addresses) in by_mapping {
            self.ask_about_file(stacks, mapping, addresses);
        }
        stacks.table.locations.len()
    }

    fn ask_about_file(&self, stacks: &StackCollector, mapping: MappingNumber, addresses: Vec<u64>) {
        let seen = &stacks.table.mappings[mapping as usize];
        if !self.about_files || seen.pid.is_some() {
            return;
        }
        let module = &seen.module;
        let moved_file = stacks.spaces.images.moved_file(&module.name, &module.build_id);
        let path =
            moved_file.map_or_else(|| module.name.to_string(), |path| path.to_string_lossy().into_owned());
        let mapped = MappedAt { start: module.start, limit: module.end, offset: module.file_offset };
        let module = ModuleName { path, build_id: module.build_id_hex() };
        self.send(NameQuestion::Module { module, mapped, addresses });
    }

    fn send(&self, question: NameQuestion) {
        // The thread can only be gone if it panicked; the recording then lacks names, but is not lost.
        let _ = self.sender.send(question);
    }
}

/// The kernel's names, read on a separate thread: that takes about as long as those of a program and its libraries,
/// and at the end the user waits for both.
struct KernelNames(Option<JoinHandle<(Option<KernelSymbols>, u64)>>);

impl KernelNames {
    fn load() -> Self {
        let thread = std::thread::Builder::new().name("flamelet-kernel".to_owned());
        let load = || {
            sched::run_last();
            (KernelSymbols::load(), machine::thread_cpu_nanos())
        };
        Self(thread.spawn(load).ok())
    }

    /// Returns the names, if the kernel shows them, and the CPU time that reading them took.
    fn wait(self) -> (Option<KernelSymbols>, u64) {
        self.0.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}
