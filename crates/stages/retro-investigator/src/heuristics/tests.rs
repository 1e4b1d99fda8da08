//! Tests of the heuristics on whole runs.

mod complaints;
mod conversations;
mod pieces;
mod remedies;
mod rules;
mod stories;
mod transients;
mod trials;
mod verdicts;

use proptest::prelude::*;
use retro_core::finding::{
    BriefMemory, Finding, InvestigationBrief, InvestigatorAnswer, LessonCue, RawAnswer, TITLE_CHARS_MAX,
    VerdictRecord, check_answer,
};
use retro_core::id::{MemoryId, RunId, Step};
use retro_core::run::{RunFacts, RunKind, RunMemories, RunOutcome, SelfFeedback};
use retro_core::trajectory::{ToolCall, Turn, TurnSource};
use retro_core::weight::Weight;

use super::investigate_run;

/// Call in a test: tool, arguments, answer.
type Told<'a> = (&'a str, &'a str, &'a str);

fn call((tool, arguments, answer): Told<'_>) -> ToolCall {
    ToolCall { tool: tool.into(), arguments: arguments.into(), answer: Some(answer.into()), failed: None }
}

fn turn(call: ToolCall) -> Turn {
    Turn {
        at: None,
        step: Step::main(),
        entry: None,
        agentic: true,
        source: TurnSource::Agent,
        message: String::new(),
        reasoning: String::new(),
        calls: vec![call],
    }
}

/// Builds a run with one call per turn.
fn run(calls: &[Told<'_>]) -> InvestigationBrief {
    let turns: Vec<_> = calls.iter().map(|spec| turn(call(*spec))).collect();
    let run = RunFacts {
        run_id: RunId::new("r1").unwrap(),
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
        self_feedback: Vec::new(),
    };
    InvestigationBrief {
        run,
        trajectory: turns.into(),
        memories: Vec::new(),
        earlier: Vec::new(),
        focus: None,
    }
}

/// Returns the findings and verdicts, and asserts that the core accepts all of them.
fn investigated(brief: &InvestigationBrief) -> (Vec<Finding>, Vec<VerdictRecord>) {
    let RawAnswer { findings, verdicts, .. } = raw_answer(brief);
    (findings, verdicts)
}

fn raw_answer(brief: &InvestigationBrief) -> RawAnswer {
    let InvestigatorAnswer::Answered(looked) = investigate_run(brief) else {
        panic!("the heuristics always look")
    };
    let checked = check_answer(brief, looked.clone());
    assert_eq!(checked.dropped, 0, "the core accepts every finding: {looked:?}");
    looked
}

fn titles(calls: &[Told<'_>]) -> Vec<String> {
    investigated(&run(calls)).0.into_iter().map(|finding| finding.title).collect()
}

fn memory(number: u128, subject: &str, title: &str, cue: LessonCue) -> BriefMemory {
    BriefMemory {
        id: memory_id(number),
        step: Some(Step::main()),
        subject: subject.into(),
        title: title.into(),
        cue,
        weight: Weight::from_thousandths(300),
        presented: true,
        read: false,
    }
}

fn memory_id(number: u128) -> MemoryId {
    format!("{number:032x}").parse().unwrap()
}

fn cue(tool: &str, error: &str, avoid: Option<&str>, prefer: Option<&str>) -> LessonCue {
    let text = |part: Option<&str>| part.map(str::to_owned);
    LessonCue {
        tool: Some(tool.to_owned()),
        error: Some(error.to_owned()).filter(|error| !error.is_empty()),
        avoid: text(avoid),
        prefer: text(prefer),
        worked: None,
    }
}

/// Generates realistic strings (commands, answers and manners) and arbitrary ones.
fn text() -> impl Strategy<Value = String> {
    let real = prop::sample::select(vec![
        "",
        "{}",
        r#"{"a":1,"b":"x_1"}"#,
        r#"{"a":"1","b":"y_22","c":[{"n":3},{"n":4.5}]}"#,
        "SELECT a FROM t",
        "SELECT b FROM u WHERE a = 'é“”x'",
        "SHOW TABLES",
        "DESCRIBE u",
        "tar -xzf a -c b",
        "tar -xzf a -C b",
        "```bash\nls\n```",
        "[('u',), ('b',)]",
        "Error: flight HAT1 not available on date 2024-05-13",
        "Error: payment amount does not add up, total price is 7.5, but paid 3",
        "Error executing query: Table 'x.u' doesn't exist",
        "tar: You may not specify more than one '-c', '-x' option\nTry 'tar --help'",
        "/bin/bash: -c: line 1: unexpected EOF while looking for matching ``'",
        r#"{"error":{"message":"missing required argument 'b'"}}"#,
        "Traceback (most recent call last):\nValueError: ’’ “ü” 'x",
        "HTTP 503 Service Unavailable",
    ]);
    prop_oneof![4 => real.prop_map(str::to_owned), 1 => any::<String>(), 1 => "[ -~\n“”…'`]{0,80}"]
}

fn any_call() -> impl Strategy<Value = ToolCall> {
    let tool =
        prop::sample::select(vec!["mysql", "bash", "get_x", "book", "", "find_user_by_a", "find_user_by_b"]);
    let failed = prop_oneof![4 => Just(None), 1 => any::<bool>().prop_map(Some)];
    (tool, text(), prop::option::weighted(0.9, text()), failed).prop_map(
        |(tool, arguments, answer, failed)| ToolCall { tool: tool.into(), arguments, answer, failed },
    )
}

fn any_turn() -> impl Strategy<Value = Turn> {
    let step = prop::sample::select(vec!["main", "other"]);
    let source = prop::sample::select(vec![TurnSource::Agent, TurnSource::User]);
    let calls = prop::collection::vec(any_call(), 0..3);
    (step, any::<bool>(), source, text(), text(), calls).prop_map(
        |(step, agentic, source, message, reasoning, calls)| Turn {
            at: None,
            step: Step::new(step).unwrap(),
            entry: None,
            agentic,
            source,
            message,
            reasoning,
            calls,
        },
    )
}

fn any_memory() -> impl Strategy<Value = BriefMemory> {
    let manner = prop_oneof![
        prop::sample::select(vec![
            "with `b`",
            "without `b`",
            "`a` as a number",
            "`b` of kind `y`",
            "first `SHOW TABLES`",
            "tool `get_x`",
            "`tar` with `-C`",
            "the same call again",
            "as a bare command",
        ])
        .prop_map(str::to_owned),
        text(),
    ];
    let part = |strategy: BoxedStrategy<String>| prop::option::of(strategy);
    let tool = prop::option::of(prop::sample::select(vec![
        "mysql".to_owned(),
        "bash".to_owned(),
        "book".to_owned(),
    ]));
    let cue = (tool, part(text().boxed()), part(manner.clone().boxed()), part(manner.boxed()))
        .prop_map(|(tool, error, avoid, prefer)| LessonCue { tool, error, avoid, prefer, worked: None });
    (any::<u128>(), text(), text(), cue, any::<bool>()).prop_map(|(id, subject, title, cue, presented)| {
        BriefMemory { presented, ..memory(id, &subject, &title, cue) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_run_gets_the_same_answer_twice_with_valid_quotes(
        turns in prop::collection::vec(any_turn(), 0..25),
        memories in prop::collection::vec(any_memory(), 0..6),
        remarks in prop::collection::vec(text(), 0..3),
    ) {
        let mut brief = run(&[]);
        brief.trajectory.turns = turns;
        brief.memories = memories;
        brief.run.self_feedback =
            remarks.into_iter().map(|text| SelfFeedback { step: Step::main(), text }).collect();
        let (findings, _) = investigated(&brief);
        prop_assert_eq!(investigate_run(&brief), investigate_run(&brief));
        for finding in findings {
            prop_assert!(finding.title.chars().count() <= TITLE_CHARS_MAX);
            prop_assert!(!finding.title.contains('\n'));
        }
    }
}

#[test]
fn a_run_of_a_hundred_thousand_turns_is_bounded() {
    let failing = ("mysql", "SELECT a FROM t", "Error executing query: Table 'x.t' doesn't exist");
    let looking = ("mysql", "SHOW TABLES", "[('u',)]");
    let calls: Vec<Told<'_>> = (0..100_000).map(|at| if at % 3 == 0 { looking } else { failing }).collect();
    let (findings, _) = investigated(&run(&calls));
    assert_eq!(findings.len(), 1, "one error, one lesson");
}
