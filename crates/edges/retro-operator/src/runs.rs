//! Shows one run in full: its facts, why it was counted and looked at, what it met and called, and what was seen in
//! it.

mod memories;
mod render;
mod routes;
mod trajectory;
mod view;

pub(crate) use routes::add_read_routes;
pub use trajectory::{RUN_TURNS_DEFAULT, RUN_TURNS_MAX, RunPages};
pub use view::{RunView, UnresolvedRun, find_run_view};

#[cfg(test)]
mod tests;
