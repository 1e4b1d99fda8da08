//! The report of a retrospective for people: what changed and why first, then what was seen, then the books.
//!
//! [`markdown`] is for pages and pull requests, [`table`] for terminals; [`Report`] itself is the JSON.

mod markdown;
mod stands_out;
mod story;
mod table;

pub use markdown::markdown;
pub use table::table;

use retro_core::report::Report;

/// The report in one line: whose it is and what came of it.
pub fn headline(report: &Report) -> String {
    let story = story::Story::of(report);
    format!("{}: {}", story.heading(), story.headline())
}

#[cfg(test)]
mod tests;
