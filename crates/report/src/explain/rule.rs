//! What a rule of `explain` consists of.

use super::about::Subject;
use super::checks::Detected;
use super::facts::Facts;
use super::functions::Functions;
use super::language::ByLanguage;
use super::shown::ShownBy;

/// One thing that `explain` can find.
pub(super) struct Rule {
    /// A stable name, for programs.
    pub(super) id: &'static str,
    pub(super) about: Subject,
    pub(super) title: &'static str,
    pub(super) look: Look,
    /// The share of the total below which the rule reports nothing.
    pub(super) least: f64,
    pub(super) why: &'static str,
    pub(super) helps: ByLanguage,
    /// What shows more of it.
    pub(super) shown: ShownBy,
}

/// How a rule searches.
pub(super) enum Look {
    /// Samples with such a function anywhere on their stack.
    Anywhere(Functions),
    /// Samples with a function of both on their stack.
    Both(Functions, Functions),
    /// Samples whose innermost function is one of these, or has one of these inlined at that address.
    Leaf(Functions),
    /// The same, unless one of the others is inlined at that address.
    LeafWithout(Functions, Functions),
    /// Samples whose innermost function (after inlining) is one of these.
    Innermost(Functions),
    /// Anything else.
    Check(fn(&Facts<'_>) -> Option<Detected>),
}
