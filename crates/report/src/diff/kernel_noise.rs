//! Samples that say more about when the kernel let interrupts in than about the program.
//!
//! A timer that fires while interrupts are off is delivered when they are on again, so all such time is charged to the
//! functions that turn them on: after a context switch, or where a lock is released. Their share depends on what else
//! the machine does, and differs between runs of the same program.

use flamelet_profile::{FunctionId, LocationId, Profile};

/// Functions that turn interrupts on, or wait for them: they matter as the innermost function.
const INNERMOST: [&str; 16] = [
    "finish_task_switch",
    "_raw_spin_unlock_irqrestore",
    "_raw_spin_unlock_irq",
    "__raw_spin_unlock_irqrestore",
    "__raw_spin_unlock_irq",
    "irqentry_exit",
    "irqentry_exit_to_user_mode",
    "exit_to_user_mode_prepare",
    "pv_native_safe_halt",
    "native_safe_halt",
    "default_idle",
    "default_idle_call",
    "acpi_idle_do_entry",
    "acpi_safe_halt",
    "arch_local_irq_enable",
    "raw_spin_rq_unlock_irq",
];

/// The beginnings of functions through which every interrupt goes.
const ENTRIES: [&str; 7] = [
    "asm_sysvec_",
    "sysvec_",
    "asm_common_interrupt",
    "common_interrupt",
    "apic_timer_interrupt",
    "el0_irq",
    "el1_irq",
];

/// What a function means for the samples that contain it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Meaning {
    /// Sets aside the samples in which it is innermost.
    innermost: bool,
    /// Sets aside all samples that contain it.
    anywhere: bool,
}

/// Which functions of a profile set their samples aside.
pub(super) struct KernelNoise(Vec<Meaning>);

impl KernelNoise {
    pub(super) fn of(profile: &Profile) -> Self {
        let functions = profile.functions().iter();
        Self(functions.map(|function| meaning(profile.string(function.name))).collect())
    }

    /// Returns whether the samples of this stack are set aside.
    pub(super) fn has(&self, profile: &Profile, stack: &[LocationId]) -> bool {
        let of = |function: FunctionId| self.0.get(function.index()).copied().unwrap_or_default();
        let mut functions = stack
            .iter()
            .flat_map(|&location| profile.lines(location))
            .filter_map(|line| line.function)
            .map(of);
        let Some(leaf) = functions.next() else { return false };
        leaf.innermost || leaf.anywhere || functions.any(|function| function.anywhere)
    }
}

fn meaning(name: &str) -> Meaning {
    // The compiler's copies of a function end in `.isra.0`, `.cold` and the like.
    let plain = name.split('.').next().unwrap_or(name);
    Meaning {
        innermost: INNERMOST.contains(&plain),
        anywhere: ENTRIES.iter().any(|entry| plain.starts_with(entry)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_and_interrupts_are_known_by_name() {
        let is_noise = |name| meaning(name) != Meaning::default();
        for name in
            ["finish_task_switch.isra.0", "asm_sysvec_apic_timer_interrupt", "_raw_spin_unlock_irqrestore"]
        {
            assert!(is_noise(name), "{name}");
        }
        for name in ["schedule", "tcp_sendmsg", "handle_softirqs", "my_raw_spin_unlock_irq", "main"] {
            assert!(!is_noise(name), "{name}");
        }
    }
}
