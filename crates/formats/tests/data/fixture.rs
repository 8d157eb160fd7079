use std::hint::black_box;
#[inline(never)]
fn leaf(n: u64) -> u64 {
    let mut x = n;
    for i in 0..2000u64 {
        x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(i));
    }
    x
}
#[inline(never)]
fn heavy(n: u64) -> u64 {
    let mut s = 0u64;
    for i in 0..3 {
        s = s.wrapping_add(black_box(leaf(n + i)));
    }
    s
}
#[inline(never)]
fn light(n: u64) -> u64 {
    black_box(leaf(n))
}
#[inline(never)]
fn keep(store: &mut Vec<Vec<u8>>, n: usize) {
    store.push(black_box(vec![n as u8; 1000 + n % 3]));
}
#[inline(never)]
fn churn(n: usize) -> usize {
    let v = black_box(vec![1u8; 64 + n % 64]);
    v.len()
}
#[inline(never)]
fn recurse(n: u64) -> u64 {
    if n == 0 { light(1) } else { black_box(recurse(n - 1)) + 1 }
}
#[inline(never)]
fn work(rounds: u64, forgets: bool) -> u64 {
    let mut store = Vec::new();
    let mut s = 0u64;
    for i in 0..rounds {
        s = s.wrapping_add(heavy(i));
        s = s.wrapping_add(light(i));
        s = s.wrapping_add(recurse(5));
        keep(&mut store, i as usize);
        if forgets {
            store.clear();
        }
        s = s.wrapping_add(churn(i as usize) as u64);
    }
    s + store.len() as u64
}
fn main() {
    let mut arguments = std::env::args().skip(1);
    let rounds: u64 = arguments.next().and_then(|a| a.parse().ok()).unwrap_or(200);
    // With a second argument nothing is kept, for runs of unknown length.
    let forgets = arguments.next().is_some();
    let t =
        std::thread::Builder::new().name("helper".into()).spawn(move || work(rounds / 2, forgets)).unwrap();
    let a = work(rounds, forgets);
    let b = t.join().unwrap();
    std::mem::forget(vec![7u8; 5000]);
    println!("{}", a ^ b);
}
