//! The same runs in the same order, windows, seed, policy time, policy and answers give the same bytes,
//! regardless of the split into batches and of the order in which a database returns its rows.

use proptest::prelude::*;
use retro_core::calls::Contrast;
use retro_core::id::RetrospectiveId;
use retro_core::learn::{ClosingFacts, close_retrospective};
use retro_core::report::WindowRun;
use retro_core::retrospective::{Retrospective, RetrospectiveState, WorkflowState};
use retro_core::run::RunOutcome;
use retro_core::sample::draw_sample;
use retro_core::similarity::NgramEmbedder;

use crate::ledger::{Ledger, events, workflows};
use crate::story::stories;
use crate::world::{InvestigatedRun, World, WriterInput, decide, finding, investigate, key, run, start_time};
use crate::{CASES, cases};

/// Returns the input with every list and set in another order.
fn shuffle(input: &WriterInput, turn: usize) -> WriterInput {
    let mut input = input.clone();
    let facts = &mut input.facts;
    facts.memories.reverse();
    facts.tombstones.reverse();
    let (memories, tombstones) = (facts.memories.len().max(1), facts.tombstones.len().max(1));
    facts.memories.rotate_left(turn % memories);
    facts.tombstones.rotate_left(turn % tombstones);
    // A rebuilt set has a new hash seed and iterates in another order.
    facts.applied = facts.applied.iter().copied().collect();
    input
}

fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

/// Returns the facts of a window of ten runs whose sampled runs share two findings.
pub(crate) fn closing_facts(world: &World) -> ClosingFacts {
    let id = RetrospectiveId::of_epoch(&key(), 1);
    let sample = draw_sample(id, (1..=10).collect(), &world.policy);
    let investigated = sample.order[..4].iter().map(|ordinal| -> InvestigatedRun {
        investigate(&format!("r{ordinal}"))
            .with_finding(finding("A"))
            .with_finding(finding(&format!("B{}", ordinal % 2)))
    });
    let investigations: Vec<_> = (1u32..)
        .zip(investigated)
        .map(|(number, investigated_run)| investigated_run.to_investigation(number))
        .collect();
    let batch = retro_core::learn::settle_investigations(id, &investigations, &Contrast::default());
    ClosingFacts {
        history: Default::default(),
        retrospective: Retrospective {
            id,
            key: key(),
            epoch: 1,
            first: 1,
            last: 10,
            as_of: start_time(),
            policy: world.policy.clone(),
            pipeline: None,
            state: RetrospectiveState::Settling,
            manual_request: None,
        },
        sample,
        window: (1..=10)
            .map(|ordinal| WindowRun {
                ordinal,
                run: run(&format!("r{ordinal}")),
                outcome: RunOutcome::Failure,
                pull_requests: Vec::new(),
                checks: Vec::new(),
            })
            .collect(),
        timings: Vec::new(),
        calls: None,
        writer: world.facts(id, &batch),
        batch,
        investigations,
        state: WorkflowState { counted: 10, claimed: 10, epoch: 1, open: true, ..WorkflowState::default() },
        waiting_in_order: 0,
    }
}

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn the_order_of_rows_does_not_matter_to_the_writer(story in stories(), turn in 0..10usize) {
        story.play(|_, input, applied, _| {
            let again = decide(&shuffle(input, turn));
            assert_eq!(to_json(&again.changes), to_json(&applied.changes));
            assert_eq!(to_json(&again.outcomes), to_json(&applied.outcomes));
            assert_eq!(to_json(&again.memories), to_json(&applied.memories));
            assert_eq!(again.tombstones, applied.tombstones);
        });
    }

    #[test]
    fn playing_a_story_twice_gives_the_same_bytes(story in stories()) {
        let (one, two) = (story.play(|_, _, _, _| {}), story.play(|_, _, _, _| {}));
        prop_assert_eq!(to_json(&one.log), to_json(&two.log));
        prop_assert_eq!(to_json(&one.memories.values().collect::<Vec<_>>()), to_json(&two.memories.values().collect::<Vec<_>>()));
    }

    #[test]
    fn the_split_into_batches_does_not_matter(
        events in events(),
        splits in prop::collection::vec(1..12usize, 1..40),
    ) {
        let mut whole = Ledger::default();
        let at_once = whole.count(&events, start_time());
        let mut parts = Ledger::default();
        let (mut rest, mut opened, mut counted) = (events.as_slice(), Vec::new(), Vec::new());
        for size in splits.iter().cycle() {
            let (batch, later) = rest.split_at((*size).min(rest.len()));
            let effects = parts.count(batch, start_time());
            opened.extend(effects.opened);
            counted.extend(effects.decisions);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(&parts, &whole);
        prop_assert_eq!(opened, at_once.opened);
        prop_assert_eq!(counted, at_once.decisions);
    }

    #[test]
    fn other_workflows_do_not_affect_counting(events in events()) {
        let mut together = Ledger::default();
        together.count(&events, start_time());
        for key in workflows() {
            let own: Vec<_> = events.iter().filter(|one| one.key == key).cloned().collect();
            let mut alone = Ledger::default();
            alone.count(&own, start_time());
            prop_assert_eq!(alone.workflows.get(&key), together.workflows.get(&key));
            prop_assert_eq!(alone.ordinals(&key), together.ordinals(&key));
        }
    }
}

#[test]
fn a_report_is_the_same_bytes_however_the_rows_are_ordered() {
    let mut world = World::new();
    for nth in 0..20 {
        world.add_active(&format!("given {nth}"), 60);
    }
    let closed =
        |facts| to_json(&close_retrospective(facts, &NgramEmbedder, &world.policy, start_time()).report);
    let mut other = closing_facts(&world);
    other.writer.memories.reverse();
    assert_eq!(closed(closing_facts(&world)), closed(other));
}
