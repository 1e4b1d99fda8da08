//! Checks fencing tokens and attempt limits.

use super::invariant::Invariant;
use super::judge::Judge;
use crate::history::History;
use crate::state::{Investigation, State};

/// Documented maximum number of attempts per message.
pub(super) const MESSAGE_ATTEMPTS_MAX: u64 = 5;
/// Maximum number of claims per investigation: three attempts under the default policy, and the claim that
/// records the final failure.
const CLAIMS_MAX: u64 = 4;
/// Journaled stages of an investigation, in order.
const STAGES: [&str; 2] = ["briefed", "answered"];

pub(super) fn check_leases(judge: &mut Judge, state: &State, history: &History) {
    for one in &state.investigations {
        check_tokens(judge, state, one);
    }
    check_attempts(judge, state, history);
}

fn check_tokens(judge: &mut Judge, state: &State, one: &Investigation) {
    let place = describe_place(one);
    let stage = |wanted: &str| {
        let of = state.journal.iter().filter(|entry| {
            entry.tenant == one.tenant
                && entry.retrospective == one.retrospective
                && entry.number == one.number
        });
        of.filter(|entry| entry.stage == wanted).map(|entry| (entry.stage.as_str(), entry.token)).next()
    };
    let ended = one.ended_token.map(|token| ("ended", token));
    let committed: Vec<_> = STAGES.into_iter().filter_map(stage).chain(ended).collect();
    for pair in committed.windows(2) {
        let [(earlier, before), (later, after)] = pair else { continue };
        if after < before {
            let problem = format!("{later} under token {after}, after {earlier} under token {before}");
            judge.add_violation(Invariant::TokensGrow, place.clone(), problem);
        }
    }
    if let Some((stage, token)) = committed.iter().find(|(_, token)| *token > one.token) {
        let problem =
            format!("{stage} under token {token}, which was never issued: the last is {}", one.token);
        judge.add_violation(Invariant::TokensGrow, place.clone(), problem);
    }
    // Every claim advances the token, so a smaller token means that fencing did not work.
    if one.token < one.attempts {
        let problem =
            format!("{} claims, but the token is {}: two claims share one", one.attempts, one.token);
        judge.add_violation(Invariant::TokensGrow, place.clone(), problem);
    }
    if one.ended && one.ended_token != Some(one.token) {
        let token = one.ended_token.map_or("no token".to_owned(), |token| format!("token {token}"));
        let problem = format!("it ended under {token}, but the current claim has token {}", one.token);
        judge.add_violation(Invariant::TokensGrow, place, problem);
    }
}

/// Checks that no message or investigation exceeds its attempts. Each injected fault may cost an
/// investigation one additional claim.
fn check_attempts(judge: &mut Judge, state: &State, history: &History) {
    let faults: u64 = history.faults_by_kind().values().sum();
    let messages = state
        .attempts
        .iter()
        .map(|one| (format!("attempts, {} {} {}", one.consumer, one.stream, one.sequence), one.attempts));
    let dead_letters =
        state.dead_letters.iter().map(|one| (format!("dead_letters, {}", one.id), one.attempts));
    let investigations = state.investigations.iter().map(|one| (describe_place(one), one.attempts));
    let messages = messages.chain(dead_letters).map(|(place, spent)| (place, spent, MESSAGE_ATTEMPTS_MAX));
    let investigations = investigations.map(|(place, spent)| (place, spent, CLAIMS_MAX + faults));
    for (place, spent, max) in messages.chain(investigations) {
        if spent > max {
            let problem = format!("{spent} attempts, of at most {max}");
            judge.add_violation(Invariant::AttemptsBounded, place, problem);
        }
    }
}

pub(super) fn describe_place(one: &Investigation) -> String {
    format!("investigations, {} number {}", one.retrospective, one.number)
}
