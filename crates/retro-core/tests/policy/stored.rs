//! What is stored comes back as it was, and what does not fit is told.

use retro_core::memory::{ChangeEffect, Memory, MemoryStatus, fold_change};
use retro_core::retrospective::{Investigation, InvestigationResult};
use retro_core::weight::{Weight, WeightDelta};

use crate::world::{World, finding, look};

fn round<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

#[test]
fn every_result_of_an_investigation_survives_storage() {
    let reason = || "why".to_owned();
    let looked = |findings| {
        let mut look = look("r1").read(retro_core::id::MemoryId(retro_core::id::derive_uuid("m", &[])));
        look.findings = findings;
        look.ended(1).result.unwrap()
    };
    for result in [
        looked(vec![finding("A")]),
        looked(vec![]),
        InvestigationResult::Invalid { reason: reason() },
        InvestigationResult::Failed { reason: reason() },
        InvestigationResult::BodyGone { reason: reason() },
    ] {
        let stored = Investigation { result: Some(result), ..look("r1").ended(1) };
        assert_eq!(round(&stored), stored);
    }
}

#[test]
fn every_change_of_a_long_story_survives_storage_and_still_folds() {
    use retro_core::finding::MemoryVerdict::{CueNotMet, Harmed, Helped};
    let mut world = World::new();
    let given = world.active("G", 300);
    world.archived("Z");
    for nth in 0..6 {
        let run = |name: &str| look(&format!("{name}{nth}"));
        world.retro(&[
            run("a").finds(finding("A")).finds(finding("Z")).judged(given, CueNotMet),
            run("b")
                .finds(crate::world::against(given))
                .judged(given, if nth % 2 == 0 { Harmed } else { Helped }),
        ]);
    }
    let kinds: std::collections::BTreeSet<_> = world.log.iter().map(|change| change.effect.kind()).collect();
    assert!(kinds.len() >= 7, "{kinds:?}");
    for change in &world.log {
        assert_eq!(round(change), *change);
    }
    let memories: Vec<Memory> = world.memories.values().cloned().collect();
    assert_eq!(round(&memories), memories);
    assert_eq!(world.folded(), world.memories);
}

#[test]
fn a_change_that_does_not_fit_is_told_with_what_is_legal() {
    let mut world = World::new();
    let id = world.active("A", 300);
    let other = world.active("B", 300);
    let memory = world.memories[&id].clone();
    let change = |effect: ChangeEffect| retro_core::memory::Change { effect, ..world.log[0].clone() };
    let problem =
        |memory: Option<&Memory>, effect| fold_change(memory.cloned(), &change(effect)).unwrap_err().problem;
    let moved = |before, delta, after| ChangeEffect::Reweighted {
        before: Weight::from_thousandths(before),
        delta: WeightDelta(delta),
        after: Weight::from_thousandths(after),
        parts: vec![],
        cue_not_met: 0,
        contradicted_by: vec![],
    };
    assert_eq!(problem(None, ChangeEffect::Archived), "it does not exist");
    let ChangeEffect::Created { scope, lesson, weight, evidence, .. } = world.log[0].effect.clone() else {
        panic!()
    };
    let created = |status| ChangeEffect::Created {
        scope: scope.clone(),
        lesson: lesson.clone(),
        status,
        weight,
        evidence: evidence.clone(),
        quarantine: None,
    };
    assert_eq!(problem(Some(&memory), created(MemoryStatus::Active)), "it exists already");
    assert_eq!(problem(None, created(MemoryStatus::Archived)), "no memory begins as archived");
    assert!(
        problem(Some(&world.memories[&other]), ChangeEffect::Archived)
            .starts_with("it was applied to memory")
    );
    assert_eq!(
        problem(Some(&memory), ChangeEffect::Revived { evidence: evidence.clone() }),
        "it is active; legal then: observed, reweighted, exempted, archived, deleted, superseded"
    );
    assert_eq!(
        problem(Some(&memory), moved(200, 100, 300)),
        "its weight is 0.300, and the change says 0.200 +0.100 = 0.300"
    );
    assert!(fold_change(Some(memory.clone()), &change(moved(300, 100, 401))).is_err());
    assert!(fold_change(Some(memory), &change(moved(300, 100, 400))).is_ok());
}
