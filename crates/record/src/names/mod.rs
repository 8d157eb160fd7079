//! Names, found while the recording runs if there is CPU time to spare, so that
//! there is little left to do at its end.

pub(crate) mod calls;
pub(crate) mod perf_map;
pub(crate) mod waits;

use std::sync::mpsc;
use std::thread::JoinHandle;

use flamelet_symbol::MappedAt;
use flamelet_symbol::kernel::KernelSymbols;
use flamelet_symbol::symbolize::{ModuleName, Options, Symbolizer};

use crate::Result;
use crate::sys::{machine, sched};

/// What wants names.
#[derive(Debug)]
pub(crate) enum Question {
    /// Addresses of one module.
    Module { module: ModuleName, mapped: MappedAt, addresses: Vec<u64> },
    /// The kernel: all of its names are read, once.
    Kernel,
}

/// What is known at the end.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) symbolizer: Option<Symbolizer>,
    pub(crate) kernel: Option<KernelSymbols>,
    pub(crate) cpu_nanos: u64,
}

/// The thread that finds names.
pub(crate) struct Background {
    questions: mpsc::Sender<Question>,
    thread: JoinHandle<Names>,
}

impl Background {
    pub(crate) fn start(options: Option<Options>) -> Result<Self> {
        let (questions, asked) = mpsc::channel::<Question>();
        let thread = std::thread::Builder::new().name("flamelet-names".to_owned()).spawn(move || {
            sched::run_last();
            let mut kernel = None;
            let mut symbolizer = options.map(Symbolizer::new);
            for question in asked {
                match (question, &mut symbolizer) {
                    (Question::Kernel, _) => {
                        kernel.get_or_insert_with(KernelNames::load);
                    }
                    (Question::Module { module, mapped, addresses }, Some(symbolizer)) => {
                        symbolizer.frames(&module, mapped, &addresses);
                    }
                    (Question::Module { .. }, None) => {}
                }
            }
            let (kernel, kernel_nanos) = kernel.map_or((None, 0), KernelNames::wait);
            Names { symbolizer, kernel, cpu_nanos: machine::thread_cpu_nanos() + kernel_nanos }
        })?;
        Ok(Self { questions, thread })
    }

    /// Where to ask.
    pub(crate) fn questions(&self) -> mpsc::Sender<Question> {
        self.questions.clone()
    }

    /// Waits for the last answer. All other askers must be gone.
    pub(crate) fn finish(self) -> Names {
        drop(self.questions);
        self.thread.join().unwrap_or_default()
    }
}

/// The kernel's names, read on a thread of their own: that takes about as long as those of a program and its libraries,
/// and at the end somebody waits for both.
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

    /// The names, where the kernel shows them, and the CPU time that they took.
    fn wait(self) -> (Option<KernelSymbols>, u64) {
        self.0.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}
