//! Weighing: contradiction, credit, ignored, what supersedes, limbo and archive.
//!
//! One verdict a memory and run: harmed over helped over applied over ignored over cue not met; a contradiction is
//! a harm and never counted twice. A retrospective's movements of a memory are summed and clamped once.

use std::collections::{BTreeMap, BTreeSet};

use super::apply::Writer;
use crate::finding::Verdict;
use crate::id::{MemoryId, RunId, Step};
use crate::memory::{Effect, Memory, Status, WeightPart, WeightReason};
use crate::policy::Policy;
use crate::weight::Delta;

/// What a retrospective says about one memory.
#[derive(Default)]
pub(super) struct Account {
    /// One entry a run: the strongest verdict.
    runs: BTreeMap<RunId, Said>,
    /// The mutations behind it, by row, so that each is told what came of it.
    rows: Vec<usize>,
}

struct Said {
    verdict: Verdict,
    contradicted: bool,
    read: bool,
    reason: String,
}

impl Account {
    fn say(&mut self, row: usize, run: &RunId, said: Said) {
        self.rows.push(row);
        let Some(stands) = self.runs.get_mut(run) else {
            self.runs.insert(run.clone(), said);
            return;
        };
        stands.read |= said.read;
        if said.contradicted || said.verdict < stands.verdict {
            stands.contradicted |= said.contradicted;
            stands.verdict = said.verdict;
            stands.reason = said.reason;
        }
    }

    fn contradicting(&self) -> BTreeSet<RunId> {
        self.runs.iter().filter(|(_, said)| said.contradicted).map(|(run, _)| run.clone()).collect()
    }

    /// Whether any run read or used the memory.
    fn used(&self) -> bool {
        self.runs.values().any(|said| said.read || said.verdict <= Verdict::Applied)
    }

    fn cue_never_met(&self) -> bool {
        self.runs.values().all(|said| said.verdict == Verdict::CueNotMet)
    }
}

/// The kinds of change by which a retrospective settles a memory, or declines to.
const SETTLING: &[&str] = &["reweighted", "exempted", "superseded", "archived", "deleted", "refused"];

impl Writer<'_> {
    /// Whether an earlier pass over this batch has settled the memory: its weight, and perhaps its status, are
    /// already what the batch makes of them, and judging it once more would count the same runs twice.
    fn settled_before(&self, id: MemoryId) -> bool {
        self.happened_before(id, &self.retrospective_cause(), SETTLING)
    }

    pub(super) fn contradict(
        &mut self,
        row: usize,
        id: MemoryId,
        run: &RunId,
        step: &Step,
        subject: &str,
        reason: &str,
    ) {
        if self.settled_before(id) || self.happened_before(id, &self.run_cause(run), &["deleted", "refused"])
        {
            self.explain(row, format!("this has happened before: run {run} has contradicted it"));
            return;
        }
        let refusal = match self.memories.get(&id) {
            None => Some("no such memory in this workflow".to_owned()),
            Some(memory) if memory.scope.step() != Some(step) || memory.lesson.subject != subject => {
                Some(format!("it is about another step or subject: {}", memory.lesson.subject))
            }
            Some(memory) if !matches!(memory.status, Status::Tentative | Status::Active) => {
                Some(format!("it is {}: there is nothing to take back", memory.status))
            }
            Some(_) => None,
        };
        if let Some(reason) = refusal {
            self.make(
                row,
                id,
                self.run_cause(run),
                Effect::Refused { asked: "contradict".to_owned() },
                reason,
            );
        } else if self.memories[&id].status == Status::Tentative {
            let reason = format!("contradicted while tentative by run {run}: {reason}");
            self.bury(row, id, self.run_cause(run), reason);
        } else {
            let said =
                Said { verdict: Verdict::Harmed, contradicted: true, read: false, reason: reason.to_owned() };
            self.accounts.entry(id).or_default().say(row, run, said);
        }
    }

    pub(super) fn credit(
        &mut self,
        row: usize,
        id: MemoryId,
        run: &RunId,
        verdict: Verdict,
        read: bool,
        reason: &str,
    ) {
        let said = Said { verdict, contradicted: false, read, reason: reason.to_owned() };
        self.accounts.entry(id).or_default().say(row, run, said);
    }

    /// Moves weights and archives: every account, and every active memory of the workflow besides.
    pub(super) fn sweep(&mut self, row: usize) {
        let accounts = std::mem::take(&mut self.accounts);
        let mut risen = Vec::new();
        for (id, account) in &accounts {
            if self.settled_before(*id) {
                self.explain(account.rows[0], "this has happened before: its weight is settled");
            } else if !self.bury_contradicted(*id, account) && self.weigh(account.rows[0], *id, account) {
                risen.push(*id);
            }
            self.share(&account.rows);
        }
        let active = |writer: &Self| -> Vec<MemoryId> {
            writer.memories.values().filter(|m| m.status == Status::Active).map(|m| m.id).collect()
        };
        for id in active(self) {
            if !accounts.contains_key(&id) {
                self.weigh(row, id, &Account::default());
            }
        }
        for id in risen {
            self.supersede_warnings(row, id);
        }
        for id in active(self) {
            self.archive(row, id);
        }
        self.explain(row, "every active memory of the workflow was looked at for limbo and archive");
    }

    /// A warning about an error has had its day once a memory that knows a way out of the very same error has earned more.
    fn supersede_warnings(&mut self, row: usize, by: MemoryId) {
        let stronger = &self.memories[&by];
        let outweighed = self.memories.values().filter(|memory| {
            matches!(memory.status, Status::Tentative | Status::Active)
                && memory.weight < stronger.weight
                && memory.scope == stronger.scope
                && stronger.lesson.cue.says_more_than(&memory.lesson.cue)
        });
        for id in outweighed.map(|memory| memory.id).collect::<Vec<_>>() {
            let reason = format!("memory {by} knows a way out of the same error and weighs more");
            self.make(row, id, self.retrospective_cause(), Effect::Superseded { by }, reason);
        }
    }

    /// Deletes what enough distinct runs contradicted, in this retrospective or in it and the previous one.
    fn bury_contradicted(&mut self, id: MemoryId, account: &Account) -> bool {
        let Some(memory) = self.memories.get(&id).filter(|memory| memory.status == Status::Active) else {
            return false;
        };
        let mut runs = account.contradicting();
        if runs.is_empty() {
            return false;
        }
        let previous =
            memory.contradicted_by.iter().filter(|(epoch, _)| Some(*epoch) == self.facts.previous_epoch);
        runs.extend(previous.map(|(_, run)| run.clone()));
        if runs.len() < self.facts.policy.contradiction_runs as usize {
            return false;
        }
        let runs: Vec<_> = runs.iter().map(RunId::as_str).collect();
        let reason = format!("contradicted by separate runs: {}", runs.join(", "));
        self.bury(account.rows[0], id, self.retrospective_cause(), reason);
        true
    }

    /// Returns whether it weighs more now.
    fn weigh(&mut self, row: usize, id: MemoryId, account: &Account) -> bool {
        let cause = self.retrospective_cause();
        let Some(memory) = self.memories.get(&id) else {
            let effect = Effect::Refused { asked: "credit".to_owned() };
            self.make(row, id, cause, effect, "no such memory in this workflow".to_owned());
            return false;
        };
        let before = memory.weight;
        if memory.status != Status::Active {
            let reason = format!("it is {}: it has no weight to move", memory.status);
            self.make(row, id, cause, Effect::Refused { asked: "credit".to_owned() }, reason);
            return false;
        }
        let (effect, reason) = match weigh(memory, account, self.observed.contains(&id), &self.facts.policy) {
            Weighed::Nothing => return false,
            Weighed::Exempted { cue_not_met } => (
                Effect::Exempted { cue_not_met },
                format!("presented, and its cue never came up ({cue_not_met} in a row): exempt from ignored"),
            ),
            Weighed::Moved { parts, cue_not_met } => {
                let delta = parts.iter().map(|part| part.delta).sum();
                let after = before.moved(delta);
                let reason = told(&parts);
                let contradicted_by = account.contradicting().into_iter().collect();
                (Effect::Reweighted { before, delta, after, parts, cue_not_met, contradicted_by }, reason)
            }
        };
        self.make(row, id, cause, effect, reason) && self.memories[&id].weight > before
    }

    fn archive(&mut self, row: usize, id: MemoryId) {
        let weight = self.memories[&id].weight;
        let limit = self.facts.policy.archive_weight;
        if weight.get() < limit {
            let reason =
                format!("its weight {weight} is below {}", crate::weight::Weight::thousandths(limit));
            self.make(row, id, self.retrospective_cause(), Effect::Archived, reason);
        }
    }
}

/// What a retrospective does to the weight of an active memory.
enum Weighed {
    Nothing,
    Exempted { cue_not_met: u32 },
    Moved { parts: Vec<WeightPart>, cue_not_met: u32 },
}

/// The arithmetic. A memory in limbo that was used after all does not lose the limbo amount: it *was* read.
fn weigh(memory: &Memory, account: &Account, observed: bool, policy: &Policy) -> Weighed {
    let mut parts: Vec<_> =
        account.runs.iter().filter_map(|(run, said)| part_of(run, said, policy)).collect();
    let presented = !account.runs.is_empty();
    let mut cue_not_met = memory.cue_not_met;
    let mut exempt = false;
    if account.used() {
        cue_not_met = 0;
    } else if presented && account.cue_never_met() {
        cue_not_met += 1;
        exempt = cue_not_met <= policy.cue_not_met_max;
        if !exempt {
            let reason = format!("its cue has not come up for {cue_not_met} retrospectives in a row");
            parts.push(rule(policy.ignored_delta, WeightReason::Ignored, reason));
        }
    } else if presented {
        cue_not_met = 0;
        parts.push(rule(
            policy.ignored_delta,
            WeightReason::Ignored,
            "presented, and read or applied in no run".to_owned(),
        ));
    }
    let in_limbo = (policy.archive_weight..policy.inject_weight_min).contains(&memory.weight.get());
    if in_limbo && observed {
        let reason = "in limbo, and observed again".to_owned();
        parts.push(rule(policy.limbo_observed_delta, WeightReason::Observed, reason));
    } else if in_limbo && parts.is_empty() {
        let reason = "in limbo: too light to be presented, so nobody could read it".to_owned();
        parts.push(rule(policy.ignored_delta, WeightReason::Limbo, reason));
    }
    if !parts.is_empty() {
        Weighed::Moved { parts, cue_not_met }
    } else if exempt {
        Weighed::Exempted { cue_not_met }
    } else {
        Weighed::Nothing
    }
}

/// What one run's verdict moves, if only by standing there; ignored and cue not met are judged over all runs together.
fn part_of(run: &RunId, said: &Said, policy: &Policy) -> Option<WeightPart> {
    let (delta, why) = match said.verdict {
        Verdict::Harmed if said.contradicted => (policy.harmed_delta, WeightReason::Contradicted),
        Verdict::Harmed => (policy.harmed_delta, WeightReason::Harmed),
        Verdict::Helped => (policy.helped_delta, WeightReason::Helped),
        Verdict::Applied => (0, WeightReason::Applied),
        Verdict::Ignored | Verdict::CueNotMet if said.read => (0, WeightReason::Read),
        Verdict::Ignored | Verdict::CueNotMet => return None,
    };
    Some(WeightPart { delta: Delta(delta), why, run: Some(run.clone()), reason: said.reason.clone() })
}

const fn rule(delta: i32, why: WeightReason, reason: String) -> WeightPart {
    WeightPart { delta: Delta(delta), why, run: None, reason }
}

/// The parts as one sentence.
fn told(parts: &[WeightPart]) -> String {
    let one = |part: &WeightPart| {
        let run = part.run.as_ref().map(|run| format!(" in run {run}")).unwrap_or_default();
        format!("{} {}{run}: {}", part.delta, part.why.as_str(), part.reason)
    };
    parts.iter().map(one).collect::<Vec<_>>().join("; ")
}
