//! Small programs by name: for each rule of `explain` one about which it must speak, and a similar one about which it must
//! not. Each works until the process has used some CPU time, or allocates a known amount.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

unsafe extern "C" {
    /// The CPU time of the process in microseconds.
    fn clock() -> i64;
}

const BUDGET: i64 = 500_000;

fn is_busy() -> bool {
    // SAFETY: `clock` reads a counter.
    unsafe { clock() < BUDGET }
}

/// Calls `work` until the time is used up.
fn busy(mut work: impl FnMut(u64)) {
    let mut turn = 0;
    while is_busy() {
        for _ in 0..20 {
            work(turn);
            turn += 1;
        }
    }
}

#[derive(Default)]
struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[inline(never)]
fn count_words<S: std::hash::BuildHasher + Default>() {
    let mut words: HashMap<u64, u64, S> = HashMap::default();
    busy(|turn| {
        for word in 0..500 {
            *words.entry(black_box(turn * 31 + word) % 1000).or_default() += 1;
        }
    });
    black_box(words);
}

#[inline(never)]
fn many_boxes() {
    busy(|_| {
        for number in 0..200u64 {
            black_box(Box::new(black_box(number)));
        }
    });
}

#[inline(never)]
fn one_box() {
    let mut boxed = Box::new(0u64);
    busy(|turn| {
        for number in 0..2000u64 {
            *boxed = black_box(boxed.wrapping_mul(31).wrapping_add(number ^ turn));
        }
    });
    black_box(boxed);
}

#[inline(never)]
fn grow() {
    busy(|_| {
        let mut items = Vec::new();
        for item in 0..64u64 {
            items.push(black_box(item));
        }
        black_box(items);
    });
}

#[inline(never)]
fn fill() {
    let mut items = Vec::with_capacity(64);
    busy(|_| {
        items.clear();
        for item in 0..64u64 {
            items.push(black_box(item));
        }
        black_box(&mut items);
    });
}

#[inline(never)]
fn copy() {
    let page = vec![7u8; 256 << 10];
    let mut into = page.clone();
    busy(|turn| {
        into.copy_from_slice(black_box(&page));
        into[0] = turn as u8;
        black_box(&mut into);
    });
}

#[inline(never)]
fn sum() {
    let page = vec![7u64; 32 << 10];
    busy(|_| {
        black_box(black_box(&page).iter().fold(1u64, |sum, item| sum.rotate_left(5) ^ item));
    });
}

#[inline(never)]
fn format_numbers() {
    busy(|turn| {
        let mut text = String::new();
        for number in 0..50 {
            let _ = write!(text, "{:>8.3} {}", black_box(turn as f64 / 7.0), number);
        }
        black_box(text);
    });
}

#[inline(never)]
fn digits() {
    let mut text = [0u8; 20];
    busy(|turn| {
        for number in 0..500u64 {
            let mut rest = black_box(turn + number);
            for place in text.iter_mut() {
                *place = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            black_box(&mut text);
        }
    });
}

#[inline(never)]
fn clone_arcs() {
    let shared = Arc::new(7u64);
    busy(|_| {
        for _ in 0..500 {
            black_box(Arc::clone(black_box(&shared)));
        }
    });
}

#[inline(never)]
fn borrow_arc() {
    let shared = Arc::new(7u64);
    busy(|turn| {
        for number in 0..2000 {
            black_box((**black_box(&shared)).wrapping_mul(number ^ turn));
        }
    });
}

#[derive(Default)]
struct Tree {
    left: Option<Box<Tree>>,
    right: Option<Box<Tree>>,
}

fn tree(depth: u32) -> Tree {
    let child = |depth: u32| (depth > 0).then(|| Box::new(tree(depth - 1)));
    Tree { left: child(depth), right: child(depth) }
}

/// Half of the time goes into freeing.
#[inline(never)]
fn drop_trees() {
    busy(|_| {
        let grown = black_box(tree(8));
        drop(black_box(grown));
    });
}

#[inline(never)]
fn keep_tree() {
    fn depth(tree: &Tree) -> u64 {
        let child = |child: &Option<Box<Tree>>| child.as_ref().map_or(0, |tree| depth(tree));
        1 + child(&tree.left) + child(&tree.right)
    }
    let grown = tree(8);
    busy(|_| {
        black_box(depth(black_box(&grown)));
    });
    std::mem::forget(grown);
}

/// Touches fresh pages again and again.
#[inline(never)]
fn fresh_pages() {
    busy(|_| {
        black_box(vec![black_box(1u8); 4 << 20]);
    });
}

#[inline(never)]
fn old_pages() {
    let mut pages = vec![1u64; 512 << 10];
    let mut at = 0usize;
    busy(|turn| {
        for _ in 0..2000 {
            at = (at * 31 + 7) % pages.len();
            pages[at] ^= turn;
        }
    });
    black_box(pages);
}

/// Spins for a flag that is never set.
#[inline(never)]
fn spin_for_flag() {
    let flag = AtomicBool::new(false);
    busy(|_| {
        for _ in 0..100 {
            if !black_box(&flag).load(Ordering::Relaxed) {
                // A sample shows the instruction after the one that takes the time, so another one must follow.
                std::hint::spin_loop();
                std::hint::spin_loop();
                std::hint::spin_loop();
                std::hint::spin_loop();
            }
        }
    });
}

#[inline(never)]
fn read_bytes() {
    let mut file = std::fs::File::open("/dev/zero").expect("/dev/zero");
    let mut byte = [0u8];
    busy(|_| {
        for _ in 0..100 {
            file.read_exact(&mut byte).expect("a zero");
        }
    });
}

#[inline(never)]
fn read_blocks() {
    let mut file = std::io::BufReader::with_capacity(1 << 20, std::fs::File::open("/dev/zero").expect("/dev/zero"));
    let mut byte = [0u8];
    let mut sum = 0u64;
    busy(|turn| {
        for _ in 0..100 {
            file.read_exact(&mut byte).expect("a zero");
            for number in 0..20 {
                sum = black_box(sum.rotate_left(7) ^ u64::from(byte[0]) ^ turn ^ number);
            }
        }
    });
}

fn threads(spins: [u64; 3]) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, spin) in spins.into_iter().enumerate() {
            let done = &done;
            let builder = std::thread::Builder::new().name(format!("worker-{number}"));
            let work = move || {
                while !done.load(Ordering::Relaxed) {
                    for turn in 0..spin * 1000 {
                        black_box(turn.wrapping_mul(31));
                    }
                    if spin < 100 {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                    }
                    if !is_busy() {
                        done.store(true, Ordering::Relaxed);
                    }
                }
            };
            builder.spawn_scoped(scope, work).expect("a thread");
        }
    });
}

/// Two threads take turns, one item each, however many cores there are.
#[inline(never)]
fn take_turns() {
    let (turn, changed) = (Mutex::new(0u64), Condvar::new());
    std::thread::scope(|scope| {
        for own in 0..2 {
            let (turn, changed) = (&turn, &changed);
            scope.spawn(move || {
                while is_busy() {
                    let now = turn.lock().expect("nobody panics");
                    let mut now = changed.wait_while(now, |now| *now % 2 != own && is_busy()).expect("nobody panics");
                    *now += 1;
                    changed.notify_one();
                }
                changed.notify_one();
            });
        }
    });
}

#[inline(never)]
fn count_atomically() {
    let count = AtomicU64::new(0);
    busy(|turn| {
        for number in 0..500 {
            black_box(&count).fetch_add(number ^ turn, Ordering::SeqCst);
        }
    });
}

#[inline(never)]
fn count_locally() {
    let count = AtomicU64::new(0);
    busy(|turn| {
        let mut own = 0u64;
        for number in 0..2000 {
            own = black_box(own.wrapping_add(number ^ turn));
        }
        count.fetch_add(own, Ordering::SeqCst);
    });
}

#[inline(never)]
fn uncontended() {
    let sum = Mutex::new(0u64);
    busy(|turn| {
        for number in 0..500 {
            let mut sum = sum.lock().expect("nobody panics");
            *sum = black_box(sum.wrapping_add(number ^ turn));
        }
    });
}

/// Nearly all of the time is in one line of many.
#[inline(never)]
#[rustfmt::skip]
fn one_line() {
    let mut sums = [0u64; 9];
    while is_busy() {
        for turn in 0..1500 { sums[0] = black_box(sums[0].rotate_left(5) ^ turn); }
        for turn in 0..1500 { sums[1] = black_box(sums[1].rotate_left(5) ^ turn); }
        for turn in 0..1500 { sums[2] = black_box(sums[2].rotate_left(5) ^ turn); }
        for turn in 0..1500 { sums[3] = black_box(sums[3].rotate_left(5) ^ turn); }
        for turn in 0..100_000 { sums[4] = black_box(sums[4].rotate_left(5) ^ turn); }
        for turn in 0..1500 { sums[5] = black_box(sums[5].rotate_left(5) ^ turn); }
        for turn in 0..1500 { sums[6] = black_box(sums[6].rotate_left(5) ^ turn); }
        for turn in 0..1500 { sums[7] = black_box(sums[7].rotate_left(5) ^ turn); }
        for turn in 0..1500 { sums[8] = black_box(sums[8].rotate_left(5) ^ turn); }
    }
    black_box(sums);
}

/// The same, and every line costs as much as the others.
#[inline(never)]
#[rustfmt::skip]
fn many_lines() {
    let mut sums = [0u64; 9];
    while is_busy() {
        for turn in 0..10_000 { sums[0] = black_box(sums[0].rotate_left(5) ^ turn); }
        for turn in 0..10_000 { sums[1] = black_box(sums[1].rotate_left(5) ^ turn); }
        for turn in 0..10_000 { sums[2] = black_box(sums[2].rotate_left(5) ^ turn); }
        for turn in 0..10_000 { sums[3] = black_box(sums[3].rotate_left(5) ^ turn); }
        for turn in 0..10_000 { sums[4] = black_box(sums[4].rotate_left(5) ^ turn); }
        for turn in 0..10_000 { sums[5] = black_box(sums[5].rotate_left(5) ^ turn); }
        for turn in 0..10_000 { sums[6] = black_box(sums[6].rotate_left(5) ^ turn); }
        for turn in 0..10_000 { sums[7] = black_box(sums[7].rotate_left(5) ^ turn); }
        for turn in 0..10_000 { sums[8] = black_box(sums[8].rotate_left(5) ^ turn); }
    }
    black_box(sums);
}

#[inline(never)]
fn checked_sum() {
    let items: Vec<u32> = (0..4096).collect();
    busy(|turn| {
        let mut sum = turn as u32;
        for at in 0..items.len() {
            // SAFETY: `at` is below the length.
            sum = sum.wrapping_add(unsafe { *black_box(&items).get_unchecked(at) });
        }
        black_box(sum);
    });
}

// Memory.

#[inline(never)]
fn temporary() {
    for number in 0..20_000u64 {
        black_box(format!("order {}", black_box(number)));
    }
}

#[inline(never)]
fn kept() {
    let texts: Vec<String> = (0..20_000u64).map(|number| format!("order {}", black_box(number))).collect();
    black_box(&texts);
    std::mem::forget(texts);
}

#[inline(never)]
fn hold_cache() -> Vec<u8> {
    vec![1; 4 << 20]
}

macro_rules! holders {
    ($($name:ident),*) => {
        $(#[inline(never)] fn $name() -> Vec<u8> {
            // Functions that differ are not merged by the linker.
            let fill = black_box(stringify!($name)).len() as u8;
            vec![fill; black_box(1 << 20)]
        })*
        fn hold_in_many_places() -> Vec<Vec<u8>> { vec![$($name()),*] }
    };
}
holders!(orders, carts, users, items, prices, stock, pages, texts, images, sessions);

/// Keeps a thousand buffers with room for 4 KB, of which `used` bytes are written.
#[inline(never)]
fn keep_buffers(used: usize) {
    let buffer = || {
        let mut buffer = Vec::with_capacity(black_box(4096));
        buffer.resize(used, 1u8);
        buffer
    };
    std::mem::forget(black_box((0..1000).map(|_| buffer()).collect::<Vec<_>>()));
}

/// Asks for memory in every usual way, each from a function of its own.
mod ask {
    use super::*;
    macro_rules! askers {
        ($($name:ident => $made:expr),* $(,)?) => {
            $(#[inline(never)] pub fn $name() { std::mem::forget(black_box($made)); })*
            pub fn all() { $($name();)* }
        };
    }
    askers! {
        ask_box => Box::new(black_box([1u8; 5000])),
        ask_vec => Vec::<u64>::with_capacity(black_box(1000)),
        ask_zeroed => vec![0u8; black_box(6000)],
        ask_string => String::with_capacity(black_box(7000)),
        ask_owned => "x".repeat(black_box(100)).as_str().to_owned(),
        ask_arc => Arc::new(black_box([2u8; 4000])),
        ask_push => { let mut all = Vec::new(); for item in 0..black_box(1000u64) { all.push(item); } all },
        ask_bytes => black_box(&[3u8; 3000][..]).to_vec(),
    }
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    match name.as_str() {
        "siphash" => count_words::<std::hash::RandomState>(),
        "fast-hash" => count_words::<BuildHasherDefault<Multiply>>(),
        "many-boxes" => many_boxes(),
        "one-box" => one_box(),
        "grow" => grow(),
        "fill" => fill(),
        "copy" => copy(),
        "sum" => sum(),
        "format" => format_numbers(),
        "digits" => digits(),
        "clone-arcs" => clone_arcs(),
        "borrow-arc" => borrow_arc(),
        "drop-trees" => drop_trees(),
        "keep-tree" => keep_tree(),
        "fresh-pages" => fresh_pages(),
        "old-pages" => old_pages(),
        "spin-for-flag" => spin_for_flag(),
        "read-bytes" => read_bytes(),
        "read-blocks" => read_blocks(),
        // The idle ones do enough to be sampled now and then: a thread without a sample is not in the profile.
        "one-thread" => threads([1000, 60, 60]),
        "all-threads" => threads([1000, 1000, 1000]),
        "take-turns" => take_turns(),
        "count-atomically" => count_atomically(),
        "count-locally" => count_locally(),
        "uncontended" => uncontended(),
        "one-line" => one_line(),
        "many-lines" => many_lines(),
        "checked-sum" => checked_sum(),
        "temporary" => temporary(),
        "kept" => kept(),
        "hold-cache" => std::mem::forget(black_box(hold_cache())),
        "hold-in-many-places" => std::mem::forget(black_box(hold_in_many_places())),
        "half-empty-buffers" => keep_buffers(black_box(1000)),
        "full-buffers" => keep_buffers(black_box(4096)),
        "ask" => ask::all(),
        _ => {
            eprintln!("unknown program {name:?}");
            std::process::exit(2);
        }
    }
}
