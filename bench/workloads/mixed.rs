// Computes, allocates and makes system calls, one after another, and writes to the file argv[1] how many nanoseconds
// each of the three took. argv[2] is how much of it to do.
use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

#[inline(never)]
fn compute(rounds: u64) {
    let mut x = rounds;
    for i in 0..rounds * 100_000 {
        x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(i));
    }
    black_box(x);
}

#[inline(never)]
fn allocate(rounds: u64) {
    let mut kept = Vec::new();
    for i in 0..rounds * 8_000 {
        let block = black_box(vec![i as u8; 16 + (i % 64) as usize]);
        if i % 100 == 0 {
            kept.push(block);
        }
    }
    black_box(kept);
}

#[inline(never)]
fn call(rounds: u64) {
    let mut sink = std::fs::File::create("/dev/null").unwrap();
    for _ in 0..rounds * 200 {
        sink.write_all(b"x").unwrap();
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let out = arguments.next().expect("a file for the times");
    let rounds: u64 = arguments.next().expect("how much to do").parse().expect("a number");
    let mut times = String::new();
    for part in [compute, allocate, call] {
        let start = Instant::now();
        part(rounds);
        times += &format!("{}\n", start.elapsed().as_nanos());
    }
    std::fs::write(out, times).unwrap();
}
