//! Mechanical checks of an investigator's answer, which drop the parts that fail.

use retro_core::finding::{
    BriefMemory, CONTENT_CHARS_MAX, CUE_CHARS_MAX, CheckedAnswer, Contradiction, Finding, InvestigationBrief,
    MemoryVerdict, QUOTE_CHARS_MAX, Quote, REASON_CHARS_MAX, RawAnswer, SUBJECT_CHARS_MAX, TITLE_CHARS_MAX,
    TransientError, VerdictRecord, check_answer,
};
use retro_core::id::{MemoryId, Step, derive_uuid};
use retro_core::memory::{Lesson, Memory};
use retro_core::recall::{FENCE_BEGIN, FENCE_END, MemoryContent};
use retro_core::run::{RunFacts, RunKind, RunMemories, RunOutcome, SelfFeedback};
use retro_core::trajectory::{QuotePlace, ToolCall, Turn, TurnSource};
use retro_core::weight::Weight;

use crate::world::{World, finding, in_step, run};

fn brief_memory(name: &str, presented: bool) -> BriefMemory {
    BriefMemory {
        id: memory_id(name),
        step: Some(Step::main()),
        subject: "sh".into(),
        title: name.into(),
        cue: finding(name).cue,
        weight: Weight::from_thousandths(300),
        presented,
        read: false,
    }
}

fn memory_id(name: &str) -> MemoryId {
    MemoryId(derive_uuid("memory", &[name]))
}

/// Builds the brief of a run with two turns, in the steps `main` and `review`, and one remark of
/// self-feedback.
fn brief() -> InvestigationBrief {
    let turn = |step: &str| Turn {
        at: None,
        step: step.parse().unwrap(),
        entry: None,
        agentic: true,
        source: TurnSource::Agent,
        message: "words of the agent".into(),
        reasoning: "thoughts of the agent".into(),
        calls: vec![ToolCall {
            tool: "sh".into(),
            arguments: "ls -l".into(),
            answer: Some("no such file".into()),
            failed: None,
        }],
    };
    let run = RunFacts {
        run_id: run("r1"),
        attempt: 1,
        kind: RunKind::Normal,
        outcome: RunOutcome::Failure,
        outcome_only: false,
        started_at: None,
        finished_at: None,
        repo: None,
        repo_visibility: None,
        pull_request: None,
        commit: None,
        user: None,
        agent: None,
        prompt_version: None,
        task: None,
        usage: None,
        memories: RunMemories::default(),
        self_feedback: vec![SelfFeedback { step: Step::main(), text: "next time read first".into() }],
    };
    InvestigationBrief {
        run,
        trajectory: vec![turn("main"), turn("review")].into(),
        memories: vec![brief_memory("shown", true), brief_memory("known", false)],
        earlier: Vec::new(),
        focus: None,
    }
}

fn quoted_finding(place: QuotePlace, text: &str) -> Finding {
    Finding { quote: Quote { place, text: text.into() }, ..finding("A") }
}

#[track_caller]
fn check_finding(finding: Finding, stands: bool) {
    let description = format!("{finding:?}");
    let CheckedAnswer { findings, dropped, .. } =
        check_answer(&brief(), RawAnswer { findings: vec![finding], ..RawAnswer::default() });
    assert_eq!((findings.len(), dropped), (usize::from(stands), u32::from(!stands)), "{description}");
}

#[test]
fn a_quote_must_stand_verbatim_in_the_place_it_names() {
    check_finding(quoted_finding(QuotePlace::Message { turn: 0 }, "words of the agent"), true);
    check_finding(quoted_finding(QuotePlace::Message { turn: 0 }, "of the"), true);
    check_finding(quoted_finding(QuotePlace::Reasoning { turn: 0 }, "thoughts"), true);
    check_finding(quoted_finding(QuotePlace::Arguments { turn: 0, call: 0 }, "ls -l"), true);
    check_finding(quoted_finding(QuotePlace::Answer { turn: 0, call: 0 }, "no such file"), true);
    check_finding(quoted_finding(QuotePlace::SelfFeedback { remark: 0 }, "read first"), true);
    check_finding(quoted_finding(QuotePlace::Message { turn: 0 }, "Words of the agent"), false);
    check_finding(quoted_finding(QuotePlace::Message { turn: 0 }, "thoughts of the agent"), false);
    check_finding(quoted_finding(QuotePlace::Message { turn: 9 }, "words of the agent"), false);
    check_finding(quoted_finding(QuotePlace::Answer { turn: 0, call: 1 }, "no such file"), false);
    check_finding(quoted_finding(QuotePlace::SelfFeedback { remark: 1 }, "read first"), false);
    check_finding(quoted_finding(QuotePlace::Message { turn: 0 }, " "), false);
}

#[test]
fn a_quote_must_stand_in_the_findings_own_step() {
    check_finding(in_step("review", quoted_finding(QuotePlace::Message { turn: 0 }, "words")), false);
    check_finding(in_step("review", quoted_finding(QuotePlace::Message { turn: 1 }, "words")), true);
    check_finding(
        in_step("review", quoted_finding(QuotePlace::SelfFeedback { remark: 0 }, "read first")),
        false,
    );
}

#[test]
fn texts_out_of_bounds_are_dropped() {
    let good = || quoted_finding(QuotePlace::Message { turn: 0 }, "words");
    let long = |chars: usize| "ü".repeat(chars);
    for (over, stands) in [(0, true), (1, false)] {
        check_finding(Finding { title: long(TITLE_CHARS_MAX + over), ..good() }, stands);
        check_finding(Finding { content: long(CONTENT_CHARS_MAX + over), ..good() }, stands);
        check_finding(Finding { subject: long(SUBJECT_CHARS_MAX + over), ..good() }, stands);
        let mut finding = good();
        finding.cue.avoid = Some(long(CUE_CHARS_MAX + over));
        check_finding(finding, stands);
        let mut brief = brief();
        brief.trajectory.turns[0].message = long(QUOTE_CHARS_MAX + 1);
        let quoted = quoted_finding(QuotePlace::Message { turn: 0 }, &long(QUOTE_CHARS_MAX + over));
        assert_eq!(
            check_answer(&brief, RawAnswer { findings: vec![quoted], ..RawAnswer::default() }).findings.len(),
            usize::from(stands)
        );
    }
    check_finding(Finding { title: " ".into(), ..good() }, false);
}

#[test]
fn transients_and_contradictions_need_a_quote_and_contradictions_a_matching_memory() {
    let known = brief().memories[0].clone();
    let step = known.step.clone().unwrap();
    let quote = |place, text: &str| Quote { place, text: text.into() };
    let here = QuotePlace::Message { turn: 0 };
    let dropped = |looked: RawAnswer| check_answer(&brief(), looked).dropped;
    let transient = |quote| RawAnswer {
        transients: vec![TransientError { step: step.clone(), tool: "sh".into(), error: "E".into(), quote }],
        ..RawAnswer::default()
    };
    assert_eq!(dropped(transient(quote(here, "words"))), 0);
    assert_eq!(dropped(transient(quote(here, "other words"))), 1);
    assert_eq!(dropped(transient(quote(QuotePlace::Message { turn: 1 }, "words"))), 1, "another step");
    let against = |memory, subject: &str, quote| {
        let (step, subject, reason) = (step.clone(), subject.to_owned(), "because".to_owned());
        let contradictions = vec![Contradiction { memory, step, subject, reason, quote }];
        RawAnswer { contradictions, ..RawAnswer::default() }
    };
    assert_eq!(dropped(against(known.id, &known.subject, quote(here, "words"))), 0);
    assert_eq!(dropped(against(known.id, "another", quote(here, "words"))), 1);
    assert_eq!(dropped(against(known.id, &known.subject, quote(here, "other words"))), 1);
    assert_eq!(dropped(against(memory_id("unknown"), &known.subject, quote(here, "words"))), 1);
}

#[test]
fn a_finding_can_contradict_only_memories_of_its_brief() {
    let against = |memory| Finding {
        contradicts: Some(memory),
        ..quoted_finding(QuotePlace::Message { turn: 0 }, "words")
    };
    check_finding(against(memory_id("shown")), true);
    check_finding(against(memory_id("known")), true);
    check_finding(against(memory_id("unknown")), false);
}

fn verdict(name: &str, verdict: MemoryVerdict, quote: Option<&str>) -> VerdictRecord {
    let quote = quote.map(|text| Quote { place: QuotePlace::Message { turn: 1 }, text: text.into() });
    VerdictRecord { memory: memory_id(name), verdict, reason: "because".into(), quote }
}

fn answer_with_verdicts(verdicts: Vec<VerdictRecord>) -> RawAnswer {
    RawAnswer { verdicts, ..RawAnswer::default() }
}

#[test]
fn a_verdict_needs_a_presented_memory_and_a_quote_unless_the_cue_was_not_met() {
    let stands = |verdict: VerdictRecord| {
        check_answer(&brief(), answer_with_verdicts(vec![verdict])).verdicts.len() == 1
    };
    assert!(stands(verdict("shown", MemoryVerdict::Helped, Some("words"))));
    assert!(!stands(verdict("shown", MemoryVerdict::Helped, Some("other words"))));
    assert!(!stands(verdict("shown", MemoryVerdict::Helped, None)));
    assert!(!stands(verdict("known", MemoryVerdict::Helped, Some("words"))));
    assert!(stands(verdict("shown", MemoryVerdict::CueNotMet, None)));
    assert!(!stands(verdict("shown", MemoryVerdict::CueNotMet, Some("other words"))));
    let long = "x".repeat(REASON_CHARS_MAX + 1);
    assert!(!stands(VerdictRecord { reason: long, ..verdict("shown", MemoryVerdict::CueNotMet, None) }));
}

#[test]
fn only_the_strongest_verdict_on_a_memory_is_kept_and_the_others_are_dropped() {
    let verdicts_given = [MemoryVerdict::Ignored, MemoryVerdict::Harmed, MemoryVerdict::Helped];
    let verdicts_given = verdicts_given.map(|one| verdict("shown", one, Some("words")));
    let CheckedAnswer { verdicts, dropped, .. } =
        check_answer(&brief(), answer_with_verdicts(verdicts_given.into()));
    assert_eq!((verdicts[0].verdict, verdicts.len(), dropped), (MemoryVerdict::Harmed, 1, 2));
}

#[test]
fn the_injected_block_is_removed_from_everything_an_investigator_reads() {
    let block = format!("{FENCE_BEGIN}\n- [{}] (0.300) A\n{FENCE_END}", memory_id("shown").short_id());
    let mut given = brief();
    let turn = &mut given.trajectory.turns[0];
    turn.message = format!("before {block} after");
    turn.reasoning.clone_from(&block);
    turn.calls[0].arguments.clone_from(&block);
    turn.calls[0].answer = Some(block.clone());
    given.run.self_feedback[0].text = block;
    let trajectory = given.trajectory.without_injected_blocks();
    let turn = &trajectory.turns[0];
    assert_eq!(turn.message, "before  after");
    assert_eq!((turn.reasoning.as_str(), turn.calls[0].arguments.as_str()), ("", ""));
    assert_eq!(turn.calls[0].answer.as_deref(), Some(""));
    assert_eq!(given.run.without_injected_blocks().self_feedback[0].text, "");
}

#[test]
fn the_content_of_opened_memories_is_removed_too() {
    let mut world = World::new();
    world.add_active("A", 300);
    let mut memory = world.named("A").clone();
    memory.lesson.content =
        "Seen: `sh` was called with \"ls\" and answered “no such file”.\nTry again.".into();
    let content = serde_json::to_string(&memory.lesson.content).unwrap();
    let evidence = serde_json::to_string(&memory.evidence).unwrap();
    let document = format!(r#"{{"recorded":"recorded","content":{content},"evidence":{evidence}}}"#);
    let in_a_log = serde_json::json!({ "output": document }).to_string();
    for answer in [document.clone(), in_a_log.clone(), serde_json::json!(in_a_log).to_string()] {
        let stripped = MemoryContent::of_memories(&[&memory]).strip(&answer).unwrap();
        assert!(!stripped.contains("no such file") && !stripped.contains("words"), "{stripped}");
        assert!(stripped.contains("recorded"), "the rest stays: {stripped}");
    }
    // As some writers of JSON escape it: every character outside ASCII.
    let ascii = document.replace('“', r"\u201c").replace('”', r"\u201d");
    for answer in [ascii.clone(), serde_json::json!({ "output": ascii }).to_string()] {
        let stripped = MemoryContent::of_memories(&[&memory]).strip(&answer).unwrap();
        assert!(!stripped.contains("was called with"), "{stripped}");
    }
    let mut given = brief();
    given.trajectory.turns[0].calls[0].answer = Some(document);
    let trajectory = given.trajectory.without_memory_content(&[&memory]);
    assert!(!trajectory.turns[0].calls[0].answer.as_deref().unwrap().contains("no such file"));
    let title = serde_json::to_string(&memory.lesson.title).unwrap();
    let found = format!(r#"{{"memories":[{{"weight":300,"title":{title},"words":[]}}]}}"#);
    for answer in [found.replace(':', ": "), serde_json::json!({ "output": found }).to_string(), found] {
        let stripped = MemoryContent::of_memories(&[&memory]).strip(&answer).unwrap();
        assert!(!stripped.contains("title") && stripped.contains("weight"), "{stripped}");
    }
    assert_eq!(MemoryContent::of_memories(&[&memory]).strip("title: A"), None, "not a field of ours");
    let lesson = Lesson { content: "no such file".into(), ..memory.lesson };
    let short = Memory { evidence: vec![], lesson, ..memory };
    assert_eq!(
        MemoryContent::of_memories(&[&short]).strip("cat: x: no such file"),
        None,
        "text this short may be the agent's own words"
    );
}
