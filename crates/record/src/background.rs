//! Names, found while the recording runs, so that there is little left to do at its end.

use std::sync::mpsc;
use std::thread::JoinHandle;

use flamelet_symbol::MappedAt;
use flamelet_symbol::symbolize::{ModuleName, Options, Symbolizer};

use crate::Result;
use crate::kernel::KernelSymbols;
use crate::sys::{machine, sched};

/// Addresses of one module that want names.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) module: ModuleName,
    pub(crate) mapped: MappedAt,
    pub(crate) addresses: Vec<u64>,
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
    questions: Option<mpsc::Sender<Question>>,
    thread: JoinHandle<Names>,
}

impl Background {
    pub(crate) fn start(options: Option<Options>, with_kernel: bool) -> Result<Self> {
        let (questions, asked) = mpsc::channel::<Question>();
        let with_symbols = options.is_some();
        let thread = std::thread::Builder::new().name("flamelet-names".to_owned()).spawn(move || {
            sched::run_last();
            let kernel = if with_kernel { KernelSymbols::load() } else { None };
            let mut symbolizer = options.map(Symbolizer::new);
            for question in asked {
                if let Some(symbolizer) = &mut symbolizer {
                    symbolizer.frames(&question.module, question.mapped, &question.addresses);
                }
            }
            Names { symbolizer, kernel, cpu_nanos: machine::thread_cpu_nanos() }
        })?;
        Ok(Self { questions: with_symbols.then_some(questions), thread })
    }

    /// Where to ask; `None` when nobody wants names.
    pub(crate) fn questions(&self) -> Option<mpsc::Sender<Question>> {
        self.questions.clone()
    }

    /// Waits for the last answer. All other askers must be gone.
    pub(crate) fn finish(self) -> Names {
        drop(self.questions);
        self.thread.join().unwrap_or_default()
    }
}
