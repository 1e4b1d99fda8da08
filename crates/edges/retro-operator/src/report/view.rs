//! Derives the content that the Markdown and terminal forms of a report share, in the same words and order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use retro_core::finding::FindingKind;
use retro_core::id::MemoryId;
use retro_core::memory::{Change, ChangeEffect, MemoryLine, MemoryStatus, MutationOutcome};
use retro_core::report::{Report, ReportedInvestigation, WindowRun};
use retro_core::retrospective::{ManualRequest, RetrospectiveState};
use retro_core::sample::SamplingPower;

use crate::text::{self, format_count, format_thousandths};

/// A change with the title of its memory.
pub(super) struct TitledChange<'r> {
    pub(super) change: &'r Change,
    pub(super) title: String,
}

/// A memory that waits for a person.
pub(super) struct HeldMemory {
    pub(super) title: String,
    pub(super) why: String,
    /// The commands that release and retire the memory.
    pub(super) commands: [String; 2],
}

/// Explains what it means that memories are held.
pub(super) const HELD_MEANS: &str = "No agent is shown these memories until a person releases them.";

/// A report with the titles of its memories, ready for rendering.
pub(super) struct ReportView<'r> {
    pub(super) report: &'r Report,
    titles: BTreeMap<MemoryId, &'r str>,
}

impl<'r> ReportView<'r> {
    pub(super) fn from_report(report: &'r Report) -> Self {
        let listed = report.before.listed.iter().chain(&report.after.listed);
        // `collect` keeps the last title of a memory, which is the one after the retrospective.
        let mut titles: BTreeMap<_, _> = listed.map(|line| (line.id, line.title.as_str())).collect();
        for change in &report.changes {
            match &change.effect {
                ChangeEffect::Created { lesson, .. } => {
                    titles.insert(change.memory, &lesson.title);
                }
                // A suppressed lesson may refer to a memory with a title of its own, which takes precedence.
                ChangeEffect::Suppressed { title, .. } => {
                    titles.entry(change.memory).or_insert(title);
                }
                _ => {}
            }
        }
        Self { report, titles }
    }

    /// Returns the title of a memory, or its id if the report does not list it.
    pub(super) fn memory_title(&self, id: MemoryId) -> String {
        self.titles.get(&id).map_or_else(|| format!("memory {id}"), |title| text::single_line(title))
    }

    pub(super) fn heading(&self) -> String {
        let Report { epoch, tenant, workflow, manual_request, .. } = self.report;
        let what = match manual_request {
            Some(_) => "Manual retrospective".to_owned(),
            None => format!("Retrospective {epoch}"),
        };
        format!(
            "{what} of {} in tenant {}",
            text::single_line(workflow.as_str()),
            text::single_line(tenant.as_str())
        )
    }

    /// Returns the result of the retrospective in one or two sentences.
    pub(super) fn headline(&self) -> String {
        let Report { investigations, first, last, ended, .. } = self.report;
        let failed = investigations.iter().filter(|one| one.error.is_some()).count();
        if let Some(request) = &self.report.manual_request {
            return self.manual_headline(request, investigations.len() - failed);
        }
        let (window, succeeded) = (last + 1 - first, investigations.len() - failed);
        let mut investigated = format!("Investigated {succeeded} of the {window} runs {first} to {last}");
        if failed > 0 {
            investigated.push_str(&format!("; {failed} could not be investigated"));
        }
        investigated.push('.');
        if *ended == RetrospectiveState::Failed {
            return format!(
                "{investigated} So nothing was learnt and nothing changed. The runs are released: the next retrospective \
                 takes them up again."
            );
        }
        let parts = self.headline_parts();
        if parts.is_empty() {
            format!("{investigated} Nothing changed.")
        } else {
            format!("{investigated} {}.", join_clauses(&parts))
        }
    }

    /// Returns the headline of a manual retrospective.
    fn manual_headline(&self, request: &ManualRequest, succeeded: usize) -> String {
        let (runs, by) = (format_count(request.runs.len() as u64, "run"), text::single_line(&request.by));
        let investigated = format!("Investigated {succeeded} of the {runs} that {by} named.");
        let learnt = match (self.report.ended, self.report.proposals.len() as u64) {
            (RetrospectiveState::Failed, _) => {
                "So nothing is proposed, and asking again takes a new request.".to_owned()
            }
            (_, 0) => "No pattern was found.".to_owned(),
            (_, 1) => "1 pattern is proposed: a person accepts or refuses it.".to_owned(),
            (_, n) => format!("{n} patterns are proposed: a person accepts or refuses each."),
        };
        format!("{investigated} {learnt} The window is as it was.")
    }

    /// Returns the question of a manual retrospective with a note on how it affected the result; `None` if nobody
    /// asked a question.
    pub(super) fn question(&self) -> Option<String> {
        let focus = text::single_line(self.report.manual_request.as_ref()?.focus.as_ref()?);
        let answered = if self.report.focus.is_some() { " It is answered above." } else { "" };
        Some(format!(
            "Asked: “{focus}”{answered} Every pattern that was found is proposed; those that share words with the question \
             come first."
        ))
    }

    fn headline_parts(&self) -> Vec<String> {
        let of = |wanted: fn(&ChangeEffect) -> bool| {
            self.report.changes.iter().filter(|change| wanted(&change.effect)).count() as u64
        };
        let confirmed = of(|effect| match effect {
            ChangeEffect::Promoted { .. } | ChangeEffect::Accepted { .. } => true,
            ChangeEffect::Created { status, .. } => *status == MemoryStatus::Active,
            _ => false,
        });
        let heavier =
            of(|effect| matches!(effect, ChangeEffect::Reweighted { before, after, .. } if after > before));
        let lighter =
            of(|effect| matches!(effect, ChangeEffect::Reweighted { before, after, .. } if after < before));
        [
            (confirmed, "memory", "became active"),
            (self.count_noted(), "memory", "was noted for the first time and waits for a second run"),
            (
                of(|effect| matches!(effect, ChangeEffect::Revived { .. })),
                "memory",
                "came back from the archive",
            ),
            (
                of(|effect| matches!(effect, ChangeEffect::Superseded { .. })),
                "memory",
                "was replaced by another",
            ),
            (of(|effect| matches!(effect, ChangeEffect::Revised { .. })), "memory", "was worded anew"),
            (self.count_seen_again(), "memory", "was seen again"),
            (heavier, "memory", "gained weight"),
            (lighter, "memory", "lost weight"),
            (
                of(|effect| matches!(effect, ChangeEffect::Exempted { .. })),
                "memory",
                "was spared, since the situation did not come up",
            ),
            (of(|effect| matches!(effect, ChangeEffect::Archived)), "memory", "was archived"),
            (of(|effect| matches!(effect, ChangeEffect::Deleted { .. })), "memory", "was deleted"),
            (
                of(|effect| matches!(effect, ChangeEffect::Suppressed { .. })),
                "lesson",
                "was suppressed by a tombstone",
            ),
            (of(|effect| matches!(effect, ChangeEffect::Held { .. })), "memory", "was held for a person"),
            (
                of(|effect| matches!(effect, ChangeEffect::QuoteMissing { .. })),
                "quote of an agent",
                "was dropped: it is not in the trace",
            ),
            (of(is_refused_observation), "observation", "was refused"),
            (
                of(|effect| {
                    matches!(effect, ChangeEffect::Refused { .. }) && !is_refused_observation(effect)
                }),
                "request",
                "was refused",
            ),
        ]
        .into_iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, noun, did)| format!("{} {}", format_count(n, noun), agree_with_count(n, did)))
        .collect()
    }

    /// Counts the memories that existed before and that runs of this retrospective have shown again.
    fn count_seen_again(&self) -> u64 {
        let changes = || self.report.changes.iter();
        let created = |id| {
            changes()
                .any(|change| change.memory == id && matches!(change.effect, ChangeEffect::Created { .. }))
        };
        let observed = changes().filter(|change| matches!(change.effect, ChangeEffect::Observed { .. }));
        let seen: BTreeSet<MemoryId> =
            observed.map(|change| change.memory).filter(|id| !created(*id)).collect();
        seen.len() as u64
    }

    /// Counts the memories that this retrospective created but did not confirm.
    fn count_noted(&self) -> u64 {
        let confirmed = |id| {
            let mut all = self.report.changes.iter();
            all.any(|change| change.memory == id && matches!(change.effect, ChangeEffect::Promoted { .. }))
        };
        let new = self.report.changes.iter().filter(|change| {
            matches!(change.effect, ChangeEffect::Created { status: MemoryStatus::Tentative, .. })
                && !confirmed(change.memory)
        });
        new.count() as u64
    }

    /// Returns the changes that affected a memory, most consequential first.
    pub(super) fn applied_changes(&self) -> Vec<TitledChange<'r>> {
        let mut all: Vec<_> =
            self.report.changes.iter().filter(|change| !change.effect.leaves_memory_unchanged()).collect();
        all.sort_by_key(|change| consequence_rank(&change.effect));
        all.into_iter().map(|change| self.with_title(change)).collect()
    }

    /// Returns the memories that this retrospective put into quarantine, with what a person can do about each.
    pub(super) fn held_memories(&self) -> Vec<HeldMemory> {
        let held = self.report.changes.iter().filter_map(|change| match &change.effect {
            ChangeEffect::Held { why } => Some((change.memory, why)),
            _ => None,
        });
        let retro = text::command_of_tenant(&self.report.tenant);
        let command =
            |verb: &str, id: MemoryId| format!("{retro} memories {verb} {} --reason …", id.short_id());
        held.map(|(id, why)| HeldMemory {
            title: self.memory_title(id),
            why: text::single_line(why),
            commands: ["release", "retire"].map(|verb| command(verb, id)),
        })
        .collect()
    }

    /// Returns the suppressed or refused requests, which changed no memory.
    pub(super) fn declined_changes(&self) -> Vec<TitledChange<'r>> {
        let all = self.report.changes.iter().filter(|change| change.effect.leaves_memory_unchanged());
        all.map(|change| self.with_title(change)).collect()
    }

    fn with_title(&self, change: &'r Change) -> TitledChange<'r> {
        TitledChange { change, title: self.memory_title(change.memory) }
    }

    /// Returns all memories listed after the retrospective, heaviest first, each with its line from before.
    /// That line is `None` if the memory was not listed before.
    pub(super) fn memory_lines(&self) -> Vec<(Option<&'r MemoryLine>, &'r MemoryLine)> {
        let before = |id| self.report.before.listed.iter().find(|line| line.id == id);
        self.report.after.listed.iter().map(|line| (before(line.id), line)).collect()
    }

    /// Counts memories per status before and after the retrospective. Omits statuses without memories.
    pub(super) fn status_counts(&self) -> Vec<(MemoryStatus, u32, u32)> {
        let of = |all: &BTreeMap<MemoryStatus, u32>, status| all.get(&status).copied().unwrap_or_default();
        let Report { before, after, .. } = self.report;
        let counts =
            MemoryStatus::ALL.iter().map(|&s| (s, of(&before.by_status, s), of(&after.by_status, s)));
        counts.filter(|(_, before, after)| before + after > 0).collect()
    }

    /// Describes how much of the window was sampled, and what the sample can and cannot detect, one sentence per line.
    pub(super) fn power_sentences(&self) -> Vec<String> {
        let Report { sample, first, last, .. } = self.report;
        let window = last + 1 - first;
        let permille = (u64::from(sample.size) * 1000 + window / 2) / window;
        let share = format!(
            "the sample has {} of the {} of the window ({}.{} %)",
            sample.size,
            format_count(window, "run"),
            permille / 10,
            permille % 10
        );
        let power = self.report.power.iter().map(|power| describe_power(*power, window, sample.size));
        std::iter::once(share).chain(power).collect()
    }

    /// Formats the ordinals of the window in the order in which they were drawn.
    pub(super) fn draw_order(&self) -> String {
        join_bounded(self.report.sample.order.iter().map(ToString::to_string))
    }

    /// Returns every policy constant with its formatted value, sorted by name.
    pub(super) fn policy_constants(&self) -> BTreeMap<String, String> {
        let value = serde_json::to_value(&self.report.policy).expect("a policy can be serialized");
        let fields = value.as_object().cloned().unwrap_or_default();
        fields.into_iter().map(|(key, value)| (key.clone(), format_constant(&key, &value))).collect()
    }

    /// Describes the subject of a request: a lesson, or the title of the memory that the request names.
    pub(super) fn describe_subject(&self, about: &str) -> String {
        let (id, rest) = about.split_once(": ").unwrap_or((about, ""));
        match id.parse() {
            Ok(id) if rest.is_empty() => self.memory_title(id),
            Ok(id) => format!("{rest}: {}", self.memory_title(id)),
            Err(_) => text::single_line(about),
        }
    }
}

/// Maximum number of runs listed: about a screenful. The JSON form lists all of them.
const RUNS_SHOWN_MAX: usize = 200;

/// Renders runs in one line, each with its ordinal and outcome.
pub(super) fn render_runs(all: &[WindowRun]) -> String {
    let entries = all.iter().map(|run| {
        let ended = describe_run_end(run);
        format!("{} ({}, {ended})", text::single_line(run.run.as_str()), run.ordinal)
    });
    if all.is_empty() { "none".to_owned() } else { join_bounded(entries) }
}

/// Describes how a run ended, and what was known of its pull requests and of CI when the retrospective closed.
pub(super) fn describe_run_end(run: &WindowRun) -> String {
    let pulls = run.pull_requests.iter().map(|one| {
        let name = text::single_line(&one.pull_request.to_string());
        let approved = if one.approved { ", approved" } else { "" };
        let rounds = match one.review_rounds {
            0 => String::new(),
            rounds => format!(", sent back {}", text::format_count(rounds.into(), "time")),
        };
        let reverted = if one.reverted { ", then reverted" } else { "" };
        format!("; {name} {}{reverted}{approved}{rounds}", one.state.as_str())
    });
    let pulls: String = pulls.collect();
    let checks = run.checks.iter().map(|one| {
        let file = one.workflow.as_str().rsplit('/').next().unwrap_or_default();
        format!("; CI {} {}", text::single_line(file), one.outcome.as_str())
    });
    let checks: String = checks.collect();
    format!("{}{pulls}{checks}", run.outcome.as_str())
}

/// Joins at most [`RUNS_SHOWN_MAX`] entries, and adds the number of entries that were left out.
fn join_bounded(all: impl ExactSizeIterator<Item = String>) -> String {
    let more = all.len().saturating_sub(RUNS_SHOWN_MAX);
    let shown = all.take(RUNS_SHOWN_MAX).collect::<Vec<_>>().join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more (the JSON has all)") }
}

/// Describes the changes that a request caused in a few words.
pub(super) fn describe_outcome(outcome: &MutationOutcome) -> String {
    let all: Vec<_> = outcome.changes.iter().map(|change| change.kind.as_str()).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
}

/// Formats a policy constant. Weights and similarities get a decimal point; seconds that make up whole days or hours
/// are also given in these units. The items of a list are separated by commas.
fn format_constant(key: &str, value: &serde_json::Value) -> String {
    if let Some(items) = value.as_array() {
        let items: Vec<_> = items.iter().map(|item| format_constant(key, item)).collect();
        return if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    }
    let Some(n) = value.as_i64() else {
        return value.as_str().map_or_else(|| value.to_string(), |word| word.replace('_', " "));
    };
    // Formatted by magnitude: integer division would drop the sign of values between -1 and 0.
    let size = n.unsigned_abs();
    if ["weight", "delta", "similarity"].iter().any(|part| key.contains(part)) {
        format!("{}{}.{:03}", if n < 0 { "-" } else { "" }, size / 1000, size % 1000)
    } else if key.ends_with("_s") && size.is_multiple_of(86_400) {
        format!("{n} ({})", format_count(size / 86_400, "day"))
    } else if key.ends_with("_s") && size.is_multiple_of(3600) {
        format!("{n} ({})", format_count(size / 3600, "hour"))
    } else {
        n.to_string()
    }
}

/// Describes the power of a sample, for example
/// `a pattern in 2 of 10 runs shows in a sample of 4 with p = 0.667, twice with p = 0.133`.
pub(super) fn describe_power(power: SamplingPower, window: u64, sample: u32) -> String {
    let SamplingPower { runs_with_pattern, seen_once, seen_twice } = power;
    format!(
        "a pattern in {runs_with_pattern} of {window} runs shows in a sample of {sample} with p = {}, twice with \
         p = {}",
        format_thousandths(seen_once),
        format_thousandths(seen_twice)
    )
}

/// Describes the result of an investigation in one line.
pub(super) fn describe_result(one: &ReportedInvestigation) -> String {
    let findings = format_count(one.checked.findings.len() as u64, "finding");
    let verdicts = format_count(one.checked.verdicts.len() as u64, "verdict");
    let mut summary = match (one.result.as_str(), &one.error) {
        ("found", _) => format!("{findings}, {verdicts}"),
        ("nothing", _) => format!("no pattern, {verdicts}"),
        (word, problem) => {
            let word = word.replace('_', " ");
            problem
                .as_ref()
                .map_or_else(|| word.clone(), |problem| format!("{word}: {}", text::single_line(problem)))
        }
    };
    if one.checked.dropped > 0 {
        summary.push_str(&format!("; {} dropped by the mechanical checks", one.checked.dropped));
    }
    if one.replacement {
        summary.push_str("; replaced one that failed");
    }
    if let Some(note) = &one.checked.model_note {
        summary.push_str(&format!("; by the heuristics alone: {}", text::single_line(note)));
    }
    summary
}

pub(crate) const fn finding_kind_label(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Repair => "repair",
        FindingKind::Failure => "failure",
        FindingKind::RetryLoop => "retry loop",
        FindingKind::SelfFeedback => "the agent's own advice",
        FindingKind::Documented => "documented rule",
    }
}

/// Returns the sort rank of a change. Changes to memories that the next run is presented with come first,
/// then changes that may matter later, then the rest.
fn consequence_rank(effect: &ChangeEffect) -> (u8, Reverse<u32>) {
    let rank = match effect {
        ChangeEffect::Promoted { .. }
        | ChangeEffect::Accepted { .. }
        | ChangeEffect::Created { status: MemoryStatus::Active, .. } => 0,
        ChangeEffect::Deleted { .. }
        | ChangeEffect::Superseded { .. }
        | ChangeEffect::Revised { .. }
        | ChangeEffect::Disabled { .. }
        | ChangeEffect::Enabled { .. }
        | ChangeEffect::Pinned { .. }
        | ChangeEffect::Unpinned { .. }
        | ChangeEffect::Restored { .. }
        | ChangeEffect::Held { .. }
        | ChangeEffect::Released { .. } => 1,
        ChangeEffect::Archived => 2,
        // The largest changes of weight first.
        ChangeEffect::Reweighted { delta, .. } => return (3, Reverse(delta.0.unsigned_abs())),
        ChangeEffect::Revived { .. } => 4,
        ChangeEffect::Created { .. } => 5,
        ChangeEffect::Observed { .. } => 6,
        ChangeEffect::Exempted { .. } | ChangeEffect::QuoteMissing { .. } => 7,
        ChangeEffect::Suppressed { .. } | ChangeEffect::Refused { .. } => 8,
    };
    (rank, Reverse(0))
}

fn is_refused_observation(effect: &ChangeEffect) -> bool {
    matches!(effect, ChangeEffect::Refused { requested } if requested == "observe")
}

fn agree_with_count(n: u64, did: &str) -> String {
    match did.strip_prefix("was ") {
        Some(rest) if n != 1 => format!("were {}", rest.replace("waits", "wait")),
        _ => did.to_owned(),
    }
}

fn join_clauses(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{}, and {last}", most.join(", ")),
    }
}
