//! Tests that text from runs cannot control a terminal: all output and logs are safe to display.

use serde_json::{Value, json};

use crate::world::{
    CommandOutput, DatabaseKind, Fleet, NatsConnection, RawMessage, RunBuilder, World, json_items, json_text,
    run_command,
};

const WORKFLOW: &str = "release";
/// Result of a tool call that clears the screen, sets the title, reverses the line and hides a word in tag
/// characters.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}pay\u{200b}pal\u{e0041}\u{e0042}\u{7f}";
/// Texts that Markdown would render as links, images or mentions.
const LINKS: &str = "<img src=x> ![a](https://evil.example/p.png) www.evil.example @octocat o/r#1";

#[tokio::test]
async fn no_text_of_a_run_sends_control_characters_to_the_terminal() {
    let mut fleet = Fleet::start(DatabaseKind::Postgres, &[]).await;
    fleet.up_with_env(&[("RETRO_LOG", "info")]).await;
    fleet.emit_and_wait("default", "runs.jsonl", &(0..20).map(build_hostile_run).collect::<Vec<_>>()).await;
    let subject = format!("retro.run.completed.default.{WORKFLOW}");
    let broken = RawMessage { subject, headers: vec![], payload: HOSTILE.into() };
    NatsConnection::connect(fleet.nats_url()).await.publish(&broken).await;
    fleet.wait_until_idle().await;
    // A model may write anything into a title.
    let title = json!(format!("Name the region {HOSTILE}"));
    let sql = format!(
        "UPDATE memories SET memory = jsonb_set(memory::jsonb, '{{lesson,title}}', '{title}'::jsonb)::text"
    );
    fleet.postgres().execute_sql(&sql).await;

    let mut raw = 0;
    for (arguments, answer) in collect_command_output(&fleet).await {
        assert_eq!(answer.code, Some(0), "{arguments}: {answer:?}");
        assert_printable(&arguments, &answer.out);
        assert_printable(&arguments, &answer.err);
        raw += usize::from(arguments.ends_with("json") && contains_raw_text(&answer.parse_json()));
    }
    assert!(raw >= 3, "{raw} documents hold the hostile text, so the other outputs prove nothing");

    let export = fleet.export_canonical().await;
    assert_printable("export", &export);
    let lines: Vec<Value> = export.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().any(contains_raw_text), "the export contains the original text");
    let log = std::fs::read_to_string(fleet.path("retro.log")).unwrap();
    assert!(log.contains("retro is up"), "the log is not empty: {log}");
    assert_printable("the log", &log);
    let row = &fleet.run_json(&["retrospectives", "list"]).await[0];
    let (_, report) =
        fleet.get("default", &format!("/v1/reports/{}", json_text(&row["retrospective"], "id"))).await;
    assert!(report.contains('\u{202e}'), "HTTP clients get the text unchanged");
    fleet.stop_up().await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn refusals_escape_the_names_that_a_caller_gave() {
    let world = World::empty();
    let file = world.write_file(&format!("{HOSTILE}.json"), "no run");
    let wrong = format!("--{HOSTILE}");
    let missing = format!("missing {HOSTILE}");
    for arguments in
        [&["emit", &file][..], &["emit", &file, &wrong], &["emit", &missing], &["--output", HOSTILE, "runs"]]
    {
        let answer = run_command(&mut world.command(arguments)).await;
        assert_ne!(answer.code, Some(0), "{answer:?}");
        assert!(answer.err.contains(r"\u{202e}"), "the name is shown: {answer:?}");
        assert_printable("a refusal", &(answer.out + &answer.err));
    }
}

#[tokio::test]
async fn a_markdown_report_contains_no_live_links() {
    let mut world = World::start().await;
    world.emit_and_wait("default", "runs.jsonl", &(0..20).map(build_linking_run).collect::<Vec<_>>()).await;
    let row = &world.run_json(&["retrospectives", "list"]).await[0];
    let id = json_text(&row["retrospective"], "id").to_owned();
    let (_, over_http) = world.get_in_format("default", &format!("/v1/reports/{id}"), "text/markdown").await;
    let printed = world.run_retro(&["reports", "show", &id, "--markdown"]).await.out;
    for markdown in [over_http, printed] {
        let prose = strip_code(&markdown);
        assert!(markdown.contains("evil.example"), "the report contains the text: {markdown}");
        for lead in ["evil.example", "@octocat", "r#1", "<img", "![a]"] {
            assert!(!prose.contains(lead), "{lead} stands in the prose of {markdown}");
        }
    }
    world.stop().await;
}

/// Returns a run with the hostile text in a call and in a remark. The gate would refuse an error with it, and
/// the run would leave no lesson.
fn build_hostile_run(number: u64) -> Value {
    let mut event = build_failing_run(number, "Error: missing required argument 'region'");
    event["data"]["self_feedback"] = json!([format!("Check the region before you deploy {HOSTILE}")]);
    event
}

fn build_linking_run(number: u64) -> Value {
    build_failing_run(number, &format!("Error: missing required argument 'region' {LINKS}"))
}

/// Returns a run whose tool fails with this text and then succeeds, and whose feedback repeats the text.
fn build_failing_run(number: u64, refused: &str) -> Value {
    let mut event = RunBuilder::new(WORKFLOW, &format!("release-{number}"))
        .with_message("Deploy the service.")
        .with_call("deploy_service", &json!({"service": "checkout"}), refused)
        .with_call(
            "deploy_service",
            &json!({"service": "checkout", "region": "eu-west-1"}),
            "deployed checkout",
        )
        .build_event();
    event["data"]["self_feedback"] = json!([format!("Name the region: {refused}")]);
    event
}

/// Returns the output of every command that shows something, as a table and as JSON.
async fn collect_command_output(world: &World) -> Vec<(String, CommandOutput)> {
    let mut commands: Vec<String> =
        ["workflows", "runs", "outcomes", "memories list", "rules list", "proposals list", "config print"]
            .iter()
            .chain(&["retrospectives list", "reports list", "dead-letters list", "dead-letters stats"])
            .chain(&["workflows stats release", "workflows missed release"])
            .chain(&["context --workflow release --step deploy"])
            .map(|command| (*command).to_owned())
            .collect();
    let memories = world.run_json(&["memories", "list"]).await;
    assert!(!json_items(&memories).is_empty(), "the runs leave a lesson");
    for memory in json_items(&memories) {
        let id = json_text(memory, "id");
        commands.extend(["show", "why", "effect"].map(|verb| format!("memories {verb} {id}")));
    }
    for row in json_items(&world.run_json(&["retrospectives", "list"]).await) {
        let id = json_text(&row["retrospective"], "id");
        commands.extend(["retrospectives show", "reports show"].map(|verb| format!("{verb} {id}")));
        commands.push(format!("reports show {id} --markdown"));
    }
    let dead_letters = world.run_json(&["dead-letters", "list"]).await;
    assert!(!json_items(&dead_letters).is_empty(), "there is a dead letter");
    commands.extend(
        json_items(&dead_letters).iter().map(|one| format!("dead-letters show {}", json_text(one, "id"))),
    );
    let mut outputs = Vec::new();
    for command in &commands {
        for form in ["table", "json"] {
            let arguments: Vec<&str> = command.split(' ').chain(["-o", form]).collect();
            outputs.push((arguments.join(" "), world.run_retro(&arguments).await));
        }
    }
    outputs.push(("dead-letters export".to_owned(), world.run_retro(&["dead-letters", "export"]).await));
    outputs
}

/// Asserts that a text has no character that controls a terminal. The list is independent of the program's.
fn assert_printable(what: &str, shown: &str) {
    let steers = |c: char| {
        let code = u32::from(c);
        let control = c.is_control() && c != '\n';
        let turns = matches!(code, 0x61c | 0x200e | 0x200f | 0x202a..=0x202e | 0x2066..=0x2069);
        control || turns || matches!(code, 0x200b | 0x2028 | 0x2029 | 0xfeff | 0xe0000..=0xe0fff)
    };
    let found = shown.char_indices().find(|(_, c)| steers(*c));
    if let Some((at, c)) = found {
        let before: String = shown[..at].chars().rev().take(80).collect();
        panic!("{what} prints {c:?} behind {:?}", before.chars().rev().collect::<String>());
    }
}

/// Returns `true` if a parsed document contains the hostile text unchanged.
fn contains_raw_text(value: &Value) -> bool {
    value.to_string().contains('\u{202e}')
}

/// Returns Markdown without its fenced blocks and code spans.
fn strip_code(markdown: &str) -> String {
    let mut prose = String::new();
    let mut fence: Option<String> = None;
    for line in markdown.lines() {
        let trimmed = line.trim_start();
        let run: String = trimmed.chars().take_while(|c| *c == '`').collect();
        match &fence {
            Some(open) if trimmed == open => fence = None,
            Some(_) => {}
            None if run.len() >= 3 && trimmed.trim_start_matches('`') == "text" => fence = Some(run),
            None => prose.push_str(&strip_code_spans(line)),
        }
    }
    prose
}

fn strip_code_spans(line: &str) -> String {
    let (mut prose, mut rest) = (String::new(), line);
    while let Some(at) = rest.find('`') {
        prose.push_str(&rest[..at]);
        let run: String = rest[at..].chars().take_while(|c| *c == '`').collect();
        let inside = &rest[at + run.len()..];
        let mut from = 0;
        let closed = loop {
            let Some(found) = inside[from..].find('`').map(|found| from + found) else { break None };
            let closing = inside[found..].chars().take_while(|c| *c == '`').count();
            if closing == run.len() {
                break Some(found + closing);
            }
            from = found + closing;
        };
        rest = closed.map_or("", |end| &inside[end..]);
    }
    prose + rest + "\n"
}
