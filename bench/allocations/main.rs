//! `allocations pairs|service THREADS TURNS`: the same allocations in every run, under an ordinary service's stacks.
//!
//! Compiled by `cargo xtask bench heap-record` with plain `rustc -O -g`. Prints one line of JSON: what the work took,
//! measured inside, without the start and the end of the program.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<usize>().ok());
    let (Some(threads), Some(turns)) = (number(1), number(2)) else {
        eprintln!("usage: allocations pairs|service THREADS TURNS");
        std::process::exit(2);
    };
    let work: fn(usize) = if arguments[0] == "pairs" { replace_blocks } else { answer_requests };
    let (start, cpu) = (Instant::now(), cpu_ticks());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(move || under(32, &mut || work(turns)));
        }
    });
    let wall = start.elapsed().as_secs_f64() * 1e3;
    println!("{{\"wall_ms\":{wall:.1},\"cpu_ticks\":{},\"rss_kb\":{}}}", cpu_ticks() - cpu, resident_kilobytes());
}

/// User and system time of this process, in hundredths of a second.
fn cpu_ticks() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

fn resident_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The frames of a server between the thread's start and the handler.
#[inline(never)]
fn under(depth: usize, work: &mut dyn FnMut()) {
    match depth {
        0 => work(),
        _ => under(black_box(depth - 1), work),
    }
    black_box(depth);
}

/// 64 live blocks of 16 to 200 bytes, one replaced at a time, from three places.
fn replace_blocks(turns: usize) {
    const SIZES: [usize; 8] = [16, 24, 32, 48, 64, 96, 128, 200];
    let mut blocks: Vec<Vec<u8>> = (0..64).map(|_| Vec::new()).collect();
    for turn in 0..turns {
        let size = black_box(SIZES[turn % SIZES.len()]);
        blocks[turn % 64] = match turn % 3 {
            0 => first_place(size),
            1 => second_place(size),
            _ => third_place(size),
        };
    }
}

#[inline(never)]
fn first_place(size: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(size))
}

#[inline(never)]
fn second_place(size: usize) -> Vec<u8> {
    black_box(first_place(size))
}

#[inline(never)]
fn third_place(size: usize) -> Vec<u8> {
    black_box(second_place(size))
}

/// A value of a document, as services keep them.
enum Value {
    Number(f64),
    Text(String),
    List(Vec<Value>),
    Fields(BTreeMap<String, Value>),
}

/// Reads a document, changes it, writes it again; keeps the last hundred.
fn answer_requests(turns: usize) {
    let mut kept: Vec<String> = Vec::new();
    for turn in 0..turns {
        let mut value = document(turn, 4);
        change(&mut value);
        let mut text = String::new();
        write(&value, &mut text);
        if kept.len() < 100 {
            kept.push(text);
        } else {
            kept[turn % 100] = text;
        }
    }
    black_box(kept);
}

fn document(seed: usize, depth: usize) -> Value {
    match (depth, seed % 3) {
        (0, 0) => Value::Number(seed as f64),
        (0, _) => Value::Text(format!("text number {seed}")),
        (_, 0) => Value::List((0..4).map(|at| document(seed + at, depth - 1)).collect()),
        _ => Value::Fields((0..4).map(|at| (format!("field-{at}"), document(seed + at, depth - 1))).collect()),
    }
}

fn change(value: &mut Value) {
    match value {
        Value::Number(number) => *number += 1.0,
        Value::Text(text) => text.push_str(" changed"),
        Value::List(values) => values.iter_mut().for_each(change),
        Value::Fields(fields) => fields.values_mut().for_each(change),
    }
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::Text(text) => {
            out.push('"');
            out.push_str(text);
            out.push('"');
        }
        Value::List(values) => values.iter().for_each(|value| {
            write(value, out);
            out.push(',');
        }),
        Value::Fields(fields) => fields.iter().for_each(|(name, value)| {
            out.push_str(name);
            out.push(':');
            write(value, out);
        }),
    }
}
