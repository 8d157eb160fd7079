//! The labels of a thread as OTEP 4947 publishes them, for readers outside the process.
#![allow(
    unsafe_code,
    reason = "a thread-local variable that C code and readers outside the process know by its name"
)]

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering, compiler_fence};

use super::Pairs;

/// The labels that readers get with the ids, in the order of the key map.
pub const ATTRIBUTES: [&str; 4] = ["route", "method", "task", "span"];

// The variable: a pointer to the record of the labels that the thread has now, or null. Rust can export no thread-local
// variable, so it is written down as the compiler of C would.
std::arch::global_asm!(
    ".pushsection .tbss.otel_thread_ctx_v1,\"awT\",@nobits",
    ".globl otel_thread_ctx_v1",
    ".type otel_thread_ctx_v1, @object",
    ".size otel_thread_ctx_v1, 8",
    ".p2align 3",
    "otel_thread_ctx_v1:",
    ".zero 8",
    ".popsection",
);

/// Returns where the variable of this thread is.
#[cfg(target_arch = "x86_64")]
fn variable() -> *mut *const u8 {
    let address: usize;
    // SAFETY: the sequence of the ABI for thread-local variables that linkers know. The function that it calls keeps all registers
    // but this one.
    unsafe {
        std::arch::asm!(
            "leaq otel_thread_ctx_v1@tlsdesc(%rip), %rax",
            "callq *otel_thread_ctx_v1@tlscall(%rax)",
            "addq %fs:0, %rax",
            out("rax") address,
            options(att_syntax),
        );
    }
    std::ptr::with_exposed_provenance_mut(address)
}

/// Returns where the variable of this thread is.
#[cfg(target_arch = "aarch64")]
fn variable() -> *mut *const u8 {
    let address: usize;
    // SAFETY: as above; these are the registers of that sequence, and the one with the address to return to.
    unsafe {
        std::arch::asm!(
            "adrp x0, :tlsdesc:otel_thread_ctx_v1",
            "ldr x1, [x0, :tlsdesc_lo12:otel_thread_ctx_v1]",
            "add x0, x0, :tlsdesc_lo12:otel_thread_ctx_v1",
            ".tlsdesccall otel_thread_ctx_v1",
            "blr x1",
            "mrs x1, tpidr_el0",
            "add x0, x0, x1",
            out("x0") address,
            out("x1") _,
            out("x30") _,
        );
    }
    std::ptr::with_exposed_provenance_mut(address)
}

/// Whether threads publish their labels.
static IS_ENABLED: AtomicBool = AtomicBool::new(false);

pub(crate) fn set_enabled(is_enabled: bool) {
    IS_ENABLED.store(is_enabled, Ordering::Relaxed);
}

/// Returns whether readers can find the variable: the program exports it, and no other library's comes first. A program that is
/// linked statically exports nothing.
pub(crate) fn is_exported() -> bool {
    // SAFETY: looks up a name.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"otel_thread_ctx_v1".as_ptr()) };
    found.cast() == variable()
}

/// The longest record that readers are sure to read.
const LONGEST: usize = 640;

/// What a set of labels looks like for readers; made when a thread first publishes it. Null until then. No lock: a child
/// that was forked while another thread makes it would wait forever.
#[derive(Default)]
pub(super) struct LabelRecord(AtomicPtr<Encoded>);

/// The bytes of a record; none if readers would learn nothing from it.
type Encoded = Option<Box<[u16]>>;

impl LabelRecord {
    /// Returns the address of the record; null if readers would learn nothing from it.
    fn address(&self, pairs: &Pairs) -> *const u8 {
        // SAFETY: null, or from the box that `make` has stored, which lives as long as this record.
        let known = unsafe { self.0.load(Ordering::Acquire).as_ref() };
        let bytes = known.unwrap_or_else(|| self.make(pairs));
        bytes.as_ref().map_or(std::ptr::null(), |bytes| bytes.as_ptr().cast())
    }

    /// Encodes it. Of several threads that do so, the first counts.
    #[cold]
    fn make(&self, pairs: &Pairs) -> &Encoded {
        let made = Box::into_raw(Box::new(encode(pairs).map(|bytes| aligned(&bytes))));
        let null = std::ptr::null_mut();
        match self.0.compare_exchange(null, made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: stored just now; it lives as long as this record.
            Ok(_) => unsafe { &*made },
            Err(first) => {
                // SAFETY: `made` is a box that nothing else knows; `first` was stored by another thread, as above.
                unsafe {
                    drop(Box::from_raw(made));
                    &*first
                }
            }
        }
    }
}

impl Drop for LabelRecord {
    fn drop(&mut self) {
        let made = *self.0.get_mut();
        if !made.is_null() {
            // SAFETY: from the box that `make` has stored; nothing refers to the record any more.
            drop(unsafe { Box::from_raw(made) });
        }
    }
}

/// Records begin at even addresses.
fn aligned(bytes: &[u8]) -> Box<[u16]> {
    let pair = |pair: &[u8]| u16::from_ne_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
    bytes.chunks(2).map(pair).collect()
}

/// Encodes a record: the ids, whether it is valid, flags, and the attributes by their numbers. `None` if the set has none of this.
fn encode(pairs: &Pairs) -> Option<Vec<u8>> {
    let value = |name: &str| pairs.iter().find(|(known, _)| **known == *name).map(|(_, value)| &**value);
    let ids = (|| Some((hex::<16>(value("trace_id")?)?, hex::<8>(value("span_id")?)?)))();
    let (trace, span) = ids.unwrap_or_default();
    const HEAD: usize = 28;
    let mut record = [&trace[..], &span[..], &[1, 0, 0, 0]].concat();
    for (key, name) in ATTRIBUTES.iter().enumerate() {
        let Some(text) = value(name).filter(|text| !text.is_empty()) else { continue };
        let text = cut(text, usize::from(u8::MAX));
        if record.len() + 2 + text.len() <= LONGEST {
            record.extend([key as u8, text.len() as u8]);
            record.extend_from_slice(text.as_bytes());
        }
    }
    let size = (record.len() - HEAD) as u16;
    record[HEAD - 2..HEAD].copy_from_slice(&size.to_ne_bytes());
    (ids.is_some() || size > 0).then_some(record)
}

/// Cuts a text to at most `most` bytes.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

/// Reads exactly `2 * N` hexadecimal digits.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// The time during which a thread publishes a set of labels. Afterwards it publishes what it published before, which whoever
/// entered that set still holds.
#[derive(Debug)]
pub(super) struct Attached {
    /// What was published before, and what is published now.
    published: Option<(*const u8, *const u8)>,
}

impl Attached {
    #[inline]
    pub(super) fn new(record: Option<(&LabelRecord, &Pairs)>) -> Self {
        if !IS_ENABLED.load(Ordering::Relaxed) {
            return Self { published: None };
        }
        let address = record.map_or(std::ptr::null(), |(record, pairs)| record.address(pairs));
        Self { published: Some((exchange(address), address)) }
    }
}

impl Drop for Attached {
    #[inline]
    fn drop(&mut self) {
        // Scopes that end in another order than they should leave nothing behind that is freed later.
        if let Some((before, own)) = self.published
            && exchange(before) != own
        {
            exchange(std::ptr::null());
        }
    }
}

/// Stores what the thread publishes now; returns what it was. Not inlined: older C libraries do not keep all registers in the
/// call inside, and callers of a function expect no more.
#[inline(never)]
fn exchange(address: *const u8) -> *const u8 {
    let variable = variable();
    // The thread is stopped while somebody reads, so only the compiler must keep the order.
    compiler_fence(Ordering::SeqCst);
    // SAFETY: a variable of this thread, which only this function writes to.
    let before = unsafe {
        let before = variable.read_volatile();
        variable.write_volatile(address);
        before
    };
    compiler_fence(Ordering::SeqCst);
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(labels: &[(&str, &str)]) -> Pairs {
        labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn a_record_has_the_ids_and_the_attributes_by_number() {
        let labels = pairs(&[
            ("method", "GET"),
            ("other", "left out"),
            ("route", "/cart"),
            ("span_id", "00f067aa0ba902b7"),
            ("trace_id", "4bf92f3577b34da6a3ce929d0e0e4736"),
        ]);
        let record = encode(&labels).expect("ids");
        assert_eq!(record[..4], [0x4b, 0xf9, 0x2f, 0x35]);
        assert_eq!(record[16..26], [0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 2, 0xb7, 1, 0]);
        assert_eq!(record[26..28], 12u16.to_ne_bytes());
        assert_eq!(record[28..], *b"\x00\x05/cart\x01\x03GET");
    }

    #[test]
    fn a_record_is_bounded_and_sets_without_content_have_none() {
        assert_eq!(encode(&pairs(&[("other", "x"), ("trace_id", "nonsense")])), None);
        let long = "ä".repeat(1000);
        let labels: Vec<(&str, &str)> = ATTRIBUTES.iter().map(|name| (*name, &*long)).collect();
        let record = encode(&pairs(&labels)).expect("attributes");
        assert_eq!(
            (record.len(), record[29]),
            (28 + 2 * 256, 254),
            "whole letters, and no more than readers take"
        );
        let only = encode(&pairs(&[("task", "refill")])).expect("an attribute");
        assert_eq!((&only[..24], &only[28..]), (&[0; 24][..], &b"\x02\x06refill"[..]));
    }

    #[test]
    fn each_thread_has_its_own_and_gets_the_one_before_back() {
        let (outer, inner) = (LabelRecord::default(), LabelRecord::default());
        let (of_outer, of_inner) = (pairs(&[("task", "outer")]), pairs(&[("task", "inner")]));
        set_enabled(true);
        assert!(exchange(std::ptr::null()).is_null());
        let first = Attached::new(Some((&outer, &of_outer)));
        let second = Attached::new(Some((&inner, &of_inner)));
        // SAFETY: the variable of this thread.
        let now = || unsafe { variable().read() };
        assert_eq!(now(), inner.address(&of_inner));
        let elsewhere = std::thread::spawn(|| exchange(std::ptr::null()).is_null());
        assert!(elsewhere.join().expect("no panic"), "another thread's is another");
        drop(second);
        assert_eq!(now(), outer.address(&of_outer));
        drop(first);
        assert!(now().is_null());
        set_enabled(false);
    }
}
