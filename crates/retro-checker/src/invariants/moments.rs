//! Two moments, one after the other: what may not change between them.

use std::collections::HashMap;

use super::work::place;
use super::{Invariant, Judge};
use crate::state::{Retrospective, State};

pub(super) fn check(judge: &mut Judge, before: &State, after: &State) {
    samples(judge, before, after);
    tokens(judge, before, after);
    logs(judge, before, after);
    runs(judge, before, after);
}

fn samples(judge: &mut Judge, before: &State, after: &State) {
    let claimed = |one: &Retrospective| (one.epoch, one.first_ordinal, one.last_ordinal, one.as_of.clone());
    let later: HashMap<_, _> = after.retrospectives.iter().map(|one| ((&one.tenant, &one.id), one)).collect();
    for one in &before.retrospectives {
        let place = format!("retrospectives, {}", one.id);
        let Some(now) = later.get(&(&one.tenant, &one.id)) else {
            judge.finds(Invariant::SampleStands, place, "it is gone");
            continue;
        };
        if claimed(one) != claimed(now) {
            let problem = format!("it claimed {:?}, and now {:?}", claimed(one), claimed(now));
            judge.finds(Invariant::SampleStands, place.clone(), problem);
        }
        if one.sample.is_some() && one.sample != now.sample {
            judge.finds(Invariant::SampleStands, place, "another sample was drawn");
        }
    }
}

/// Whatever is committed after a claim was seen carries its token, or a later one.
fn tokens(judge: &mut Judge, before: &State, after: &State) {
    let ended: HashMap<_, _> =
        after.investigations.iter().map(|one| ((&one.tenant, &one.retrospective, one.number), one)).collect();
    for one in &before.investigations {
        let key = (&one.tenant, &one.retrospective, one.number);
        let Some(now) = ended.get(&key) else {
            judge.finds(Invariant::LogGrows, place(one), "it is gone");
            continue;
        };
        if one.ended && one.result != now.result {
            judge.finds(Invariant::TokensGrow, place(one), "it had ended, and ended again otherwise");
        }
        let is_new = |entry: &&crate::state::JournalEntry| !before.journal.contains(entry);
        let of =
            |entry: &&crate::state::JournalEntry| (&entry.tenant, &entry.retrospective, entry.number) == key;
        let journalled = after.journal.iter().filter(of).filter(is_new);
        let journalled = journalled.map(|entry| (entry.stage.as_str(), entry.token));
        let ended = now.ended_token.filter(|_| !one.ended).map(|token| ("ended", token));
        for (stage, token) in journalled.chain(ended).filter(|(_, token)| *token < one.token) {
            let problem = format!("{stage} under token {token}, after token {} was given", one.token);
            judge.finds(Invariant::TokensGrow, place(one), problem);
        }
    }
}

/// Changes, dead letters and what people did about them stay as they were written.
fn logs(judge: &mut Judge, before: &State, after: &State) {
    let changes: HashMap<_, _> = after.changes.iter().map(|one| (one.sequence, one)).collect();
    for change in &before.changes {
        if changes.get(&change.sequence) != Some(&change) {
            let place = format!("changes, sequence {}", change.sequence);
            judge.finds(Invariant::LogGrows, place, "it is gone, or was written over");
        }
    }
    let deeds: HashMap<_, _> = after.deeds.iter().map(|one| (one.sequence, one)).collect();
    for deed in before.deeds.iter().filter(|one| deeds.get(&one.sequence) != Some(one)) {
        let place = format!("letter_acts, sequence {}", deed.sequence);
        judge.finds(Invariant::LogGrows, place, "it is gone, or was written over");
    }
    let letters: HashMap<_, _> = after.letters.iter().map(|one| (&one.id, &one.payload_hex)).collect();
    for letter in &before.letters {
        if letters.get(&letter.id) != Some(&&letter.payload_hex) {
            let place = format!("dead_letters, {}", letter.id);
            judge.finds(Invariant::LogGrows, place, "it is gone, or has another payload");
        }
    }
}

/// A run stays, and with the ordinal under which it was claimed. One that waits may get another when its window is
/// claimed.
fn runs(judge: &mut Judge, before: &State, after: &State) {
    let claimed: HashMap<_, _> =
        before.workflows.iter().map(|row| ((&row.tenant, &row.workflow), row.claimed)).collect();
    let now: HashMap<_, _> =
        after.runs.iter().map(|run| ((&run.tenant, &run.workflow, &run.run_id), run.ordinal)).collect();
    for run in &before.runs {
        let place = format!("runs, {} {} {}", run.tenant, run.workflow, run.run_id);
        let Some(ordinal) = now.get(&(&run.tenant, &run.workflow, &run.run_id)) else {
            judge.finds(Invariant::LogGrows, place, "it is gone");
            continue;
        };
        let claimed = claimed.get(&(&run.tenant, &run.workflow)).copied().unwrap_or_default();
        if run.ordinal.is_some_and(|ordinal| ordinal <= claimed) && run.ordinal != *ordinal {
            let problem = format!("it was claimed as {:?}, and is {ordinal:?} now", run.ordinal);
            judge.finds(Invariant::SampleStands, place, problem);
        }
    }
}
