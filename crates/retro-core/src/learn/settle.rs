//! Findings and verdicts in, one batch of mutations out.

use serde::{Deserialize, Serialize};

use crate::finding::{Checked, Contradiction, Finding, FindingKind, MemoryVerdict, Quote, Verdict};
use crate::id::{MemoryId, MutationId, RetrospectiveId, RunId, Step};
use crate::retrospective::{Investigation, Presented, Retrospective};

/// One thing that is asked of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mutation {
    /// Derived from the retrospective, the investigation and an index.
    pub id: MutationId,
    /// What is asked.
    pub ask: Ask,
}

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// A run shows this pattern.
    Observe {
        /// The id that a memory made of it gets.
        memory: MemoryId,
        /// The run.
        run: RunId,
        /// The pattern.
        finding: Finding,
        /// Why nothing is to be learnt from it after all, as the whole retrospective shows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        no_lesson: Option<NoLesson>,
    },
    /// A run shows that a memory is wrong.
    Contradict {
        /// The memory.
        memory: MemoryId,
        /// The run.
        run: RunId,
        /// The step in which it showed; contradiction stays within workflow, step and subject.
        step: Step,
        /// The subject of what showed it.
        subject: String,
        /// Why, in one sentence.
        reason: String,
        /// The words.
        quote: Quote,
    },
    /// What a presented memory did in a run.
    Credit {
        /// The memory.
        memory: MemoryId,
        /// The run.
        run: RunId,
        /// What it did.
        verdict: Verdict,
        /// Whether the agent opened it.
        read: bool,
        /// Why, in one sentence.
        reason: String,
    },
    /// Look at every active memory of the workflow: limbo and archive.
    Sweep,
}

/// Why a pattern is no lesson, though its words stand in the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum NoLesson {
    /// The very same call got past the error: it passes by itself.
    Transient {
        /// In this run of the retrospective.
        run: RunId,
    },
    /// The error came of following a memory, whose harm it is: without the memory there is nothing to mind.
    Harm {
        /// The memory.
        memory: MemoryId,
    },
}

impl NoLesson {
    /// The reason, in one sentence, for a pattern that this run shows.
    pub(super) fn reason(&self, shown_in: &RunId) -> String {
        match self {
            Self::Transient { run } if run == shown_in => {
                "the very same call got past the error in the same run: it passes by itself".to_owned()
            }
            Self::Transient { run } => {
                format!("the very same call got past the error in run {run}: it passes by itself")
            }
            Self::Harm { memory } => {
                format!("following memory {memory} led to this error, which counts as its harm")
            }
        }
    }
}

impl Ask {
    /// The word as stored and shown.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Observe { .. } => "observe",
            Self::Contradict { .. } => "contradict",
            Self::Credit { .. } => "credit",
            Self::Sweep => "sweep",
        }
    }
}

/// The batch of mutations with which a retrospective settles. A manual one asks nothing of memory: what it found
/// becomes proposals when it closes.
pub fn batch_of(retrospective: &Retrospective, investigations: &[Investigation]) -> Vec<Mutation> {
    if retrospective.asked.is_some() {
        return Vec::new();
    }
    settle(retrospective.id, investigations)
}

/// Turns the results of a retrospective's investigations into its batch of mutations. Failed ones say nothing.
pub fn settle(retrospective: RetrospectiveId, investigations: &[Investigation]) -> Vec<Mutation> {
    let mut batch = Vec::new();
    let looked = || {
        investigations.iter().filter_map(|one| {
            one.result.as_ref()?.looked().map(|(checked, presented)| (one, checked, presented))
        })
    };
    let id = |kind, one: &Investigation, index| MutationId::of(retrospective, kind, one.number, index);
    for (one, checked, _) in looked() {
        for (index, finding) in (0u32..).zip(&checked.findings) {
            let memory = MemoryId::of_finding(retrospective, one.number, index);
            let ask = Ask::Observe {
                memory,
                run: one.run.clone(),
                finding: finding.clone(),
                no_lesson: no_lesson(investigations, one, finding),
            };
            batch.push(Mutation { id: id("observe", one, index), ask });
        }
    }
    for (one, checked, _) in looked() {
        for (index, finding) in (0u32..).zip(&checked.findings) {
            batch.extend(
                contradiction(one, finding).map(|ask| Mutation { id: id("contradict", one, index), ask }),
            );
        }
        for (index, against) in (0u32..).zip(&checked.contradictions) {
            batch.push(Mutation { id: id("against", one, index), ask: contradicted(one, against) });
        }
    }
    for (one, checked, presented) in looked() {
        // Rules of a repository are another writer's lock: [`super::rules_used`] asks for those.
        let own = presented.iter().filter(|shown| shown.repo.is_none());
        for (index, shown) in (0u32..).zip(own) {
            let ask = credit(one, checked, shown, had_it_without(investigations, shown.memory));
            batch.push(Mutation { id: id("credit", one, index), ask });
        }
    }
    batch.push(Mutation { id: MutationId::of(retrospective, "sweep", 0, 0), ask: Ask::Sweep });
    batch
}

fn contradiction(one: &Investigation, finding: &Finding) -> Option<Ask> {
    let memory = finding.contradicts?;
    Some(Ask::Contradict {
        memory,
        run: one.run.clone(),
        step: finding.step.clone(),
        subject: finding.subject.clone(),
        reason: format!("the run shows the opposite: {}", finding.title),
        quote: finding.quote.clone(),
    })
}

fn no_lesson(investigations: &[Investigation], one: &Investigation, finding: &Finding) -> Option<NoLesson> {
    let transient = passed_in(investigations, finding).map(|run| NoLesson::Transient { run });
    transient.or_else(|| {
        // A way out of what a memory did is worth knowing; that the error exists is not.
        let warns = matches!(finding.kind, FindingKind::Failure | FindingKind::RetryLoop);
        let memory = warns.then(|| harmed_by(investigations, one, finding))??;
        Some(NoLesson::Harm { memory })
    })
}

/// The memory that the investigation holds the finding's error against, if that stands.
fn harmed_by(investigations: &[Investigation], one: &Investigation, finding: &Finding) -> Option<MemoryId> {
    let (checked, presented) = one.result.as_ref()?.looked()?;
    let harmed = checked
        .verdicts
        .iter()
        .filter(|said| said.verdict == Verdict::Harmed && harm(checked, said).any(|own| own == finding));
    harmed.map(|said| said.memory).find(|memory| {
        let shown = presented.iter().find(|shown| shown.memory == *memory);
        shown.is_some_and(|shown| {
            let without = had_it_without(investigations, *memory);
            matches!(credit(one, checked, shown, without), Ask::Credit { verdict: Verdict::Harmed, .. })
        })
    })
}

/// The run of this retrospective in which the error that a finding is about passed by itself.
pub(crate) fn passed_in(investigations: &[Investigation], finding: &Finding) -> Option<RunId> {
    let passed = |one: &&Investigation| {
        one.result.as_ref().and_then(|result| result.looked()).is_some_and(|(checked, _)| {
            checked.transients.iter().any(|one| one.is_subject_of(&finding.step, &finding.cue))
        })
    };
    investigations.iter().find(passed).map(|one| one.run.clone())
}

fn contradicted(one: &Investigation, against: &Contradiction) -> Ask {
    Ask::Contradict {
        memory: against.memory,
        run: one.run.clone(),
        step: against.step.clone(),
        subject: against.subject.clone(),
        reason: against.reason.clone(),
        quote: against.quote.clone(),
    }
}

/// A presented memory on which no verdict stands was not used, as far as anyone can show. Harm is a failure that runs without
/// the memory do not have: where one of them had the same error, following the memory made no difference that shows.
fn credit<'i>(
    one: &Investigation,
    checked: &Checked,
    shown: &Presented,
    mut without: impl Iterator<Item = (&'i RunId, &'i Finding)>,
) -> Ask {
    let stands = checked.verdicts.iter().find(|verdict| verdict.memory == shown.memory);
    let (verdict, reason) = match stands {
        None => (Verdict::Ignored, "no verdict on it stands".to_owned()),
        Some(found) if found.verdict == Verdict::Harmed => {
            let same =
                |(_, other): &(&RunId, &Finding)| harm(checked, found).any(|own| same_error(own, other));
            match without.find(same) {
                Some((run, _)) => {
                    let reason = format!("{}, as it did in run {run}, which did not have it", found.reason);
                    (Verdict::Applied, reason)
                }
                None => (Verdict::Harmed, found.reason.clone()),
            }
        }
        Some(found) => (found.verdict, found.reason.clone()),
    };
    Ask::Credit { memory: shown.memory, run: one.run.clone(), verdict, read: shown.read, reason }
}

/// What the runs of this retrospective showed that a memory was not presented to.
fn had_it_without(
    investigations: &[Investigation],
    memory: MemoryId,
) -> impl Iterator<Item = (&RunId, &Finding)> {
    let looked = investigations.iter().filter_map(|one| Some((one, one.result.as_ref()?.looked()?)));
    let without = looked.filter(move |(_, (_, met))| met.iter().all(|shown| shown.memory != memory));
    without.flat_map(|(one, (checked, _))| checked.findings.iter().map(move |finding| (&one.run, finding)))
}

/// The findings about the failure that a verdict quotes.
fn harm<'c>(checked: &'c Checked, said: &'c MemoryVerdict) -> impl Iterator<Item = &'c Finding> {
    let quotes =
        |finding: &&Finding| said.quote.as_ref().is_some_and(|quote| quote.text == finding.quote.text);
    checked.findings.iter().filter(quotes)
}

fn same_error(one: &Finding, other: &Finding) -> bool {
    one.cue.error.is_some()
        && one.step == other.step
        && one.cue.tool == other.cue.tool
        && one.cue.error == other.cue.error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Cue;
    use crate::id::derive;
    use crate::retrospective::InvestigationResult;
    use crate::trajectory::Place;

    fn memory() -> MemoryId {
        MemoryId(derive("settle", &["memory"]))
    }

    fn finding(error: &str, words: &str) -> Finding {
        Finding {
            kind: FindingKind::Failure,
            step: Step::main(),
            subject: "sh".to_owned(),
            title: format!("Expect {error}"),
            content: String::new(),
            cue: Cue { tool: Some("sh".to_owned()), error: Some(error.to_owned()), ..Cue::default() },
            quote: Quote { place: Place::Answer { turn: 1, call: 0 }, text: words.to_owned() },
            contradicts: None,
        }
    }

    fn run(number: u32, findings: Vec<Finding>, harmed_by: Option<&str>, met: bool) -> Investigation {
        let verdict = |words: &str| MemoryVerdict {
            memory: memory(),
            verdict: Verdict::Harmed,
            reason: "it failed".to_owned(),
            quote: Some(Quote { place: Place::Answer { turn: 4, call: 0 }, text: words.to_owned() }),
        };
        let checked = Checked {
            findings,
            verdicts: harmed_by.map(verdict).into_iter().collect(),
            ..Checked::default()
        };
        let presented = if met { vec![Presented::own(memory(), false)] } else { Vec::new() };
        Investigation {
            number,
            ordinal: number.into(),
            run: RunId::new(format!("r{number}")).unwrap(),
            replacement: false,
            result: Some(InvestigationResult::Found { checked, presented }),
        }
    }

    /// What the first run is asked to credit the memory with, beside another run.
    fn credited(other: Investigation) -> (Verdict, String) {
        let harmed =
            run(1, vec![finding("no such file", "no such file 'a'")], Some("no such file 'a'"), true);
        let batch = settle(RetrospectiveId(derive("settle", &["retrospective"])), &[harmed, other]);
        let first = batch.into_iter().find_map(|mutation| match mutation.ask {
            Ask::Credit { verdict, reason, run, .. } if run.as_str() == "r1" => Some((verdict, reason)),
            _ => None,
        });
        first.expect("it was presented")
    }

    /// Why the first run's pattern is no lesson, beside another run.
    fn unlearnt(kind: FindingKind, other: Investigation) -> Option<NoLesson> {
        let found = Finding { kind, ..finding("no such file", "no such file 'a'") };
        let harmed = run(1, vec![found], Some("no such file 'a'"), true);
        let batch = settle(RetrospectiveId(derive("settle", &["retrospective"])), &[harmed, other]);
        let Ask::Observe { no_lesson, .. } = &batch[0].ask else { panic!("it observes first") };
        no_lesson.clone()
    }

    #[test]
    fn an_error_that_a_memory_led_to_is_its_harm_and_no_warning_of_its_own() {
        let nobody = || run(2, Vec::new(), None, false);
        assert_eq!(unlearnt(FindingKind::Failure, nobody()), Some(NoLesson::Harm { memory: memory() }));
        assert_eq!(unlearnt(FindingKind::Repair, nobody()), None, "a way out is worth knowing");
        let without = run(2, vec![finding("no such file", "no such file 'b'")], None, false);
        assert_eq!(unlearnt(FindingKind::Failure, without), None, "it comes without the memory, too");
    }

    #[test]
    fn a_failure_that_a_run_without_the_memory_has_too_is_no_harm_of_its() {
        let same = vec![finding("no such file", "no such file 'b'")];
        let (verdict, reason) = credited(run(2, same.clone(), None, false));
        assert_eq!(
            (verdict, &*reason),
            (Verdict::Applied, "it failed, as it did in run r2, which did not have it")
        );
        assert_eq!(credited(run(2, same, None, true)).0, Verdict::Harmed, "that run had the memory, too");
        let another = vec![finding("no such table", "no such table 'b'")];
        assert_eq!(credited(run(2, another, None, false)), (Verdict::Harmed, "it failed".to_owned()));
        let failed = InvestigationResult::Failed { reason: "gone".to_owned() };
        let unseen = Investigation { result: Some(failed), ..run(2, Vec::new(), None, false) };
        assert_eq!(credited(unseen).0, Verdict::Harmed, "nobody looked");
    }
}
