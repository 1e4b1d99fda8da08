use super::*;
use crate::finding::LessonCue;
use crate::id::derive_uuid;
use crate::retrospective::InvestigationResult;

fn memory() -> MemoryId {
    MemoryId(derive_uuid("settle", &["memory"]))
}

fn finding(error: &str, words: &str) -> Finding {
    Finding {
        kind: FindingKind::Failure,
        step: Step::main(),
        subject: "sh".to_owned(),
        title: format!("Expect {error}"),
        content: String::new(),
        cue: LessonCue { tool: Some("sh".to_owned()), error: Some(error.to_owned()), ..LessonCue::default() },
        quote: Quote { place: QuotePlace::Answer { turn: 1, call: 0 }, text: words.to_owned() },
        contradicts: None,
        origin: EvidenceOrigin::default(),
    }
}

fn run(number: u32, findings: Vec<Finding>, harmed_by: Option<&str>, met: bool) -> Investigation {
    let verdict = |words: &str| VerdictRecord {
        memory: memory(),
        verdict: MemoryVerdict::Harmed,
        reason: "it failed".to_owned(),
        quote: Some(Quote { place: QuotePlace::Answer { turn: 4, call: 0 }, text: words.to_owned() }),
    };
    let checked = CheckedAnswer {
        findings,
        verdicts: harmed_by.map(verdict).into_iter().collect(),
        ..CheckedAnswer::default()
    };
    let presented = if met { vec![PresentedMemory::from_own_workflow(memory(), false)] } else { Vec::new() };
    Investigation {
        number,
        ordinal: number.into(),
        run: RunId::new(format!("r{number}")).unwrap(),
        replacement: false,
        result: Some(InvestigationResult::Found { checked, presented }),
    }
}

/// Returns the verdict and reason that the first run credits the memory with, given another run.
fn credited(other: Investigation) -> (MemoryVerdict, String) {
    let harmed = run(1, vec![finding("no such file", "no such file 'a'")], Some("no such file 'a'"), true);
    let batch = settle_investigations(
        RetrospectiveId(derive_uuid("settle", &["retrospective"])),
        &[harmed, other],
        &Contrast::default(),
    );
    let first = batch.into_iter().find_map(|mutation| match mutation.request {
        MutationKind::Credit { verdict, reason, run, .. } if run.as_str() == "r1" => Some((verdict, reason)),
        _ => None,
    });
    first.expect("it was presented")
}

/// Returns the reason why the first run's pattern is not a lesson, given another run.
fn unlearnt(kind: FindingKind, other: Investigation) -> Option<NoLessonReason> {
    let found = Finding { kind, ..finding("no such file", "no such file 'a'") };
    let harmed = run(1, vec![found], Some("no such file 'a'"), true);
    let batch = settle_investigations(
        RetrospectiveId(derive_uuid("settle", &["retrospective"])),
        &[harmed, other],
        &Contrast::default(),
    );
    let MutationKind::Observe { no_lesson, .. } = &batch[0].request else { panic!("it observes first") };
    no_lesson.clone()
}

#[test]
fn an_error_caused_by_a_memory_counts_as_harm_and_is_no_lesson() {
    let nobody = || run(2, Vec::new(), None, false);
    assert_eq!(unlearnt(FindingKind::Failure, nobody()), Some(NoLessonReason::Harm { memory: memory() }));
    assert_eq!(unlearnt(FindingKind::Repair, nobody()), None, "a way out is worth knowing");
    let without = run(2, vec![finding("no such file", "no such file 'b'")], None, false);
    assert_eq!(unlearnt(FindingKind::Failure, without), None, "it comes without the memory, too");
}

#[test]
fn a_failure_that_also_occurs_without_the_memory_is_no_harm() {
    let same = vec![finding("no such file", "no such file 'b'")];
    let (verdict, reason) = credited(run(2, same.clone(), None, false));
    assert_eq!(
        (verdict, &*reason),
        (MemoryVerdict::Applied, "it failed, as it did in run r2, which did not have it")
    );
    assert_eq!(credited(run(2, same, None, true)).0, MemoryVerdict::Harmed, "that run had the memory, too");
    let another = vec![finding("no such table", "no such table 'b'")];
    assert_eq!(credited(run(2, another, None, false)), (MemoryVerdict::Harmed, "it failed".to_owned()));
    let failed = InvestigationResult::Failed { reason: "gone".to_owned() };
    let unseen = Investigation { result: Some(failed), ..run(2, Vec::new(), None, false) };
    assert_eq!(credited(unseen).0, MemoryVerdict::Harmed, "nobody looked");
}
