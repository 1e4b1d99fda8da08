//! What was paid for is never bought again: the program is killed after every call of a model, on both databases, while
//! it shortens what earlier runs showed and while it answers questions about single steps.

use std::fmt::Write as _;

use retro_testkit::{ModelEndpoint, ModelReply};
use serde_json::{Value, json};

use crate::world::{DatabaseKind, Fleet, RunBuilder, json_items};

const WORKFLOW: &str = "bookings";
/// A kill costs an attempt.
const POLICY: &str = "[policy]\nthreshold_runs = 4\nsample_permille = 1000\nsample_runs_max = 4\ninvestigation_attempts_max = 50\n";
/// Number of runs, and of different things that each of them shows.
const RUNS: usize = 4;
const FINDINGS: usize = 20;
const AREAS: [&str; RUNS] = ["northern", "southern", "eastern", "western"];

/// Retrospective that is played undisturbed, and again with a kill after every call.
struct Story {
    runs: Vec<Value>,
    reply: fn(&Value) -> ModelReply,
    /// Number of calls that the retrospective needs.
    calls: usize,
    variables: &'static [(&'static str, &'static str)],
    /// Lines of `[budget]` in the policy.
    budget: &'static str,
}

/// Result of playing a story.
struct Played {
    export: String,
    report: Value,
    text: String,
    prompts: Vec<Value>,
}

impl Story {
    /// Plays the story undisturbed, and killed after every call on both databases. Asserts that all leave the same and that the
    /// endpoint was asked each prompt once. Returns the undisturbed one.
    async fn play_all(&self) -> Played {
        let expected = self.play(DatabaseKind::Sqlite, false).await;
        for kind in [DatabaseKind::Sqlite, DatabaseKind::Postgres] {
            let killed = self.play(kind, true).await;
            assert_eq!(killed.prompts, expected.prompts, "{kind:?}: the same prompts in the same order");
            assert_eq!(killed.export, expected.export, "undisturbed, and killed on {kind:?}");
        }
        expected
    }

    async fn play(&self, kind: DatabaseKind, killed: bool) -> Played {
        let reply = self.reply;
        let endpoint = ModelEndpoint::start(move |_, body| reply(body)).await;
        let mut fleet = Fleet::start(kind, &[]).await;
        fleet.write_policy(&format!("{POLICY}[budget]\n{}\n", self.budget));
        let mut variables = vec![
            ("RETRO_MODEL_URL", endpoint.url()),
            ("RETRO_MODEL", "small"),
            ("RETRO_LEASE_S", "1"),
            ("RETRO_ACK_WAIT_S", "1"),
        ];
        variables.extend(self.variables);
        let file = fleet.write_events("runs.jsonl", &self.runs);
        let deaths = if killed { self.calls } else { 0 };
        let armed = [&variables[..], &[("FAULT_CRASH", "model_call.commit:after")]].concat();
        for death in 1..=deaths {
            fleet.up_with_env(&armed).await;
            if death == 1 {
                fleet.run_retro(&["emit", &file]).await;
            }
            fleet.wait_until_program_killed(&format!("call {death}")).await;
            assert_eq!(
                endpoint.request_count(),
                death,
                "{kind:?}: each life pays for one call, and for no other"
            );
        }
        fleet.up_with_env(&variables).await;
        if !killed {
            fleet.run_retro(&["emit", &file]).await;
        }
        fleet.wait_until_counted("default", self.runs.len() as u64).await;
        fleet.wait_until_idle().await;
        assert_eq!(endpoint.request_count(), self.calls, "{kind:?}, killed: {killed}");
        let rows = fleet.run_json(&["reports", "list"]).await;
        let id = json_items(&rows)[0]["retrospective"]["id"].as_str().expect("an id").to_owned();
        let report = fleet.run_json(&["reports", "show", &id]).await;
        assert_eq!(report["total"]["model_calls"], json!(self.calls), "{kind:?}, killed: {killed}");
        let text = fleet.run_retro(&["reports", "show", &id, "--markdown"]).await.out;
        let export = fleet.export_canonical().await;
        fleet.verify_store().await;
        fleet.stop_up().await;
        let prompts = endpoint.received().into_iter().map(|one| one.body).collect();
        Played { export, report, text, prompts }
    }
}

/// Returns the names of the tools of the request.
fn tool_names(body: &Value) -> Vec<&str> {
    json_items(&body["tools"]).iter().filter_map(|tool| tool["function"]["name"].as_str()).collect()
}

fn answers_so_far(body: &Value) -> usize {
    json_items(&body["messages"]).iter().filter(|message| message["role"] == "assistant").count()
}

/// Returns a run with many searches that find nothing until the day is written another way; only a model sees them.
fn build_searching_run(number: usize) -> Value {
    let area = AREAS[number];
    let mut run = RunBuilder::new(WORKFLOW, &format!("run-{number}")).with_message("Which desks are booked?");
    for nth in 0..FINDINGS {
        let tool = format!("find_{area}_desks_{}", letters(nth));
        run = run.with_call(&tool, &json!({"day": "03-04-2026"}), &empty_answer(number, nth)).with_call(
            &tool,
            &json!({"day": "2026-04-03"}),
            r#"{"items":["d7"]}"#,
        );
    }
    let mut event = run.build_event();
    event["data"]["task"] = json!(format!("the {area} desks"));
    event
}

fn empty_answer(run: usize, nth: usize) -> String {
    let area = AREAS[run];
    format!(
        r#"{{"items":[],"note":"the register of the {area} building knows no booking of desk {} on the day"}}"#,
        letters(nth)
    )
}

/// Names a number in letters: digits are masked in signatures.
fn letters(number: usize) -> String {
    let letter = |at: usize| char::from(b'a' + u8::try_from(at).expect("a letter"));
    format!("{}{}", letter(number / 5), letter(number % 5))
}

/// Groups lines by keeping every third one; states everything that a run shows otherwise.
fn shorten_or_state(body: &Value) -> ModelReply {
    let prompt = body["messages"].to_string();
    if tool_names(body) == ["submit_groups"] {
        let lines = (1..).take_while(|line| prompt.contains(&format!("\\n{line}. run"))).count();
        let groups: Vec<Value> = (1..=lines).step_by(3).map(|keep| json!({"keep": keep})).collect();
        return ModelReply::tool("submit_groups", json!({"groups": groups}));
    }
    let run = AREAS.iter().position(|area| prompt.contains(&format!("task: the {area} desks")));
    let run = run.expect("the prompt names the task");
    let finding = |nth: usize| {
        let quote = empty_answer(run, nth);
        let quote = &quote[quote.find("the register").expect("a note")..quote.len() - 2];
        json!({
            "turn": 1 + 2 * nth, "call": 0, "tool": format!("find_{}_desks_{}", AREAS[run], letters(nth)),
            "error_quote": quote, "change": "set_argument", "argument": "day", "bad": "03-04-2026", "good": "2026-04-03"
        })
    };
    ModelReply::tool("submit_findings", json!({"findings": (0..FINDINGS).map(finding).collect::<Vec<_>>()}))
}

#[tokio::test]
async fn what_earlier_runs_showed_is_shortened_by_a_call_that_is_paid_once() {
    let story = Story {
        runs: (0..RUNS).map(build_searching_run).collect(),
        reply: shorten_or_state,
        calls: RUNS + 1,
        variables: &[],
        budget: "",
    };
    let played = story.play_all().await;
    let shortened = |prompt: &&Value| tool_names(prompt) == ["submit_groups"];
    let asked: Vec<&Value> = played.prompts.iter().filter(shortened).collect();
    let mut table = String::new();
    for prompt in &asked {
        let _ = write!(table, "{} bytes to shorten; ", prompt["messages"].to_string().len());
    }
    println!("{table}{} calls", played.prompts.len());
    assert_eq!(asked.len(), 1, "the fourth investigation");
    let investigations = json_items(&played.report["investigations"]);
    let compactions: Vec<&Value> = investigations.iter().map(|one| &one["compaction"]).collect();
    let (last, before) = compactions.split_last().expect("four investigations");
    assert!(before.iter().all(|none| none.is_null()), "{before:?}");
    let number = |name: &str| last[name].as_u64().expect("a number") as usize;
    assert_eq!((last["by"].as_str(), number("given")), (Some("small"), 3 * FINDINGS), "{last}");
    assert_eq!((number("told"), number("dropped")), (FINDINGS, 2 * FINDINGS), "{last}");
    // What an investigation is told afterwards fits, and is what the model kept.
    let last = played.prompts.last().expect("a prompt")["messages"][2]["content"].as_str().expect("text");
    assert_eq!(last.matches("run run-").count(), FINDINGS, "{last}");
    assert!(played.text.contains("small"), "{}", played.text);
}

/// Returns a run of two steps, the second of which is long.
fn build_stepped_run(number: usize) -> Value {
    let mut event = RunBuilder::new(WORKFLOW, &format!("run-{number}"))
        .with_message("Book a desk.")
        .with_call("find_bookings", &json!({"day": "03-04-2026"}), r#"{"items":[],"total":0}"#)
        .with_call("find_bookings", &json!({"day": "2026-04-03"}), r#"{"items":["d7"],"total":1}"#)
        .with_call("book", &json!({"desk": "d8"}), "Error: desk d8 is behind a locked door")
        .with_call("book", &json!({"desk": "d9"}), "booked d9")
        .build_event();
    let steps = event["data"]["trajectory"]["steps"].as_array_mut().expect("steps");
    for step in &mut steps[3..] {
        step["step"] = json!("book");
    }
    event
}

/// Asks about the step `book`, looks into it on behalf of the question, and answers both.
fn ask_about_a_step(body: &Value) -> ModelReply {
    let is_question = tool_names(body).contains(&"submit_summary");
    match (is_question, answers_so_far(body)) {
        (false, 0) => {
            ModelReply::tool("investigate_step", json!({"step": "book", "question": "Why did d8 fail?"}))
        }
        (false, _) => ModelReply::tool("submit_findings", json!({"findings": []})),
        (true, 0) => ModelReply::tool("list_calls", json!({})),
        (true, 1) => ModelReply::tool("read", json!({"turn": 3, "part": "answer"})),
        (true, _) => ModelReply::tool(
            "submit_summary",
            json!({"text": "The door of d8 is locked.", "quotes": [
                {"turn": 3, "call": 0, "text": "behind a locked door"}, {"turn": 1, "call": 0, "text": "\"items\":[]"}
            ]}),
        ),
    }
}

#[tokio::test]
async fn a_question_about_a_step_is_answered_by_calls_that_are_paid_once() {
    let runs: Vec<Value> = (0..RUNS).map(build_stepped_run).collect();
    let story = Story { runs, reply: ask_about_a_step, calls: RUNS * 5, variables: &[], budget: "" };
    let played = story.play_all().await;
    let questions: Vec<&Value> =
        played.prompts.iter().filter(|prompt| tool_names(prompt).contains(&"submit_summary")).collect();
    assert_eq!(questions.len(), RUNS * 3);
    for prompt in &questions {
        let text = prompt["messages"].to_string();
        assert!(text.contains("Why did d8 fail?") && !text.contains("find_bookings"), "another step: {text}");
    }
    let answered =
        |prompt: &&Value| !tool_names(prompt).contains(&"submit_summary") && answers_so_far(prompt) == 1;
    for prompt in played.prompts.iter().filter(answered) {
        let text = prompt["messages"].to_string();
        assert!(text.contains("The door of d8 is locked."), "{text}");
        assert!(text.contains("turn 3 call 0: behind a locked door"), "{text}");
        assert!(
            text.contains("1 more quotes are not in the step"),
            "a quote of another step is dropped: {text}"
        );
    }
}

/// Never answers a question about a step unless it must, and never answers it well.
fn never_finish_a_step(body: &Value) -> ModelReply {
    let is_question = tool_names(body).contains(&"submit_summary");
    match (is_question, answers_so_far(body)) {
        (false, 0) => {
            ModelReply::tool("investigate_step", json!({"step": "book", "question": "Why did d8 fail?"}))
        }
        (false, _) => ModelReply::tool("submit_findings", json!({"findings": []})),
        (true, _) => ModelReply::tool("list_calls", json!({})),
    }
}

#[tokio::test]
async fn a_question_about_a_step_ends_with_its_share_of_the_calls_and_of_the_tokens() {
    // A quarter of 12 calls is 3, so each run needs 1 + 3 + 1 calls. The endpoint says that each costs 1050 tokens.
    let runs: Vec<Value> = (0..RUNS).map(build_stepped_run).collect();
    let by_calls = Story {
        runs: runs.clone(),
        reply: never_finish_a_step,
        calls: RUNS * 5,
        variables: &[],
        budget: "model_turns_max = 12",
    };
    let played = by_calls.play(DatabaseKind::Sqlite, false).await;
    let told = |played: &Played, said: &str| {
        played.prompts.iter().filter(|prompt| prompt["messages"].to_string().contains(said)).count()
    };
    assert_eq!(told(&played, "it was called 3 times and did not answer"), RUNS);
    let forced =
        played.prompts.iter().filter(|prompt| prompt["tool_choice"].to_string().contains("submit_summary"));
    assert_eq!(forced.count(), RUNS, "the last call of a question must answer");
    // Of 16,800 tokens of an investigation a question may use a quarter, which a prompt and an answer nearly need.
    let by_tokens = Story {
        runs,
        reply: never_finish_a_step,
        calls: RUNS * 3,
        variables: &[("RETRO_MODEL_OUTPUT_TOKENS_MAX", "2000")],
        budget: "investigation_tokens_max = 16800",
    };
    let played = by_tokens.play(DatabaseKind::Sqlite, false).await;
    assert_eq!(told(&played, "the share of the budget for one step is used up"), RUNS);
}
