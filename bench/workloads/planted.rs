// Nine functions that take about the same time: enough to show by how much runs differ. argv[1] is how many percent longer
// `second` takes.
use std::hint::black_box;

fn work(rounds: u64) {
    let mut x = rounds;
    for i in 0..rounds * 100 {
        x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(i));
    }
    black_box(x);
}

macro_rules! parts {
    ($($name:ident),*) => {
        $(#[inline(never)]
        fn $name(rounds: u64) {
            work(black_box(rounds));
            // Without this, the compiler makes one function of all.
            black_box(stringify!($name));
        })*
    };
}

parts!(first, second, third, fourth, fifth, sixth, seventh, eighth, ninth);

fn main() {
    let more: u64 = std::env::args().nth(1).expect("percent").parse().expect("a number");
    for _ in 0..2000 {
        first(1000);
        second(1000 + 10 * more);
        third(1000);
        fourth(1000);
        fifth(1000);
        sixth(1000);
        seventh(1000);
        eighth(1000);
        ninth(1000);
    }
}
