//! Checks the invariants between two consecutive states.

use std::collections::HashMap;

use super::invariant::Invariant;
use super::judge::Judge;
use super::leases::describe_place;
use crate::state::{Retrospective, State};

pub(super) fn check_transition(judge: &mut Judge, before: &State, after: &State) {
    check_samples(judge, before, after);
    check_tokens(judge, before, after);
    check_logs(judge, before, after);
    check_runs(judge, before, after);
}

fn check_samples(judge: &mut Judge, before: &State, after: &State) {
    let claimed = |one: &Retrospective| (one.epoch, one.first_ordinal, one.last_ordinal, one.as_of.clone());
    let later: HashMap<_, _> = after.retrospectives.iter().map(|one| ((&one.tenant, &one.id), one)).collect();
    for one in &before.retrospectives {
        let place = format!("retrospectives, {}", one.id);
        let Some(now) = later.get(&(&one.tenant, &one.id)) else {
            judge.add_violation(Invariant::SampleStands, place, "it is gone");
            continue;
        };
        if claimed(one) != claimed(now) {
            let problem = format!("it claimed {:?} before and {:?} now", claimed(one), claimed(now));
            judge.add_violation(Invariant::SampleStands, place.clone(), problem);
        }
        if one.sample.is_some() && one.sample != now.sample {
            judge.add_violation(Invariant::SampleStands, place, "another sample was drawn");
        }
    }
}

/// Checks that everything committed after a claim carries the fencing token of this claim or a later one.
fn check_tokens(judge: &mut Judge, before: &State, after: &State) {
    let ended: HashMap<_, _> =
        after.investigations.iter().map(|one| ((&one.tenant, &one.retrospective, one.number), one)).collect();
    for one in &before.investigations {
        let key = (&one.tenant, &one.retrospective, one.number);
        let Some(now) = ended.get(&key) else {
            judge.add_violation(Invariant::LogGrows, describe_place(one), "it is gone");
            continue;
        };
        if one.ended && one.result != now.result {
            judge.add_violation(
                Invariant::TokensGrow,
                describe_place(one),
                "it had ended, and its result changed",
            );
        }
        let is_new = |entry: &&crate::state::JournalEntry| !before.journal.contains(entry);
        let of =
            |entry: &&crate::state::JournalEntry| (&entry.tenant, &entry.retrospective, entry.number) == key;
        let journalled = after.journal.iter().filter(of).filter(is_new);
        let journalled = journalled.map(|entry| (entry.stage.as_str(), entry.token));
        let ended = now.ended_token.filter(|_| !one.ended).map(|token| ("ended", token));
        for (stage, token) in journalled.chain(ended).filter(|(_, token)| *token < one.token) {
            let problem = format!("{stage} under token {token}, after token {} was issued", one.token);
            judge.add_violation(Invariant::TokensGrow, describe_place(one), problem);
        }
    }
}

/// Checks that changes, audit entries and the payloads of dead letters are never modified or deleted.
fn check_logs(judge: &mut Judge, before: &State, after: &State) {
    let changes: HashMap<_, _> = after.changes.iter().map(|one| (one.sequence, one)).collect();
    for change in &before.changes {
        if changes.get(&change.sequence) != Some(&change) {
            let place = format!("changes, sequence {}", change.sequence);
            judge.add_violation(Invariant::LogGrows, place, "it is gone, or was written over");
        }
    }
    let entries: HashMap<_, _> = after.audit_log.iter().map(|one| (one.sequence, one)).collect();
    for entry in before.audit_log.iter().filter(|one| entries.get(&one.sequence) != Some(one)) {
        let place = format!("audit_log, sequence {}", entry.sequence);
        judge.add_violation(Invariant::LogGrows, place, "it is gone, or was written over");
    }
    let dead_letters: HashMap<_, _> =
        after.dead_letters.iter().map(|one| (&one.id, &one.payload_hex)).collect();
    for letter in &before.dead_letters {
        if dead_letters.get(&letter.id) != Some(&&letter.payload_hex) {
            let place = format!("dead_letters, {}", letter.id);
            judge.add_violation(Invariant::LogGrows, place, "it is missing, or its payload changed");
        }
    }
}

/// Checks that runs are never deleted and that claimed runs keep their ordinals. An unclaimed run may get
/// another ordinal when its window is claimed.
fn check_runs(judge: &mut Judge, before: &State, after: &State) {
    let claimed: HashMap<_, _> =
        before.workflows.iter().map(|row| ((&row.tenant, &row.workflow), row.claimed)).collect();
    let now: HashMap<_, _> =
        after.runs.iter().map(|run| ((&run.tenant, &run.workflow, &run.run_id), run.ordinal)).collect();
    for run in &before.runs {
        let place = format!("runs, {} {} {}", run.tenant, run.workflow, run.run_id);
        let Some(ordinal) = now.get(&(&run.tenant, &run.workflow, &run.run_id)) else {
            judge.add_violation(Invariant::LogGrows, place, "it is gone");
            continue;
        };
        let claimed = claimed.get(&(&run.tenant, &run.workflow)).copied().unwrap_or_default();
        if run.ordinal.is_some_and(|ordinal| ordinal <= claimed) && run.ordinal != *ordinal {
            let problem = format!("it was claimed with ordinal {:?} and now has {ordinal:?}", run.ordinal);
            judge.add_violation(Invariant::SampleStands, place, problem);
        }
    }
}
