//! Labels that samples carry: what a thread or a future is working on.
//!
//! ```
//! # fn handle(_: &str) {}
//! # fn main() {
//! let tenant = "acme";
//! let _scope = flamelet::labels! { route = "/checkout", "tenant.id" = tenant };
//! // Until the scope is dropped, this thread's samples carry both labels.
//! handle(tenant);
//! # }
//! ```
//!
//! A future keeps its labels on whichever thread polls it:
//!
//! ```
//! use flamelet::labels::LabelFuture;
//!
//! # async fn checkout() {}
//! let work = checkout().in_scope([("route", "/checkout")]);
//! # drop(work);
//! ```
//!
//! A thread that takes over work, such as one of `spawn_blocking`, begins without labels. Pass it the current ones:
//!
//! ```
//! use flamelet::labels::LabelSet;
//!
//! # fn resize_image() {}
//! std::thread::spawn(LabelSet::current().carried_by(resize_image));
//! ```
//!
//! The same works for rayon (`pool.spawn(LabelSet::current().carried_by(work))`). With the feature `tokio`,
//! `flamelet::spawn_blocking` does it for tokio's pool.
//!
//! | carries labels | does not |
//! |---|---|
//! | a future with [`LabelFuture`], a `flamelet::task`, a request under `flamelet::axum::layer` | `tokio::spawn`, `tokio::task::spawn_blocking` |
//! | `flamelet::spawn`, `flamelet::spawn_blocking`, `flamelet::JoinSet` | `std::thread::spawn`, rayon's `spawn`, `join` and iterators |
//! | work with [`LabelSet::carried_by`] | callbacks that a library calls on threads of its own |

pub use flamelet_capture::labels::{LabelFuture, LabelSet, Labeled, Scope, scope};

/// Adds labels to those of the current thread until the returned [`Scope`](crate::labels::Scope) is dropped.
///
/// Names are identifiers or string literals; values are anything that is `AsRef<str>`.
///
/// ```
/// let _scope = flamelet::labels! { job = "nightly", "k8s.pod" = String::from("checkout-7f9c") };
/// ```
#[macro_export]
macro_rules! labels {
    ($($rest:tt)*) => {
        $crate::labels::LabelSet::current().with($crate::__label_pairs!([] $($rest)*)).enter()
    };
}

/// Turns `name = value, "name" = value` into an array of pairs.
#[doc(hidden)]
#[macro_export]
macro_rules! __label_pairs {
    ([$($done:expr,)*]) => { $crate::labels::pairs([$($done,)*]) };
    ([$($done:expr,)*] $name:ident = $value:expr $(, $($rest:tt)*)?) => {
        $crate::__label_pairs!([$($done,)* $crate::labels::pair(stringify!($name), $value),] $($($rest)*)?)
    };
    ([$($done:expr,)*] $name:literal = $value:expr $(, $($rest:tt)*)?) => {
        $crate::__label_pairs!([$($done,)* $crate::labels::pair($name, $value),] $($($rest)*)?)
    };
}

/// A name and its value, whatever text type the value has.
#[doc(hidden)]
pub fn pair<V: AsRef<str>>(name: &str, value: V) -> (&str, String) {
    (name, value.as_ref().to_owned())
}

/// Gives an empty array its type.
#[doc(hidden)]
pub fn pairs<const N: usize>(pairs: [(&str, String); N]) -> [(&str, String); N] {
    pairs
}

#[cfg(test)]
mod tests {
    use super::LabelSet;

    #[test]
    fn the_macro_takes_identifiers_text_and_any_text_type() {
        let owned = String::from("acme");
        {
            let _scope = crate::labels! { route = "/checkout", "tenant.id" = &owned, };
            let _inner = crate::labels! { route = owned.clone() };
            let current = LabelSet::current();
            let labels: Vec<(&str, &str)> = current.iter().collect();
            assert_eq!(labels, [("route", "acme"), ("tenant.id", "acme")]);
        }
        assert!(LabelSet::current().is_empty());
        let _none = crate::labels! {};
    }
}
