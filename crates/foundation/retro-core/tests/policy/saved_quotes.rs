//! Quotes that agents gave when they saved lessons, after their runs were looked at.

use retro_core::calls::SavedQuotes;
use retro_core::finding::EvidenceOrigin;
use retro_core::id::{MemoryId, MutationId, RetrospectiveId, Step};
use retro_core::learn::{
    LessonFields, Mutation, MutationKind, SaveFacts, SavedChange, SavedLesson, apply_mutations, save_lesson,
};
use retro_core::memory::{Memory, MemoryStatus};
use retro_core::run::RunFacts;
use retro_core::similarity::NgramEmbedder;
use retro_core::trajectory::{QuotePlace, ToolCall, Turn, TurnSource};

use crate::world::{InvestigatedRun, World, decide, investigate, key, run};

const ERROR: &str = "Error: region us-1 is closed";

/// Lets the agent of a run save a lesson about [`ERROR`].
fn save(world: &mut World, name: &str) -> MemoryId {
    let fields = LessonFields {
        step: Step::main(),
        run: run(name),
        repository: None,
        change: SavedChange::SetArgument,
        tool: "sh".to_owned(),
        argument: Some("region".to_owned()),
        bad: Some("us-1".to_owned()),
        good: Some("eu-1".to_owned()),
        error: ERROR.to_owned(),
        cause: None,
    };
    let saved = SavedLesson::from_fields(&key(), fields).unwrap();
    let memories = world.memories.values().cloned().collect();
    let facts = SaveFacts { key: key(), saved, memories, tombstones: Vec::new() };
    let saving = save_lesson(&facts, &world.policy, &NgramEmbedder, world.now).unwrap();
    world.log.extend(saving.changes);
    world.memories.insert(saving.memory.id, saving.memory.clone());
    saving.memory.id
}

/// Returns a run that shows the lesson of a memory by an investigated quote.
fn shows(name: &str, memory: &Memory) -> InvestigatedRun {
    let mut found = crate::world::finding("placeholder");
    (found.title, found.subject) = (memory.lesson.title.clone(), memory.lesson.subject.clone());
    found.cue = memory.lesson.cue.clone();
    investigate(name).with_finding(found)
}

/// Closes a retrospective that has looked for the quote of a run.
fn close(
    world: &mut World,
    memory: MemoryId,
    name: &str,
    place: Option<QuotePlace>,
    runs: &[InvestigatedRun],
) -> Vec<String> {
    let mut input = world.prepare_batch(runs);
    let origin =
        EvidenceOrigin { user: Some("anna".into()), task: Some("17".into()), ..EvidenceOrigin::default() };
    let id = MutationId::of_investigation(RetrospectiveId::of_epoch(&key(), world.epoch), "quote", 0, 0);
    let request = MutationKind::CheckQuote { memory, run: run(name), place, origin };
    input.batch.insert(0, Mutation { id, request });
    input.facts = world.facts(RetrospectiveId::of_epoch(&key(), world.epoch), &input.batch);
    let applied = decide(&input);
    assert_eq!(apply_mutations(input.facts, &input.batch, &NgramEmbedder).changes, applied.changes);
    world.commit(&applied)
}

const FOUND: Option<QuotePlace> = Some(QuotePlace::Answer { turn: 3, call: 0 });

#[test]
fn a_quote_that_the_trace_contains_is_evidence_and_its_run_a_witness() {
    let mut world = World::new();
    let id = save(&mut world, "saver");
    let lines = close(&mut world, id, "saver", FOUND, &[]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("saver observed "), "{lines:?}");
    let memory = &world.memories[&id];
    assert_eq!(
        (memory.status, memory.observed_runs, memory.count_witnesses()),
        (MemoryStatus::Tentative, 1, 1)
    );
    assert_eq!((memory.evidence.len(), Some(memory.evidence[0].quote.place)), (1, FOUND));
    assert_eq!(memory.witnesses_of_run(&run("saver")), ["user\u{1f}anna\u{1f}17"], "its origin is known now");

    let other = shows("other", &world.memories[&id]);
    let lines = world.retro(&[other]);
    assert!(lines[0].starts_with("other promoted "), "{lines:?}");
    assert_eq!(world.fold_log(), world.memories);
}

#[test]
fn a_quote_that_the_trace_lacks_is_dropped_and_its_run_confirms_nothing() {
    let mut world = World::new();
    let id = save(&mut world, "liar");
    let lines = close(&mut world, id, "liar", None, &[]);
    assert!(lines[0].starts_with("liar quote_missing "), "{lines:?}");
    let reason = &world.log.last().unwrap().reason;
    assert!(reason.starts_with("quote not found: the trace of run liar does not contain"), "{reason}");
    let memory = world.memories[&id].clone();
    assert_eq!((memory.status, memory.evidence.len(), memory.observed_runs), (MemoryStatus::Tentative, 0, 0));
    assert_eq!((memory.count_witnesses(), memory.quote_missing_in.clone()), (0, Some(run("liar"))));

    // Not by an investigation of the same run either, and one other run is one witness.
    let again = world.retro(&[shows("liar", &memory)]);
    assert!(again[0].starts_with("liar refused (observe)"), "{again:?}");
    let first = world.retro(&[shows("first", &memory)]);
    assert!(first[0].starts_with("first observed "), "{first:?}");
    let second = world.retro(&[shows("second", &memory)]);
    assert!(second[0].starts_with("second promoted "), "{second:?}");
    let reason = &world.log.last().unwrap().reason;
    assert_eq!(reason, "confirmed by separate runs of the same step: first, second");
    assert_eq!(world.fold_log(), world.memories);
}

#[test]
fn a_quote_that_nobody_has_looked_for_confirms_nothing_until_it_is_found() {
    let mut world = World::new();
    let id = save(&mut world, "slow");
    let memory = world.memories[&id].clone();
    let other = world.retro(&[shows("other", &memory)]);
    assert!(other[0].starts_with("other observed "), "{other:?}");
    let arrived = close(&mut world, id, "slow", FOUND, &[]);
    assert!(arrived[0].starts_with("slow promoted "), "{arrived:?}");
    let memory = &world.memories[&id];
    assert_eq!((memory.status, memory.observed_runs), (MemoryStatus::Active, 2));
    assert_eq!(world.fold_log(), world.memories);
}

#[test]
fn a_quote_is_looked_for_once_and_before_the_runs_of_its_retrospective() {
    let mut world = World::new();
    let id = save(&mut world, "saver");
    let memory = world.memories[&id].clone();
    let lines = close(&mut world, id, "saver", FOUND, &[shows("saver", &memory), shows("other", &memory)]);
    let kinds: Vec<_> =
        lines.iter().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(kinds, ["saver observed", "saver refused", "other promoted"]);
    assert_eq!(close(&mut world, id, "saver", None, &[]).len(), 0, "the evidence is proven");
    assert_eq!(world.fold_log(), world.memories);
}

#[test]
fn a_quote_is_looked_for_in_what_the_agent_got_to_read_in_the_step() {
    let mut world = World::new();
    let id = save(&mut world, "saver");
    let turn = |step: &str, source, message: &str, answer: Option<&str>| Turn {
        step: Step::new(step).unwrap(),
        entry: None,
        agentic: true,
        at: None,
        source,
        message: message.to_owned(),
        reasoning: String::new(),
        calls: answer
            .map(|answer| ToolCall {
                tool: "sh".to_owned(),
                arguments: "{}".to_owned(),
                answer: Some(answer.to_owned()),
                failed: None,
            })
            .into_iter()
            .collect(),
    };
    let look = |turns: Vec<Turn>| {
        let facts: RunFacts =
            serde_json::from_value(serde_json::json!({"run_id": "saver", "outcome": "failure"})).unwrap();
        let found = SavedQuotes::check(&facts, &turns.into(), &[world.memories[&id].clone()]).unwrap();
        found.checks[0].place
    };
    let said = turn("main", TurnSource::Agent, ERROR, None);
    assert_eq!(look(vec![said.clone()]), None, "an agent's own words prove nothing");
    let answered = turn("main", TurnSource::Agent, "", Some(&format!("$ deploy\n{ERROR} for now\n")));
    assert_eq!(look(vec![said, answered.clone()]), Some(QuotePlace::Answer { turn: 1, call: 0 }));
    assert_eq!(look(vec![turn("other", TurnSource::Agent, "", Some(ERROR))]), None, "another step");
    let told = turn("main", TurnSource::User, ERROR, None);
    assert_eq!(look(vec![told]), Some(QuotePlace::Message { turn: 0 }));
    let facts: RunFacts =
        serde_json::from_value(serde_json::json!({"run_id": "another", "outcome": "failure"})).unwrap();
    let turns = vec![answered];
    assert_eq!(SavedQuotes::check(&facts, &turns.into(), &[world.memories[&id].clone()]), None);
}
