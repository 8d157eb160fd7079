//! The arguments of `flamelet heap`.

use clap::ValueHint;
use flamelet_profile::HeapView;

use crate::arguments::compare::ComparedArgs;
use crate::arguments::options::Heap;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Heap profiles, '-', the URL of a service, or the recovery file of a killed one
    #[arg(required = true, value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    pub(super) sources: Vec<String>,
    #[command(flatten)]
    views: HeapViews,
    #[command(flatten)]
    pub(super) compared: ComparedArgs<Heap>,
}

/// The view of memory; by default the one that the profile was made for.
#[derive(clap::Args, Clone, Copy)]
#[group(multiple = false)]
struct HeapViews {
    /// Memory in use [default for services and plain heap profiles]
    #[arg(long, help_heading = "What to show")]
    in_use: bool,
    /// Memory allocated since the start
    #[arg(long, help_heading = "What to show")]
    allocated: bool,
    /// Memory in use at the peak
    #[arg(long, help_heading = "What to show")]
    peak: bool,
    /// Memory that grows, a possible leak [default for several profiles]
    #[arg(long, help_heading = "What to show")]
    growth: bool,
    /// Where memory is freed, and where it was allocated
    #[arg(long, help_heading = "What to show")]
    freed: bool,
    /// How long memory lived before it was freed
    #[arg(long, help_heading = "What to show")]
    lifetime: bool,
    /// Memory that was freed before its thread allocated anything else
    #[arg(long, help_heading = "What to show")]
    temporary: bool,
}

impl Args {
    pub(super) fn view(&self) -> Option<HeapView> {
        let views = self.views;
        let chosen = [
            (views.in_use, HeapView::InUse),
            (views.allocated, HeapView::Allocated),
            (views.peak, HeapView::Peak),
            (views.growth, HeapView::Growth),
            (views.freed, HeapView::Freed),
            (views.lifetime, HeapView::Lifetime),
            (views.temporary, HeapView::Temporary),
        ];
        chosen.into_iter().find(|(is_chosen, _)| *is_chosen).map(|(_, view)| view)
    }
}
