//! Sorting with one copy of the code. Each type that the standard library sorts adds some 8 KB to a program, and a service
//! sorts twenty of them, none of them large.

use std::cmp::Ordering;

/// Sorts like [`sort_by`](slice::sort_by).
pub fn sort_rows<T>(rows: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    sort_order(&mut order, &|a, b| compare(&rows[a], &rows[b]));
    for start in 0..rows.len() {
        let mut at = start;
        // What belongs here is there; what is here goes there, and so on around a circle.
        loop {
            let from = std::mem::replace(&mut order[at], at);
            if from == start {
                break;
            }
            rows.swap(at, from);
            at = from;
        }
    }
}

/// Sorts like [`sort_by_key`](slice::sort_by_key).
pub fn sort_rows_by_key<T, K: Ord>(rows: &mut [T], key: impl Fn(&T) -> K) {
    sort_rows(rows, |a, b| key(a).cmp(&key(b)));
}

fn sort_order(order: &mut [usize], compare: &dyn Fn(usize, usize) -> Ordering) {
    order.sort_by(|&a, &b| compare(a, b));
}

#[cfg(test)]
mod tests {
    use super::{sort_rows, sort_rows_by_key};

    #[test]
    fn rows_are_sorted_as_the_standard_library_sorts_them() {
        let mut random = 1u64;
        for length in [0, 1, 2, 3, 10, 50, 1000] {
            let mut rows: Vec<(u64, usize)> = (0..length)
                .map(|at| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (random >> 60, at)
                })
                .collect();
            let mut known = rows.clone();
            known.sort_by_key(|row| row.0);
            let mut by_key = rows.clone();
            sort_rows_by_key(&mut by_key, |row| row.0);
            sort_rows(&mut rows, |a, b| a.0.cmp(&b.0));
            assert_eq!((&rows, &by_key), (&known, &known));
        }
    }
}
