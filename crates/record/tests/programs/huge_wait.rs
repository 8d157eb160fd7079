// Waits under a frame that is larger than any dump.
use std::hint::black_box;
use std::time::Duration;

#[inline(never)]
fn waiter() {
    std::thread::sleep(black_box(Duration::from_millis(2000)));
}

#[inline(never)]
fn above_a_huge_frame() -> u8 {
    // Only its first byte is touched: the frame is large, not the work.
    let mut local = std::mem::MaybeUninit::<[u8; 122_000]>::uninit();
    let start = black_box(local.as_mut_ptr()) as *mut u8;
    // SAFETY: the first byte of `local`.
    unsafe { start.write_volatile(1) };
    waiter();
    // SAFETY: the byte that was written above.
    black_box(unsafe { start.read_volatile() })
}

#[inline(never)]
fn beyond_the_dump() -> u8 {
    black_box(above_a_huge_frame()) ^ 1
}

fn main() {
    black_box(beyond_the_dump());
}
