//! Requests of a made-up shop: JSON is parsed, sorted, counted, searched and written again.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;

use serde_json::{Value, json};

/// Answers a request; its kind and its data follow from the number.
pub(crate) fn answer(number: u64) {
    let document = orders(number).to_string();
    let orders: Value = serde_json::from_str(&document).expect("what was just written");
    let lines = orders["lines"].as_array().expect("a list");
    match number % 4 {
        0 => drop(black_box(cheapest(lines))),
        1 => drop(black_box(totals(lines))),
        2 => drop(black_box(words(lines))),
        _ => drop(black_box(report(lines))),
    }
}

fn orders(number: u64) -> Value {
    let line = |at: u64| {
        let product = (number * 31 + at * 17) % 211;
        json!({"product": format!("product {product}"), "price": product * 13 % 97, "count": at % 5 + 1})
    };
    json!({"customer": number, "lines": (0..250).map(line).collect::<Vec<_>>()})
}

#[inline(never)]
fn cheapest(lines: &[Value]) -> Vec<(u64, String)> {
    let mut sorted: Vec<(u64, String)> =
        lines.iter().map(|line| (number(line, "price"), name(line))).collect();
    sorted.sort();
    sorted.truncate(10);
    sorted
}

#[inline(never)]
fn totals(lines: &[Value]) -> HashMap<String, u64> {
    let mut totals = HashMap::new();
    for line in lines {
        *totals.entry(name(line)).or_insert(0) += number(line, "price") * number(line, "count");
    }
    totals
}

#[inline(never)]
fn words(lines: &[Value]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for line in lines {
        for word in name(line).split(' ') {
            *found.entry(word.to_uppercase()).or_insert(0) += 1;
        }
    }
    found
}

#[inline(never)]
fn report(lines: &[Value]) -> String {
    let rows =
        lines.iter().map(|line| format!("{:>20} {:8.2}", name(line), number(line, "price") as f64 / 7.0));
    rows.collect::<Vec<_>>().join("\n")
}

fn name(line: &Value) -> String {
    line["product"].as_str().unwrap_or_default().to_owned()
}

fn number(line: &Value, field: &str) -> u64 {
    line[field].as_u64().unwrap_or(0)
}
