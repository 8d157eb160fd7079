//! The pages of a collector for a browser: its services, what costs most, what changed, and the viewer.

mod changes;
mod login;
mod services;
mod style;
mod top;
mod visit;

use axum::Router;
use flamelet_profile::Limits;
use flamelet_view::Source;

use crate::ask::FleetPast;
use crate::reader::Reader;

pub(crate) use changes::what_changed;
pub(crate) use login::{cookie_token, is_visit, login};
pub(crate) use services::services;
pub(crate) use style::{STYLE, STYLE_PATH};
pub(crate) use top::top;
pub(crate) use visit::Visit;

/// Where the viewer is.
pub(crate) const VIEWER: &str = "/view/";
/// What reading one range may use, and what the viewer keeps of all.
const READING: Limits = Limits::of_memory(512 << 20);
const KEPT: usize = 1 << 30;

/// Returns the viewer, which does not check access.
pub(crate) fn viewer(reader: Reader) -> Router {
    let past = FleetPast::new(reader, READING);
    flamelet_view::router(Source::profiles(Vec::new()).with_past(Box::new(past)).within(KEPT))
}
