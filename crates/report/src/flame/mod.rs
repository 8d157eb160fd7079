//! Flame graphs: one layout for the page, the SVG and the HTML file.
//!
//! | to … | use |
//! |---|---|
//! | write a picture | [`svg`] |
//! | lay out boxes yourself | [`FlameTree`], [`FlameTree::layout`] |
//!
//! ```
//! use flamelet_profile::ProfileBuilder;
//! use flamelet_report::flame::{self, FlameOptions};
//!
//! let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
//! let main = builder.named_function("main", "main.rs");
//! let main = builder.frame(main, 1);
//! let stack = builder.stack(&[main]);
//! builder.sample(stack, Default::default(), &[1_000_000]);
//! let profile = builder.finish();
//! assert!(flame::svg(&profile, &FlameOptions::default()).contains("main (1ms, 100%"));
//! ```

mod boxes;
mod cursor;
mod folding;
mod legend;
mod palette;
mod svg;
mod tree;

pub use boxes::{Boxes, FlameBox, Viewport};
pub use cursor::Direction;
pub use folding::{Folding, name_key};
#[cfg(feature = "text")]
pub(crate) use legend::{PATTERNS, legend, paint};
#[cfg(test)]
pub(crate) use palette::LIGHT;
pub(crate) use palette::is_grey;
pub use palette::{NEUTRAL, hue_of};
pub use svg::svg;
pub use tree::{FlameTree, FoldedChain, NodeId};

use std::sync::Arc;

use flamelet_profile::Profile;
use flamelet_symbol::owner::Owners;

use crate::stacks::Frames;

/// Options for [`svg`] and the viewer's page.
#[derive(Clone, Debug)]
pub struct FlameOptions {
    /// The title of the picture.
    pub title: String,
    /// Which kind of value is drawn: a row of [`flamelet_profile::Profile::sample_types`]. `None` means the profile's
    /// default.
    pub sample_type: Option<usize>,
    /// The width of the SVG, in pixels.
    pub image_width: u32,
    /// Draw every frame, instead of one box for each chain of frames that are not yours. The page lets its user choose.
    pub everything: bool,
    /// Whose code the functions are; `None` to find out.
    pub owners: Option<Arc<Owners>>,
    /// The profile with the frames that it marks to be dropped, for the page's summary; `None` if none were dropped.
    pub whole: Option<Arc<Profile>>,
    /// Draw from the leaves up (callers), instead of from the roots.
    pub inverted: bool,
    /// Draw the root at the top, growing down. The page lets its user choose.
    pub icicle: bool,
    /// Draw what each thread did over time, instead of a flame graph. The page has both.
    pub timeline: bool,
    /// The maximum size of the HTML file in bytes. Boxes too narrow to fit are left out, and the page says so.
    pub max_bytes: usize,
}

impl Default for FlameOptions {
    fn default() -> Self {
        Self {
            title: "flamelet".into(),
            sample_type: None,
            image_width: 1200,
            everything: false,
            owners: None,
            whole: None,
            inverted: false,
            icicle: false,
            timeline: false,
            max_bytes: 4_500_000,
        }
    }
}

impl FlameOptions {
    fn direction(&self) -> Direction {
        if self.inverted { Direction::Callers } else { Direction::Callees }
    }

    fn folding(&self) -> Folding {
        if self.everything { Folding::off() } else { Folding::default() }
    }

    /// Returns the names of the boxes of `profile`, with their owners.
    pub(crate) fn frames(&self, profile: &Profile) -> Arc<Frames> {
        Arc::new(match &self.owners {
            Some(owners) => Frames::with_owners(profile, owners),
            None => Frames::new(profile),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
