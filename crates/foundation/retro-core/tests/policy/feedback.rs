//! Feedback: when it is weighed, what it counts, and what does not count.

use std::collections::BTreeMap;

use retro_core::feedback::FeedbackVerdict::{self, Helped, Hurt, Wrong};
use retro_core::finding::MemoryVerdict;
use retro_core::id::{MemoryId, ReviewBatchId, derive_uuid};
use retro_core::learn::{
    ClosedRetrospective, FEEDBACK_PASSES_MAX, FeedbackRun, FeedbackSelection, RunSignal, WaitingFeedback,
};
use retro_core::memory::{ChangeCause, ChangeEffect, MemoryStatus};
use retro_core::remark::AuthorStanding;
use retro_core::retrospective::{Investigation, InvestigationResult};
use retro_core::review::RuleMutationKind;

use super::close::{close, closing_facts};
use crate::world::feedback::{agent, person, said, waiting};
use crate::world::rules::{RuleStore, rule_request};
use crate::world::{World, against, investigate, key, run, start_time};

/// Closes the first retrospective of the world with this feedback. Runs 1 and 2 are investigated.
fn close_with(
    world: &World,
    investigations: Vec<Investigation>,
    feedback: Vec<WaitingFeedback>,
) -> ClosedRetrospective {
    let mut facts = closing_facts(world, 10, investigations);
    facts.writer.feedback = feedback;
    close(facts, start_time())
}

fn quiet() -> Vec<Investigation> {
    vec![investigate("r1").to_investigation(1)]
}

fn weight_after(closed: &ClosedRetrospective, id: MemoryId) -> String {
    let memory = closed.applied.memories.iter().find(|memory| memory.id == id);
    memory.map_or_else(|| "unchanged".to_owned(), |memory| format!("{} {}", memory.status, memory.weight))
}

/// Returns what became of each feedback entry, `+` if it was weighed.
fn outcomes(closed: &ClosedRetrospective) -> Vec<String> {
    let one = |outcome: &retro_core::feedback::FeedbackOutcome| {
        format!("{}{}", if outcome.weighed { "+ " } else { "- " }, outcome.reason)
    };
    closed.feedback.settled.iter().map(|settled| one(&settled.outcome)).collect()
}

#[test]
fn a_run_and_a_person_move_the_weight_once_each() {
    let mut world = World::new();
    let id = world.add_active("A", 300);
    let closed = close_with(
        &world,
        quiet(),
        vec![waiting(id, agent("r7"), Helped), waiting(id, person("ann"), Helped)],
    );
    assert_eq!(weight_after(&closed, id), "active 0.500");
    let [change] = &closed.applied.changes[..] else { panic!("{:?}", closed.applied.changes) };
    let ChangeEffect::Reweighted { parts, .. } = &change.effect else { panic!("{change:?}") };
    assert_eq!(
        parts.iter().map(|part| (part.run.clone(), part.by.as_deref())).collect::<Vec<_>>(),
        [(Some(run("r7")), None), (None, Some("ann")),]
    );
    assert_eq!(
        change.reason,
        "+0.100 helped in run r7: its agent said that it helped; +0.100 helped: ann said that it helped"
    );
    assert!(outcomes(&closed).iter().all(|outcome| outcome.starts_with("+ ")), "{:?}", outcomes(&closed));
    // The report says who asked for it.
    let asked: Vec<_> = closed.report.mutations.iter().map(|one| one.request.kind.as_str()).collect();
    assert_eq!(asked, ["feedback", "feedback", "sweep"]);
}

#[test]
fn of_all_that_is_said_in_a_run_the_strongest_counts_once() {
    let mut world = World::new();
    let id = world.add_active("A", 300);
    // The investigator saw help, the agent says both, and an evaluation repeats the agent.
    let helped = investigate("r1").with_verdict(id, MemoryVerdict::Helped).to_investigation(1);
    let said = vec![waiting(id, agent("r1"), Helped), waiting(id, agent("r1"), Hurt)];
    let closed = close_with(&world, vec![helped.clone()], said);
    assert_eq!(weight_after(&closed, id), "active 0.150", "harmed over helped, and once");
    let closed = close_with(&world, vec![helped], vec![waiting(id, agent("r1"), Helped)]);
    assert_eq!(weight_after(&closed, id), "active 0.400", "one run is one voice");
    let ignored = investigate("r1").with_presented(id).to_investigation(1);
    let closed = close_with(&world, vec![ignored], vec![waiting(id, agent("r1"), Helped)]);
    assert_eq!(weight_after(&closed, id), "active 0.400", "helped over ignored");
    let twice = vec![waiting(id, person("ann"), Helped), waiting(id, person("ann"), Hurt)];
    assert_eq!(weight_after(&close_with(&world, quiet(), twice), id), "active 0.150", "so is a person");
}

#[test]
fn two_runs_that_call_a_memory_wrong_delete_it_and_a_person_does_not() {
    let mut world = World::new();
    let id = world.add_active("A", 900);
    let closed = close_with(&world, quiet(), vec![waiting(id, agent("r3"), Wrong)]);
    assert_eq!(weight_after(&closed, id), "active 0.750", "one run counts as harm");
    let both = vec![waiting(id, agent("r3"), Wrong), waiting(id, agent("r4"), Wrong)];
    let closed = close_with(&world, quiet(), both);
    assert_eq!(weight_after(&closed, id), "deleted 0.900");
    assert_eq!(closed.applied.tombstones.len(), 1);
    let hurt = vec![waiting(id, agent("r3"), Hurt), waiting(id, agent("r4"), Wrong)];
    assert_eq!(
        weight_after(&close_with(&world, quiet(), hurt), id),
        "active 0.600",
        "that it hurt is no contradiction"
    );
    let people = vec![waiting(id, person("ann"), Wrong), waiting(id, person("bob"), Wrong)];
    assert_eq!(weight_after(&close_with(&world, quiet(), people), id), "active 0.600");
}

#[test]
fn two_runs_that_call_a_memory_wrong_do_not_end_what_more_runs_profit_from() {
    let mut world = World::new();
    let id = world.add_active("A", 900);
    let said = |verdicts: &[FeedbackVerdict]| {
        let of_run = |(nth, verdict): (usize, &FeedbackVerdict)| {
            waiting(id, agent(&format!("r{}", nth + 3)), *verdict)
        };
        verdicts.iter().enumerate().map(of_run).collect::<Vec<_>>()
    };
    let after = |verdicts: &[FeedbackVerdict]| weight_after(&close_with(&world, quiet(), said(verdicts)), id);
    assert_eq!(after(&[Wrong, Wrong, Helped, Helped]), "deleted 0.900", "as many");
    assert_eq!(
        after(&[Wrong, Wrong, Helped, Helped, Helped]),
        "active 0.900",
        "0.900 - 2 * 0.150 + 3 * 0.100"
    );
    let contradicting = [("r1", 1), ("r2", 2)]
        .map(|(run, ordinal)| investigate(run).with_finding(against(id)).to_investigation(ordinal));
    let shown = close_with(&world, contradicting.to_vec(), said(&[Helped, Helped, Helped]));
    assert_eq!(weight_after(&shown, id), "deleted 0.900", "what traces show is not outvoted");
}

#[test]
fn feedback_on_a_run_counts_only_if_the_run_had_the_memory_and_is_heard_once() {
    let mut world = World::new();
    let id = world.add_active("A", 300);
    let standing = |run: FeedbackRun, passes| WaitingFeedback {
        feedback: said(id, agent("r7"), Helped),
        passes,
        run: Some(run),
    };
    let all = FeedbackRun { recorded: true, claimed: true, shown: true, judged: false };
    let ends = |facts: FeedbackRun, passes| {
        let closed = close_with(&world, quiet(), vec![standing(facts, passes)]);
        assert_eq!(weight_after(&closed, id), "unchanged");
        (outcomes(&closed), closed.feedback.passed.len())
    };
    let unshown = FeedbackRun { shown: false, ..all };
    assert_eq!(
        ends(unshown, 0),
        (vec!["- not weighed: the memory was neither presented to the run nor read by it".into()], 0)
    );
    let judged = FeedbackRun { judged: true, ..all };
    assert_eq!(
        ends(judged, 0),
        (vec!["- not weighed: a verdict on the memory in this run was weighed before".into()], 0)
    );
    // It waits for its run: one that has arrived will be claimed, one that has not may never arrive.
    assert_eq!(ends(FeedbackRun { claimed: false, ..all }, 0), (vec![], 0));
    assert_eq!(ends(FeedbackRun::default(), FEEDBACK_PASSES_MAX - 1), (vec![], 1));
    assert_eq!(
        ends(FeedbackRun::default(), FEEDBACK_PASSES_MAX),
        (vec!["- not weighed: its run has never been recorded in this workflow".into()], 0)
    );
}

#[test]
fn a_memory_without_a_weight_to_move_is_left_as_it_is_and_makes_no_change() {
    let mut world = World::new();
    let archived = world.add_archived("A");
    let nobody = MemoryId(derive_uuid("nobody", &[]));
    let closed = close_with(
        &world,
        quiet(),
        vec![waiting(archived, agent("r7"), Helped), waiting(nobody, agent("r7"), Helped)],
    );
    assert_eq!(closed.applied.changes, []);
    let mut reasons = outcomes(&closed);
    reasons.sort();
    assert_eq!(
        reasons,
        [
            "- not weighed: it is archived: it has no weight to move",
            "- not weighed: no such memory in this workflow"
        ]
    );
}

#[test]
fn a_failed_retrospective_leaves_feedback_for_the_next_one() {
    let mut world = World::new();
    let id = world.add_active("A", 300);
    let result = Some(InvestigationResult::Failed { reason: "no answer".into() });
    let failed = Investigation { result, ..investigate("r1").to_investigation(1) };
    let closed = close_with(&world, vec![failed], vec![waiting(id, person("ann"), Helped)]);
    assert_eq!((closed.applied.changes.len(), closed.feedback.settled.len()), (0, 0));
}

#[test]
fn a_pinned_memory_is_moved_by_what_people_say() {
    let mut world = World::new();
    let id = world.add_active("A", 300);
    world.memories.get_mut(&id).unwrap().pinned_by = Some("bob".into());
    let closed = close_with(&world, quiet(), vec![waiting(id, person("ann"), Hurt)]);
    assert_eq!(weight_after(&closed, id), "active 0.150");
}

#[test]
fn the_strongest_signal_of_each_presented_run_is_told() {
    let mut world = World::new();
    let id = world.add_active("A", 300);
    let investigations = vec![
        investigate("r1").with_presented(id).to_investigation(1),
        investigate("r2").with_read_memory(id).to_investigation(2),
        investigate("r3").with_verdict(id, MemoryVerdict::Applied).to_investigation(3),
        investigate("r4").with_verdict(id, MemoryVerdict::Applied).to_investigation(4),
        investigate("r5").to_investigation(5),
    ];
    let closed = close_with(&world, investigations, vec![waiting(id, agent("r4"), Helped)]);
    assert_eq!(closed.signals, [RunSignal::None, RunSignal::Read, RunSignal::Applied, RunSignal::Feedback]);
}

#[test]
fn feedback_on_a_rule_joins_the_verdict_of_the_same_run_and_a_persons_is_its_own_cause() {
    let mut store = RuleStore::new();
    store.record_review(&[rule_request(AuthorStanding::Insider, 1, 1, "Never unwrap in library code")]);
    let rule = *store.memories.keys().next().unwrap();
    let before = store.memories[&rule].weight.get();
    let helped = RuleMutationKind::Credit {
        memory: rule,
        workflow: key().workflow,
        run: run("r1"),
        verdict: MemoryVerdict::Helped,
        reason: "it did".into(),
    };
    let feedback = |author, verdict| RuleMutationKind::Feedback { feedback: said(rule, author, verdict) };
    let asks = [
        helped,
        feedback(agent("r1"), Wrong),
        feedback(person("ann"), Helped),
        feedback(person("ann"), Helped),
    ];
    let applied = store.apply_mutations(&asks, BTreeMap::new());
    assert_eq!(store.memories[&rule].weight.get(), before - 150 + 100);
    assert_eq!(store.memories[&rule].status, MemoryStatus::Active, "a run deletes no rule");
    let causes: Vec<_> =
        applied.changes.iter().map(|change| matches!(change.cause, ChangeCause::Feedback { .. })).collect();
    assert_eq!(causes, [false, true]);
    assert_eq!(
        applied.outcomes[0].reason,
        "not weighed: a stronger verdict of the same run or person counts"
    );
    // Repeated in another batch, nothing happens.
    let again = store.apply_mutations(&asks, BTreeMap::new());
    assert_eq!(again.changes, []);
}

#[test]
fn feedback_stands_in_front_of_what_ends_unused_rules() {
    let id = MemoryId(derive_uuid("rule", &[]));
    let selection = FeedbackSelection::select(vec![waiting(id, person("ann"), Helped)]);
    let batch = ReviewBatchId(derive_uuid("batch", &[]));
    let expire = retro_core::review::RuleMutation {
        id: retro_core::id::MutationId::of_review(batch, 0),
        request: RuleMutationKind::Expire,
    };
    let all = selection.add_to_rule_batch(batch, vec![expire]);
    assert_eq!(all.iter().map(|one| one.request.as_str()).collect::<Vec<_>>(), ["feedback", "expire"]);
}
