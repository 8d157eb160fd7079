// Four functions that take about the same time. argv[1] is how many percent longer `second` takes.
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
        })*
    };
}

parts!(first, second, third, fourth);

fn main() {
    let more: u64 = std::env::args().nth(1).expect("percent").parse().expect("a number");
    for _ in 0..1500 {
        first(1000);
        second(1000 + 10 * more);
        third(1000);
        fourth(1000);
    }
}
