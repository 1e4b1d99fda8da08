//! What both renderings say, in the same words and the same order.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use retro_core::finding::FindingKind;
use retro_core::id::MemoryId;
use retro_core::learn::MutationOutcome;
use retro_core::manual::Asked;
use retro_core::memory::{Change, Effect, Status};
use retro_core::report::{MemoryLine, Report, ReportedInvestigation, WindowRun};
use retro_core::retrospective::State;
use retro_core::sample::Power;

use crate::words::{self, count, thousandths};

/// A change as it is listed: what it is about, what it did, and why.
pub(super) struct Told<'r> {
    pub(super) change: &'r Change,
    pub(super) title: String,
}

/// Everything about a report that has to be worked out before it is shown.
pub(super) struct Story<'r> {
    pub(super) report: &'r Report,
    titles: BTreeMap<MemoryId, &'r str>,
}

impl<'r> Story<'r> {
    pub(super) fn of(report: &'r Report) -> Self {
        let listed = report.before.listed.iter().chain(&report.after.listed);
        let mut titles: BTreeMap<_, _> = listed.map(|line| (line.id, line.title.as_str())).collect();
        for change in &report.changes {
            match &change.effect {
                Effect::Created { lesson, .. } => {
                    titles.insert(change.memory, &lesson.title);
                }
                // A suppressed lesson may be about a memory that has a title of its own.
                Effect::Suppressed { title, .. } => {
                    titles.entry(change.memory).or_insert(title);
                }
                _ => {}
            }
        }
        Self { report, titles }
    }

    /// The title of a memory; its id when the report does not list it.
    pub(super) fn title(&self, id: MemoryId) -> String {
        self.titles.get(&id).map_or_else(|| format!("memory {id}"), |title| words::line(title))
    }

    pub(super) fn heading(&self) -> String {
        let Report { epoch, tenant, workflow, asked, .. } = self.report;
        let what = match asked {
            Some(_) => "Manual retrospective".to_owned(),
            None => format!("Retrospective {epoch}"),
        };
        format!("{what} of {} in tenant {}", words::line(workflow.as_str()), words::line(tenant.as_str()))
    }

    /// What came of it, in a sentence or two.
    pub(super) fn headline(&self) -> String {
        let Report { investigations, first, last, ended, .. } = self.report;
        let failed = investigations.iter().filter(|one| one.problem.is_some()).count();
        if let Some(asked) = &self.report.asked {
            return self.asked_for(asked, investigations.len() - failed);
        }
        let (window, succeeded) = (last + 1 - first, investigations.len() - failed);
        let mut looked = format!("Looked into {succeeded} of the {window} runs {first} to {last}");
        if failed > 0 {
            looked.push_str(&format!("; {failed} could not be investigated"));
        }
        looked.push('.');
        if *ended == State::Failed {
            return format!(
                "{looked} So nothing was learnt and nothing changed. The runs are released: the next retrospective \
                 takes them up again."
            );
        }
        let parts = self.parts();
        if parts.is_empty() {
            format!("{looked} Nothing changed.")
        } else {
            format!("{looked} {}.", sentence(&parts))
        }
    }

    /// The same for a manual one.
    fn asked_for(&self, asked: &Asked, succeeded: usize) -> String {
        let (runs, by) = (count(asked.runs.len() as u64, "run"), words::line(&asked.by));
        let looked = format!("Looked into {succeeded} of the {runs} that {by} named.");
        let learnt = match (self.report.ended, self.report.proposals.len() as u64) {
            (State::Failed, _) => "So nothing is proposed, and asking again takes a new request.".to_owned(),
            (_, 0) => "No pattern was found.".to_owned(),
            (_, 1) => "1 pattern is proposed: a person accepts or refuses it.".to_owned(),
            (_, n) => format!("{n} patterns are proposed: a person accepts or refuses each."),
        };
        format!("{looked} {learnt} The window is as it was.")
    }

    /// The question of a manual one, and what became of it.
    pub(super) fn question(&self) -> Option<String> {
        let focus = words::line(self.report.asked.as_ref()?.focus.as_ref()?);
        Some(format!(
            "Asked: “{focus}” The heuristics read no question and tell every pattern that they find; those that \
             share words with it come first."
        ))
    }

    fn parts(&self) -> Vec<String> {
        let of = |wanted: fn(&Effect) -> bool| {
            self.report.changes.iter().filter(|change| wanted(&change.effect)).count() as u64
        };
        let confirmed = of(|effect| match effect {
            Effect::Promoted { .. } | Effect::Accepted { .. } => true,
            Effect::Created { status, .. } => *status == Status::Active,
            _ => false,
        });
        let heavier =
            of(|effect| matches!(effect, Effect::Reweighted { before, after, .. } if after > before));
        let lighter =
            of(|effect| matches!(effect, Effect::Reweighted { before, after, .. } if after < before));
        [
            (confirmed, "memory", "became active"),
            (self.noted(), "memory", "was noted for the first time and waits for a second run"),
            (of(|effect| matches!(effect, Effect::Revived { .. })), "memory", "came back from the archive"),
            (heavier, "memory", "gained weight"),
            (lighter, "memory", "lost weight"),
            (of(|effect| matches!(effect, Effect::Archived)), "memory", "was archived"),
            (of(|effect| matches!(effect, Effect::Deleted { .. })), "memory", "was deleted"),
            (
                of(|effect| matches!(effect, Effect::Suppressed { .. })),
                "lesson",
                "was kept away by a tombstone",
            ),
            (of(|effect| matches!(effect, Effect::Refused { .. })), "request", "was refused"),
        ]
        .into_iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, noun, did)| format!("{} {}", count(n, noun), agreed(n, did)))
        .collect()
    }

    /// Memories that are new and were not confirmed in the same retrospective.
    fn noted(&self) -> u64 {
        let confirmed = |id| {
            let mut all = self.report.changes.iter();
            all.any(|change| change.memory == id && matches!(change.effect, Effect::Promoted { .. }))
        };
        let new = self.report.changes.iter().filter(|change| {
            matches!(change.effect, Effect::Created { status: Status::Tentative, .. })
                && !confirmed(change.memory)
        });
        new.count() as u64
    }

    /// What memory became, the most consequential first.
    pub(super) fn changed(&self) -> Vec<Told<'r>> {
        let mut all: Vec<_> =
            self.report.changes.iter().filter(|change| !change.effect.leaves_memory()).collect();
        all.sort_by_key(|change| consequence(&change.effect));
        all.into_iter().map(|change| self.told(change)).collect()
    }

    /// What was asked for and not done.
    pub(super) fn kept_out(&self) -> Vec<Told<'r>> {
        let all = self.report.changes.iter().filter(|change| change.effect.leaves_memory());
        all.map(|change| self.told(change)).collect()
    }

    fn told(&self, change: &'r Change) -> Told<'r> {
        Told { change, title: self.title(change.memory) }
    }

    /// The lines of every memory that is listed before or after, with both: heaviest afterwards first.
    pub(super) fn memories(&self) -> Vec<(Option<&'r MemoryLine>, &'r MemoryLine)> {
        let before = |id| self.report.before.listed.iter().find(|line| line.id == id);
        self.report.after.listed.iter().map(|line| (before(line.id), line)).collect()
    }

    /// How many memories stand in each status, before and after.
    pub(super) fn statuses(&self) -> Vec<(Status, u32, u32)> {
        let of = |all: &BTreeMap<Status, u32>, status| all.get(&status).copied().unwrap_or_default();
        let Report { before, after, .. } = self.report;
        let counts = Status::ALL.map(|s| (s, of(&before.by_status, s), of(&after.by_status, s)));
        counts.into_iter().filter(|(_, before, after)| before + after > 0).collect()
    }

    /// What the sample can and cannot see, one sentence a line.
    pub(super) fn power(&self) -> Vec<String> {
        let Report { sample, first, last, .. } = self.report;
        let window = last + 1 - first;
        self.report.power.iter().map(|power| power_in_words(*power, window, sample.size)).collect()
    }

    /// The ordinals of the window in the order in which they were drawn.
    pub(super) fn order(&self) -> String {
        listed(self.report.sample.order.iter().map(ToString::to_string))
    }

    /// Every constant of the policy and its value, by name.
    pub(super) fn policy(&self) -> BTreeMap<String, String> {
        let value = serde_json::to_value(&self.report.policy).expect("a policy is plain data");
        let fields = value.as_object().cloned().unwrap_or_default();
        fields.into_iter().map(|(key, value)| (key.clone(), constant(&key, &value))).collect()
    }

    /// The lesson that a request brings, or the title of the memory that it names.
    pub(super) fn about(&self, about: &str) -> String {
        let (id, rest) = about.split_once(": ").unwrap_or((about, ""));
        match id.parse() {
            Ok(id) if rest.is_empty() => self.title(id),
            Ok(id) => format!("{rest}: {}", self.title(id)),
            Err(_) => words::line(about),
        }
    }
}

/// Runs of a window that are listed at most: a screenful. The JSON has all of them.
const RUNS_SHOWN_MAX: usize = 200;

/// Runs with their ordinals and outcomes, as one line.
pub(super) fn runs(all: &[WindowRun]) -> String {
    let told = all.iter().map(|run| {
        let ended = ended(run);
        format!("{} ({}, {ended})", words::line(run.run.as_str()), run.ordinal)
    });
    if all.is_empty() { "none".to_owned() } else { listed(told) }
}

/// How a run ended, and what was known of its pull requests when the retrospective closed.
pub(super) fn ended(run: &WindowRun) -> String {
    let pulls = run.pull_requests.iter().map(|one| {
        let name = words::line(&one.pull_request.to_string());
        let approved = if one.approved { ", approved" } else { "" };
        let rounds = match one.review_rounds {
            0 => String::new(),
            rounds => format!(", sent back {}", words::count(rounds.into(), "time")),
        };
        format!("; {name} {}{approved}{rounds}", one.standing.as_str())
    });
    let pulls: String = pulls.collect();
    format!("{}{pulls}", run.outcome.as_str())
}

/// At most [`RUNS_SHOWN_MAX`] of them, and how many more there are.
fn listed(all: impl ExactSizeIterator<Item = String>) -> String {
    let more = all.len().saturating_sub(RUNS_SHOWN_MAX);
    let shown = all.take(RUNS_SHOWN_MAX).collect::<Vec<_>>().join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more (the JSON has all)") }
}

/// What a request led to, in a word or two.
pub(super) fn did(outcome: &MutationOutcome) -> String {
    let all: Vec<_> = outcome.did.iter().map(|did| did.kind.as_str()).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
}

/// A constant as people read it: weights and similarities with their point, seconds as days or hours too.
fn constant(key: &str, value: &serde_json::Value) -> String {
    let Some(n) = value.as_i64() else {
        return value.as_str().map_or_else(|| value.to_string(), |word| word.replace('_', " "));
    };
    let size = n.unsigned_abs();
    if ["weight", "delta", "similarity"].iter().any(|part| key.contains(part)) {
        format!("{}{}.{:03}", if n < 0 { "-" } else { "" }, size / 1000, size % 1000)
    } else if key.ends_with("_s") && size.is_multiple_of(86_400) {
        format!("{n} ({})", count(size / 86_400, "day"))
    } else if key.ends_with("_s") && size.is_multiple_of(3600) {
        format!("{n} ({})", count(size / 3600, "hour"))
    } else {
        n.to_string()
    }
}

/// `a pattern in 2 of 10 runs shows in a sample of 4 with p = 0.667, twice with p = 0.133`.
pub(super) fn power_in_words(power: Power, window: u64, sample: u32) -> String {
    let Power { runs_with_pattern, seen_once, seen_twice } = power;
    format!(
        "a pattern in {runs_with_pattern} of {window} runs shows in a sample of {sample} with p = {}, twice with \
         p = {}",
        thousandths(seen_once),
        thousandths(seen_twice)
    )
}

/// What an investigation brought back, in one line.
pub(super) fn result(one: &ReportedInvestigation) -> String {
    let findings = count(one.findings.len() as u64, "finding");
    let verdicts = count(one.verdicts.len() as u64, "verdict");
    let mut told = match (one.result.as_str(), &one.problem) {
        ("found", _) => format!("{findings}, {verdicts}"),
        ("nothing", _) => format!("no pattern, {verdicts}"),
        (word, problem) => {
            let word = word.replace('_', " ");
            problem
                .as_ref()
                .map_or_else(|| word.clone(), |problem| format!("{word}: {}", words::line(problem)))
        }
    };
    if one.dropped > 0 {
        told.push_str(&format!("; {} dropped by the mechanical checks", one.dropped));
    }
    if one.replacement {
        told.push_str("; took the place of one that failed");
    }
    told
}

pub(super) const fn kind(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Repair => "repair",
        FindingKind::Failure => "failure",
        FindingKind::RetryLoop => "retry loop",
        FindingKind::SelfFeedback => "the agent's own advice",
    }
}

/// The most consequential first: what the next run sees differently, then what may come to matter, then the rest.
fn consequence(effect: &Effect) -> (u8, Reverse<u32>) {
    let rank = match effect {
        Effect::Promoted { .. }
        | Effect::Accepted { .. }
        | Effect::Created { status: Status::Active, .. } => 0,
        Effect::Deleted { .. } | Effect::Superseded { .. } => 1,
        Effect::Archived => 2,
        Effect::Reweighted { delta, .. } => return (3, Reverse(delta.0.unsigned_abs())),
        Effect::Revived { .. } => 4,
        Effect::Created { .. } => 5,
        Effect::Observed { .. } => 6,
        Effect::Exempted { .. } => 7,
        Effect::Suppressed { .. } | Effect::Refused { .. } => 8,
    };
    (rank, Reverse(0))
}

fn agreed(n: u64, did: &str) -> String {
    match did.strip_prefix("was ") {
        Some(rest) if n != 1 => format!("were {}", rest.replace("waits", "wait")),
        _ => did.to_owned(),
    }
}

fn sentence(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{}, and {last}", most.join(", ")),
    }
}
