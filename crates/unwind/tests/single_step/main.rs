//! Executes a program one instruction at a time, and at every instruction unwinds its stack with the compact
//! table and with framehop: both must agree. The program is this test itself, running `workload`.
//!
//! framehop has no rule for signal frames. There the part below the trampoline is compared with framehop, and
//! the part above it with the stack as it was at the last instruction before the signal.
//!
//! The workload runs once before the comparison, as lazy symbols are bound only once in a service's life: the
//! loader's resolver counts its frames from `rbx`, which no table holds.
//!
//! Fewer than 99.9 % right and rooted stacks fail the test. It prints the figures.

#![allow(unsafe_code, reason = "ptrace")]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod mapped;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod oracle;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod traced;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod workload;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    flamelet_test_support::skip!("single-stepping is written for x86_64 Linux");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    if std::env::var_os(traced::MARK).is_some() {
        workload::run();
        return;
    }
    let Some(figures) = compare() else {
        flamelet_test_support::skip!("this machine does not allow ptrace");
        return;
    };
    figures.print();
    assert!(figures.steps >= 50_000, "the workload ended after {} steps", figures.steps);
    // Where it does, there is no right answer to compare with.
    assert!(figures.oracle_gave_up * 1000 <= figures.steps, "framehop gave up at {}", figures.oracle_gave_up);
    assert!(figures.right * 1000 >= figures.steps * 999, "fewer than 99.9 % of the stacks are right");
}

/// More steps than the workload takes. (On some machines, reading the clock never ends when it is single-stepped.)
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const MAX_STEPS: usize = 400_000;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn compare() -> Option<Figures> {
    use flamelet_unwind::{Dump, walk};
    let mut traced = traced::Traced::start()?;
    let code = mapped::code_of(traced.pid());
    let modules = mapped::modules(&code);
    let mut oracle = oracle::Oracle::new(traced.pid(), &code);
    let mut figures = Figures::default();
    let (mut stack, mut frames, mut expected) = (Vec::new(), vec![0; 1024], Vec::new());
    let mut interrupted = Vec::new();
    while figures.steps < MAX_STEPS
        && let Some(registers) = traced.step()
    {
        traced.copy_stack(registers.sp, &mut stack);
        let mut dump = Dump::new(registers.sp, &stack);
        let unwound = walk(&modules, &registers, &mut dump, &mut frames);
        let is_whole = oracle.unwind(&registers, &stack, &mut expected);
        let frames = &frames[..unwound.depth];
        match frames.iter().position(|&frame| oracle.is_trampoline(frame)) {
            None => frames.clone_into(&mut interrupted),
            Some(trampoline) => {
                expected.truncate(trampoline + 1);
                expected.extend_from_slice(&interrupted);
            }
        }
        figures.add(frames, unwound.end, &expected, is_whole, &modules);
    }
    Some(figures)
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[derive(Default)]
struct Figures {
    steps: usize,
    right: usize,
    /// Steps at which the oracle gave up; correct ones among them agree only up to that point.
    oracle_gave_up: usize,
    /// How stacks were wrong: module, end, and an example.
    wrong: std::collections::BTreeMap<String, (usize, String)>,
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
impl Figures {
    fn add(
        &mut self,
        frames: &[u64],
        end: flamelet_unwind::End,
        expected: &[u64],
        is_whole: bool,
        modules: &flamelet_unwind::Modules,
    ) {
        self.steps += 1;
        self.oracle_gave_up += usize::from(!is_whole);
        let agrees = if is_whole { frames == expected } else { frames.starts_with(expected) };
        if end.is_rooted() && agrees {
            self.right += 1;
            return;
        }
        let module = modules.find(frames[0]);
        let name = module.map_or("(none)", |module| module.name.rsplit('/').next().unwrap_or("")).to_string();
        let bias = module.map_or(0, |module| module.bias);
        let example = format!("pc {:#x}: {frames:x?} for {expected:x?}", frames[0].wrapping_sub(bias));
        let entry = self.wrong.entry(format!("{name} {end:?}")).or_insert((0, example));
        entry.0 += 1;
    }

    fn print(&self) {
        println!(
            "single_step: {} steps, {} right and rooted ({:.4} %), oracle gave up at {}",
            self.steps,
            self.right,
            self.right as f64 * 100.0 / self.steps.max(1) as f64,
            self.oracle_gave_up
        );
        for (kind, (count, example)) in &self.wrong {
            println!("  {count} × {kind}, such as {example}");
        }
    }
}
