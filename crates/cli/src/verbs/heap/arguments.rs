//! The arguments of `flamelet heap`.

use clap::ValueHint;
use flamelet_profile::HeapView;

use crate::arguments::compare::ComparedArgs;
use crate::arguments::options::Heap;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Heap profiles, '-', the address of a service, or the file that a killed one left behind
    #[arg(required = true, value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    pub(super) sources: Vec<String>,
    #[command(flatten)]
    views: HeapViews,
    #[command(flatten)]
    pub(super) compared: ComparedArgs<Heap>,
}

/// What to tell about memory; without any, what the profile was made for.
#[derive(clap::Args, Clone, Copy)]
#[group(multiple = false)]
struct HeapViews {
    /// Who holds memory [default for services and plain heap profiles]
    #[arg(long, help_heading = "What to tell")]
    in_use: bool,
    /// Who allocated it, since the start
    #[arg(long, help_heading = "What to tell")]
    allocated: bool,
    /// Who held it at the highest moment
    #[arg(long, help_heading = "What to tell")]
    peak: bool,
    /// What grows: suspects of a leak [default for several profiles]
    #[arg(long, help_heading = "What to tell")]
    growth: bool,
    /// Who frees what others allocated
    #[arg(long, help_heading = "What to tell")]
    freed: bool,
    /// How long freed memory had lived
    #[arg(long, help_heading = "What to tell")]
    lifetime: bool,
    /// What was freed before its thread allocated anything else
    #[arg(long, help_heading = "What to tell")]
    temporary: bool,
}

impl Args {
    /// Returns the view that was asked for.
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
