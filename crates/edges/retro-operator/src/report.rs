//! Renders the report of a retrospective for people: changes and their reasons, then failures without a memory and
//! calls, findings, requests, sample, costs and policy.
//!
//! [`render_markdown`] is for pages and pull requests, [`render_text`] for terminals. [`Report`] itself is serialized
//! as the JSON form.

mod calls;
mod highlights;
mod investigators;
mod markdown;
mod terminal;
mod view;

pub use markdown::render_markdown;
pub use terminal::render_text;

pub(crate) use view::finding_kind_label;

use retro_core::report::Report;

/// Renders the report in one line: workflow, tenant and result.
pub fn render_headline(report: &Report) -> String {
    let report_view = view::ReportView::from_report(report);
    format!("{}: {}", report_view.heading(), report_view.headline())
}

#[cfg(test)]
mod tests;
