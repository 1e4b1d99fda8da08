//! Tests of what builds on what came before: the order of a prompt, objections to the heuristics, what is told of earlier runs,
//! and questions about single steps.

use retro_core::finding::{EarlierFinding, EvidenceOrigin, Finding, LessonCue, Quote, RefutationReason};
use retro_core::id::RunId;
use retro_core::trajectory::QuotePlace;

use super::*;

/// A call that fails and is corrected, which the heuristics see.
fn corrected() -> Arc<InvestigationBrief> {
    let unknown = "Error: unknown region eu";
    Arc::new(brief_of(
        vec![
            call_turn("deploy", r#"{"region":"eu"}"#, unknown),
            call_turn("deploy", r#"{"region":"eu-west-1"}"#, "deployed"),
        ],
        None,
    ))
}

fn refute(finding: u32, quote: &str) -> Value {
    json!({"finding": finding, "reason": "task_specific", "quote": {"turn": 1, "call": 0, "text": quote}})
}

async fn investigate_run(brief: Arc<InvestigationBrief>, answers: Vec<ModelResponse>) -> Investigated {
    let model = ScriptedModel::from_answers(answers);
    investigate_with(model, policy(), brief, Arc::default(), None).await
}

fn user_texts(request: &ModelRequest) -> Vec<&str> {
    let messages = request.messages.iter();
    messages
        .filter_map(|message| match message {
            ChatMessage::User { text } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn a_finding_of_the_heuristics_is_refuted_with_a_quote_and_stays() {
    let refuted = json!({"findings": [], "refuted": [refute(1, "deployed")]});
    let done = investigate_run(corrected(), vec![submit(&refuted)]).await;
    let answer = done.answered();
    let [refutation] = &answer.refutations[..] else { panic!("{answer:?}") };
    assert_eq!(refutation.reason, RefutationReason::TaskSpecific);
    assert_eq!(refutation.quote.text, "deployed");
    assert!(refutation.is_about(&answer.findings[0]), "the finding is not lost: {answer:?}");
    assert!(user_texts(&done.asked[0])[1].contains("1. step main: "), "the prompt numbers the findings");
}

#[tokio::test]
async fn an_objection_without_proof_is_sent_back_and_then_dropped() {
    let wrong = json!({"findings": [], "refuted": [refute(9, "deployed"), refute(1, "all is well"), refute(0, "deployed")]});
    let done = investigate_run(corrected(), vec![submit(&wrong); 3]).await;
    assert_eq!((done.asked.len(), done.answered().dropped, done.answered().refutations.len()), (3, 3, 0));
    let ChatMessage::Results { results } = &done.asked[1].messages[3] else { panic!() };
    for said in ["refuted[0]: the heuristics have no finding 9", "refuted[1]: `quote` is not in turn 1"] {
        assert!(results[0].text.contains(said), "{}", results[0].text);
    }
}

#[tokio::test]
async fn who_states_what_it_refutes_has_refuted_nothing() {
    let own = json!({"turn": 0, "call": 0, "tool": "deploy", "error_quote": "Error: unknown region eu",
                     "cause": "The region needs its number."});
    let both = json!({"findings": [own], "refuted": [refute(1, "deployed")]});
    let done = investigate_run(corrected(), vec![submit(&both)]).await;
    let answer = done.answered();
    assert_eq!((answer.findings.len(), answer.refutations.len(), answer.dropped), (1, 0, 1), "{answer:?}");
}

#[tokio::test]
async fn what_stays_the_same_longest_comes_first() {
    let submitted = || vec![submit(&json!({"findings": []}))];
    let one = investigate_run(bookings(None), submitted()).await;
    let other = investigate_run(corrected(), submitted()).await;
    let (one, other) = (&one.asked[0], &other.asked[0]);
    assert_eq!((&one.tools, &one.system), (&other.tools, &other.system));
    assert_eq!(user_texts(one)[0], user_texts(other)[0], "the brief of the workflow");
    assert!(user_texts(one)[0].contains("<data workflow "), "{}", user_texts(one)[0]);
    let run = user_texts(one)[1];
    let at = |part: &str| run.find(part).unwrap_or_else(|| panic!("{part}: {run}"));
    assert!(at("Earlier runs") < at("The run:"), "{run}");
    assert_ne!(run, user_texts(other)[1]);
}

fn earlier(run: u32, title: &str) -> EarlierFinding {
    let finding = Finding {
        kind: FindingKind::Failure,
        step: Step::main(),
        subject: "sh".to_owned(),
        title: title.to_owned(),
        content: String::new(),
        cue: LessonCue::default(),
        quote: Quote { place: QuotePlace::Message { turn: 0 }, text: "words".to_owned() },
        contradicts: None,
        origin: EvidenceOrigin::default(),
    };
    EarlierFinding { run: RunId::new(format!("r{run}")).unwrap(), finding }
}

/// Returns a run of a retrospective whose earlier runs showed this many different things, each in a line of some 200 bytes.
fn run_after(findings: u32) -> Arc<InvestigationBrief> {
    let mut brief = (*corrected()).clone();
    brief.earlier =
        (0..findings).map(|nth| earlier(nth, &format!("finding {nth} {}", "x".repeat(160)))).collect();
    Arc::new(brief)
}

#[tokio::test]
async fn too_much_about_earlier_runs_is_grouped_by_the_model_and_journalled() {
    let groups = json!({"groups": [{"keep": 2, "same": [1, 3]}, {"keep": 50}]});
    let answers = vec![tool("submit_groups", &groups), submit(&json!({"findings": []}))];
    let done = investigate_run(run_after(60), answers).await;
    let compaction = done.answered().compaction.clone().unwrap();
    assert_eq!((compaction.by.as_deref(), compaction.problem), (Some("scripted"), None));
    assert_eq!((compaction.given, compaction.told, compaction.dropped), (60, 2, 56));
    assert_eq!(compaction.dropped_lines.len(), 56);
    assert_eq!(done.journal.lock_calls().len(), 2, "both calls are journalled");
    let asked = &done.asked[0];
    assert_eq!((asked.tools.len(), asked.forced_tool.as_deref()), (1, Some("submit_groups")));
    assert!(asked.system.contains(&super::prompt::data_rules()), "{}", asked.system);
    let told = user_texts(&done.asked[1])[1];
    assert!(
        told.contains("runs r1, r0, r2: step main: finding 1 ") && !told.contains("finding 5 "),
        "{told}"
    );
    let again = investigate_with(
        ScriptedModel::from_answers(Vec::new()),
        policy(),
        run_after(60),
        done.journal.clone(),
        None,
    );
    assert_eq!(again.await.answer, done.answer, "whoever takes over pays for neither call");
}

#[tokio::test]
async fn without_a_usable_answer_the_rule_shortens_what_is_told() {
    let invented = json!({"groups": [{"keep": 99}]});
    for (answer, problem) in [
        (tool("submit_groups", &invented), "there is no line 99"),
        (tool("submit_groups", &json!({"groups": "all"})), "not as the schema says"),
        (ModelResponse { text: "They say the same.".to_owned(), ..ModelResponse::default() }, "did not call"),
    ] {
        let done = investigate_run(run_after(60), vec![answer, submit(&json!({"findings": []}))]).await;
        let compaction = done.answered().compaction.clone().unwrap();
        assert!(compaction.by.is_none() && compaction.problem.unwrap().contains(problem), "{problem}");
        assert!(compaction.dropped > 0 && compaction.told + compaction.dropped == 60);
        let told = user_texts(&done.asked[1])[1];
        assert!(told.len() < 8 * 1024 + 2000, "{} bytes", told.len());
        assert!(told.contains("finding 59 ") && !told.contains("finding 0 "), "the oldest is dropped first");
    }
}

#[tokio::test]
async fn nobody_is_asked_about_what_is_short_or_equal() {
    let short = investigate_run(run_after(10), vec![submit(&json!({"findings": []}))]).await;
    assert_eq!((short.asked.len(), &short.answered().compaction), (1, &None));
    let mut brief = (*corrected()).clone();
    brief.earlier = (0..60).map(|nth| earlier(nth, &format!("one {}", "x".repeat(160)))).collect();
    let equal = investigate_run(Arc::new(brief), vec![submit(&json!({"findings": []}))]).await;
    let compaction = equal.answered().compaction.clone().unwrap();
    assert_eq!((equal.asked.len(), compaction.by, compaction.told, compaction.dropped), (1, None, 1, 0));
    assert!(user_texts(&equal.asked[0])[1].contains("runs r0, r1, r2, r3, r4 and 55 more: step main: one"));
}

/// A run with two steps.
fn two_steps() -> Arc<InvestigationBrief> {
    let mut turns = vec![
        call_turn("fetch", r#"{"page":"a"}"#, "page a of the plan"),
        call_turn("deploy", r#"{"region":"eu"}"#, "Error: unknown region eu"),
    ];
    turns[1].step = Step::new("deploy").unwrap();
    Arc::new(brief_of(turns, None))
}

fn ask_about(step: &str) -> ModelResponse {
    tool("investigate_step", &json!({"step": step, "question": "What does the page say?"}))
}

fn summary(quotes: &Value) -> ModelResponse {
    tool("submit_summary", &json!({"text": "It has the plan.", "quotes": quotes}))
}

fn result_text(request: &ModelRequest) -> &str {
    match request.messages.last() {
        Some(ChatMessage::Results { results }) => &results[0].text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_question_about_a_step_has_a_conversation_of_its_own_whose_quotes_are_checked() {
    let quotes = json!([
        {"turn": 0, "call": 0, "text": "page a of the plan"}, {"turn": 1, "call": 0, "text": "unknown region"},
        {"turn": 0, "call": 0, "text": "nobody said this"},
    ]);
    let read = tool("read", &json!({"turn": 1, "part": "answer"}));
    let answers = vec![ask_about("main"), read, summary(&quotes), submit(&json!({"findings": []}))];
    let done = investigate_run(two_steps(), answers).await;
    assert_eq!((done.asked.len(), done.journal.lock_calls().len()), (4, 4));
    let nested = &done.asked[1];
    let names: Vec<_> = nested.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(
        !names.contains(&"investigate_step") && !names.contains(&"submit_findings"),
        "one level: {names:?}"
    );
    assert!(nested.system.contains(&super::prompt::data_rules()));
    assert!(!user_texts(nested)[0].contains("step deploy"), "{}", user_texts(nested)[0]);
    assert_eq!(result_text(&done.asked[2]), "the run has no such text", "another step cannot be read");
    let told = result_text(&done.asked[3]);
    for said in [
        "<data summary ",
        "It has the plan.",
        "turn 0 call 0: page a of the plan",
        "2 more quotes are not in the step",
    ] {
        assert!(told.contains(said), "{said}: {told}");
    }
    assert!(!told.contains("unknown region") && !told.contains("nobody said this"), "{told}");
    let nobody = ScriptedModel::from_answers(Vec::new());
    let again = investigate_with(nobody, policy(), two_steps(), done.journal.clone(), None).await;
    assert_eq!((again.answer, again.asked.len()), (done.answer, 0), "nothing is paid twice");
}

#[tokio::test]
async fn a_question_about_a_step_has_a_share_of_the_bounds() {
    let looks = |_: usize, request: &ModelRequest| {
        let is_nested = request.tools.iter().any(|tool| tool.name == "submit_summary");
        let asked = request
            .messages
            .iter()
            .filter(|message| matches!(message, ChatMessage::Assistant { .. }))
            .count();
        Ok(match (is_nested, asked) {
            (true, _) => tool("list_steps", &json!({})),
            (false, 0) => ask_about("main"),
            (false, 1) => ask_about("no such step"),
            (false, _) => submit(&json!({"findings": []})),
        })
    };
    let policy = Policy { model_turns_max: 12, ..policy() };
    let done =
        investigate_with(ScriptedModel::new(looks), policy.clone(), two_steps(), Arc::default(), None).await;
    // A quarter of twelve calls, the last of which must answer.
    assert_eq!(done.asked.len(), 3 + 3);
    assert_eq!(done.asked[3].forced_tool.as_deref(), Some("submit_summary"));
    assert_eq!(result_text(&done.asked[4]), "it was called 3 times and did not answer");
    assert_eq!(result_text(&done.asked[5]), "the run has no step \"no such step\"");
    let policy = Policy { investigation_tokens_max: 12_000, ..policy };
    let done = investigate_with(ScriptedModel::new(looks), policy, two_steps(), Arc::default(), None).await;
    let used_up = "the share of the budget for one step is used up";
    assert!(done.asked.iter().skip(1).any(|request| {
        matches!(request.messages.last(), Some(ChatMessage::Results { results }) if results[0].text == used_up)
    }));
    assert!(done.answered().model_note.is_none(), "the rest of the budget is left: {:?}", done.answered());
}
