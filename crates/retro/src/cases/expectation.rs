//! What a case expects of a retrospective or a review.

use std::fmt::Write as _;

use retro_core::memory::{Change, Memory, MemoryStatus, MutationOutcome};
use retro_core::report::Report;
use retro_core::review::{ReadingKind, ReportedRemark, ReviewReport};
use retro_operator::report::render_markdown;
use retro_operator::reviews;
use serde::Deserialize;

/// Kinds of changes that a case may name.
const KINDS: &[&str] = &[
    "created",
    "promoted",
    "observed",
    "reweighted",
    "revised",
    "exempted",
    "archived",
    "revived",
    "held",
    "released",
    "deleted",
    "superseded",
    "suppressed",
    "refused",
    "quote_missing",
];

/// An expectation: exactly one of `change`, `no_change`, `memory`, `no_memory`, `finding`, `no_finding`, `dropped`, `result`,
/// `report` and `remark`, with what belongs to it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Expectation {
    /// Kind of a change that the retrospective makes, of a memory whose title contains `title`.
    change: Option<String>,
    /// Kind of a change that it does not make.
    no_change: Option<String>,
    /// Part of the title of a memory that there is afterwards, with this `status` and `weight`.
    memory: Option<String>,
    /// Part of a title that no memory has, whatever its status.
    no_memory: Option<String>,
    /// Part of the title of a finding.
    finding: Option<String>,
    /// Part of a title that no finding has.
    no_finding: Option<String>,
    /// Number of things that the check of answers dropped, in all investigations.
    dropped: Option<u32>,
    /// Final state of the retrospective: `closed` or `failed`.
    result: Option<String>,
    /// Text that the report contains, as Markdown.
    report: Option<String>,
    /// 1-based number of a remark of the review, with its `kind`, a part of the rule's `title` and of the `reason`.
    remark: Option<usize>,
    /// Kind of the remark.
    kind: Option<ReadingKind>,
    /// Part of the title of the memory of a change, or of the rule that a remark states.
    title: String,
    /// Number of such changes; at least one if left out.
    count: Option<usize>,
    status: Option<MemoryStatus>,
    weight: Option<u16>,
    /// Text that the reason of a change, or of the decision on a remark, contains.
    reason: String,
}

/// What a retrospective or a review did.
pub(super) struct Outcome<'a> {
    changes: &'a [Change],
    /// All memories afterwards.
    memories: Vec<&'a Memory>,
    finding_titles: Vec<&'a str>,
    /// Remarks of the review; empty for a retrospective.
    remarks: &'a [ReportedRemark],
    dropped: u32,
    ended: &'static str,
    /// The report, as people read it.
    report: String,
    mutations: &'a [MutationOutcome],
}

/// Width of a report of a review, in columns: nothing is broken up, so every text is found.
const REPORT_COLUMNS: u16 = u16::MAX;

impl<'a> Outcome<'a> {
    pub(super) fn of_retrospective(
        report: &'a Report,
        changes: &'a [Change],
        memories: Vec<&'a Memory>,
    ) -> Self {
        let findings = report.investigations.iter().flat_map(|one| &one.checked.findings);
        Self {
            changes,
            memories,
            finding_titles: findings.map(|finding| finding.title.as_str()).collect(),
            remarks: &[],
            dropped: report.investigations.iter().map(|one| one.checked.dropped).sum(),
            ended: report.ended.as_str(),
            report: render_markdown(report),
            mutations: &report.mutations,
        }
    }

    pub(super) fn of_review(report: &'a ReviewReport, memories: Vec<&'a Memory>) -> Self {
        Self {
            changes: &report.changes,
            memories,
            finding_titles: Vec::new(),
            remarks: &report.remarks,
            dropped: report.reading.as_ref().map_or(0, |reading| reading.dropped),
            ended: "closed",
            report: reviews::render_report(report, REPORT_COLUMNS),
            mutations: &report.mutations,
        }
    }
}

impl Expectation {
    /// Returns a mistake in the expectation itself.
    pub(super) fn find_problem(&self) -> Option<String> {
        let named = [
            self.change.is_some(),
            self.no_change.is_some(),
            self.memory.is_some(),
            self.no_memory.is_some(),
            self.finding.is_some(),
            self.no_finding.is_some(),
            self.dropped.is_some(),
            self.result.is_some(),
            self.report.is_some(),
            self.remark.is_some(),
        ];
        match named.iter().filter(|named| **named).count() {
            0 => {
                return Some(
                    "expects nothing: name a change, a memory, a finding, a remark, dropped, result or report"
                        .to_owned(),
                );
            }
            1 => {}
            _ => return Some("expects several things; give each its own entry".to_owned()),
        }
        let texts = [&self.memory, &self.no_memory, &self.finding, &self.no_finding, &self.report];
        if texts.into_iter().flatten().any(String::is_empty) {
            return Some("expects an empty text, which is part of every text".to_owned());
        }
        let kinds = [("change", &self.change), ("no_change", &self.no_change)];
        let (key, kind) = kinds.into_iter().find_map(|(key, kind)| Some((key, kind.as_deref()?)))?;
        let known = KINDS.contains(&kind);
        (!known).then(|| format!("`{key}` is {kind:?}; it must be one of {}", KINDS.join(", ")))
    }

    /// Returns what is not as expected; `None` if all is.
    pub(super) fn check(&self, outcome: &Outcome<'_>) -> Option<String> {
        if let Some(kind) = &self.change {
            let found = self.count_changes(outcome, kind);
            let met = self.count.map_or(found > 0, |wanted| found == wanted);
            let wanted = self.count.map_or("a".to_owned(), |count| count.to_string());
            let of = describe_title(&self.title);
            return (!met).then(|| {
                format!("expected {wanted} change `{kind}`{of}, found {found}{}", outcome.describe())
            });
        }
        if let Some(kind) = &self.no_change {
            let found = self.count_changes(outcome, kind);
            let of = describe_title(&self.title);
            return (found > 0)
                .then(|| format!("expected no change `{kind}`{of}, found {found}{}", outcome.describe()));
        }
        if let Some(title) = &self.memory {
            return self.check_memory(outcome, title);
        }
        if let Some(title) = &self.no_memory {
            let found = outcome.memories.iter().find(|memory| memory.lesson.title.contains(title))?;
            return Some(format!(
                "expected no memory `{title}`, found “{}”{}",
                found.lesson.title,
                outcome.describe()
            ));
        }
        if let Some(title) = &self.finding {
            let found = outcome.finding_titles.iter().any(|found| found.contains(title));
            return (!found).then(|| format!("expected a finding `{title}`{}", outcome.describe()));
        }
        if let Some(title) = &self.no_finding {
            let found = outcome.finding_titles.iter().find(|found| found.contains(title))?;
            return Some(format!("expected no finding `{title}`, found “{found}”"));
        }
        if let Some(wanted) = self.dropped {
            let dropped = outcome.dropped;
            return (dropped != wanted).then(|| format!("expected {wanted} dropped, found {dropped}"));
        }
        if let Some(wanted) = &self.result {
            let ended = outcome.ended;
            return (ended != wanted)
                .then(|| format!("expected the retrospective to end {wanted}, it {ended}"));
        }
        if let Some(number) = self.remark {
            return self.check_remark(outcome, number);
        }
        let text = self.report.as_deref()?;
        (!outcome.report.contains(text))
            .then(|| format!("the report does not contain `{text}`{}", outcome.describe()))
    }

    fn check_remark(&self, outcome: &Outcome<'_>, number: usize) -> Option<String> {
        let Some(remark) = number.checked_sub(1).and_then(|place| outcome.remarks.get(place)) else {
            return Some(format!("there is no remark {number}{}", outcome.describe()));
        };
        let title = remark.title.as_deref().unwrap_or_default();
        let fits = self.kind.is_none_or(|kind| remark.kind == kind)
            && title.contains(&self.title)
            && remark.reason.contains(&self.reason);
        (!fits).then(|| {
            format!(
                "remark {number} is a {} of certainty {} with the rule “{title}”: {}{}",
                remark.kind.as_str(),
                remark.certainty,
                remark.reason,
                outcome.describe()
            )
        })
    }

    fn count_changes(&self, outcome: &Outcome<'_>, kind: &str) -> usize {
        let of = |change: &&Change| {
            change.effect.kind() == kind
                && (self.title.is_empty() || outcome.title_of(change).contains(&self.title))
                && change.reason.contains(&self.reason)
        };
        outcome.changes.iter().filter(of).count()
    }

    fn check_memory(&self, outcome: &Outcome<'_>, title: &str) -> Option<String> {
        let named: Vec<_> =
            outcome.memories.iter().filter(|memory| memory.lesson.title.contains(title)).collect();
        let fits = |memory: &&&&Memory| {
            self.status.is_none_or(|status| memory.status == status)
                && self.weight.is_none_or(|weight| memory.weight.get() == weight)
        };
        if named.iter().any(|memory| fits(&memory)) {
            return None;
        }
        Some(match named.first() {
            None => format!("expected a memory `{title}`{}", outcome.describe()),
            Some(memory) => format!(
                "expected the memory `{title}` with{}{}, it is {} with weight {}{}",
                self.status.map_or_else(String::new, |status| format!(" status {}", status.as_str())),
                self.weight.map_or_else(String::new, |weight| format!(" weight {weight}")),
                memory.status.as_str(),
                memory.weight.get(),
                outcome.describe()
            ),
        })
    }
}

fn describe_title(title: &str) -> String {
    if title.is_empty() { String::new() } else { format!(" of a memory `{title}`") }
}

impl Outcome<'_> {
    fn title_of(&self, change: &Change) -> &str {
        let memory = self.memories.iter().find(|memory| memory.id == change.memory);
        memory.map_or("(never a memory)", |memory| memory.lesson.title.as_str())
    }

    /// Lists what happened, for somebody whose expectation was not met.
    fn describe(&self) -> String {
        let mut text = String::new();
        for change in self.changes {
            let (kind, title) = (change.effect.kind(), self.title_of(change));
            write!(text, "\n    {kind} “{title}”: {}", change.reason)
                .expect("writing to a String does not fail");
        }
        if self.changes.is_empty() {
            text.push_str("\n    no change was made");
        }
        for title in &self.finding_titles {
            write!(text, "\n    found “{title}”").expect("writing to a String does not fail");
        }
        for outcome in self.mutations.iter().filter(|outcome| outcome.changes.is_empty()) {
            write!(text, "\n    {} changed nothing: {}", outcome.request.kind, outcome.reason)
                .expect("writing to a String does not fail");
        }
        for remark in self.remarks {
            write!(text, "\n    {} read as {}: {}", remark.remark, remark.kind.as_str(), remark.reason)
                .expect("writing to a String does not fail");
        }
        text
    }
}
