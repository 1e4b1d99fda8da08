//! Stored values are read back unchanged, and illegal changes are refused with a reason.

use retro_core::finding::CheckedAnswer;
use retro_core::id::RunId;
use retro_core::memory::{ChangeEffect, Memory, MemoryStatus, fold_change};
use retro_core::report::{InvestigationTiming, ReportedInvestigation};
use retro_core::retrospective::{Investigation, InvestigationResult};
use retro_core::weight::{Weight, WeightDelta};

use crate::world::{World, finding, investigate};

fn round_trip<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

#[test]
fn every_result_of_an_investigation_survives_storage() {
    let reason = || "why".to_owned();
    let ended_with = |findings| {
        let mut investigated_run = investigate("r1")
            .with_read_memory(retro_core::id::MemoryId(retro_core::id::derive_uuid("m", &[])));
        investigated_run.findings = findings;
        investigated_run.to_investigation(1).result.unwrap()
    };
    for result in [
        ended_with(vec![finding("A")]),
        ended_with(vec![]),
        InvestigationResult::Invalid { reason: reason() },
        InvestigationResult::Failed { reason: reason() },
        InvestigationResult::BodyGone { reason: reason() },
    ] {
        let stored = Investigation { result: Some(result), ..investigate("r1").to_investigation(1) };
        assert_eq!(round_trip(&stored), stored);
    }
}

/// Stored reports are compared byte by byte, so neither the names nor the order of the keys may change.
#[test]
fn a_reported_investigation_has_the_keys_of_its_answer() {
    let reported = ReportedInvestigation {
        number: 1,
        ordinal: 7,
        run: RunId::new("r7").unwrap(),
        replacement: false,
        result: "nothing".to_owned(),
        error: None,
        checked: CheckedAnswer::default(),
        timing: InvestigationTiming::default(),
    };
    let stored = concat!(
        r#"{"number":1,"ordinal":7,"run":"r7","replacement":false,"result":"nothing","#,
        r#""findings":[],"verdicts":[],"dropped":0,"#,
        r#""timing":{"attempts":0,"duration_ms":0,"cost_usd":0.0}}"#,
    );
    assert_eq!(serde_json::to_string(&reported).unwrap(), stored);
    assert_eq!(round_trip(&reported), reported);
}

#[test]
fn every_change_of_a_long_story_survives_storage_and_still_folds() {
    use retro_core::finding::MemoryVerdict::{CueNotMet, Harmed, Helped};
    let mut world = World::new();
    let given = world.add_active("G", 300);
    world.add_archived("Z");
    for nth in 0..6 {
        let run = |name: &str| investigate(&format!("{name}{nth}"));
        world.retro(&[
            run("a").with_finding(finding("A")).with_finding(finding("Z")).with_verdict(given, CueNotMet),
            run("b")
                .with_finding(crate::world::against(given))
                .with_verdict(given, if nth % 2 == 0 { Harmed } else { Helped }),
        ]);
    }
    let kinds: std::collections::BTreeSet<_> = world.log.iter().map(|change| change.effect.kind()).collect();
    assert!(kinds.len() >= 7, "{kinds:?}");
    for change in &world.log {
        assert_eq!(round_trip(change), *change);
    }
    let memories: Vec<Memory> = world.memories.values().cloned().collect();
    assert_eq!(round_trip(&memories), memories);
    assert_eq!(world.fold_log(), world.memories);
}

#[test]
fn an_illegal_change_is_refused_with_the_legal_kinds() {
    let mut world = World::new();
    let id = world.add_active("A", 300);
    let other = world.add_active("B", 300);
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
    let ChangeEffect::Created { scope, lesson, weight, evidence: Some(evidence), .. } =
        world.log[0].effect.clone()
    else {
        panic!()
    };
    let created = |status| ChangeEffect::Created {
        scope: scope.clone(),
        lesson: lesson.clone(),
        status,
        weight,
        evidence: Some(evidence.clone()),
        quarantine: None,
        by: None,
    };
    assert_eq!(problem(Some(&memory), created(MemoryStatus::Active)), "it exists already");
    assert_eq!(problem(None, created(MemoryStatus::Archived)), "no memory begins as archived");
    assert!(
        problem(Some(&world.memories[&other]), ChangeEffect::Archived)
            .starts_with("it was applied to memory")
    );
    assert_eq!(
        problem(Some(&memory), ChangeEffect::Revived { evidence: evidence.clone() }),
        "it is active; legal then: observed, quote_missing, revised, reweighted, exempted, held, released, disabled, enabled, pinned, unpinned, archived, deleted, superseded"
    );
    assert_eq!(
        problem(Some(&memory), moved(200, 100, 300)),
        "its weight is 0.300, and the change says 0.200 +0.100 = 0.300"
    );
    assert!(fold_change(Some(memory.clone()), &change(moved(300, 100, 401))).is_err());
    assert!(fold_change(Some(memory), &change(moved(300, 100, 400))).is_ok());
}
