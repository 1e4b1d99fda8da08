//! What runs say steers no terminal: whatever the program prints and logs about them is safe to look at.

use serde_json::{Value, json};

use crate::world::{Answer, Fleet, Kind, Run, Sent, Wire, World, carry_out, items, text};

const WORKFLOW: &str = "release";
/// What a tool answers: it clears the screen, sets the title, turns the line around, and hides a word in tags.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}pay\u{200b}pal\u{e0041}\u{e0042}\u{7f}";
/// What leads away from a report.
const LINKS: &str = "<img src=x> ![a](https://evil.example/p.png) www.evil.example @octocat o/r#1";

#[tokio::test]
async fn nothing_that_a_run_says_steers_the_terminal_on_which_it_is_shown() {
    let mut fleet = Fleet::start(Kind::Postgres, &[]).await;
    fleet.up_with(&[("RETRO_LOG", "info")]).await;
    fleet.emit("default", "runs.jsonl", &(0..20).map(hostile).collect::<Vec<_>>()).await;
    let subject = format!("retro.run.completed.default.{WORKFLOW}");
    let broken = Sent { subject, headers: vec![], payload: HOSTILE.into() };
    Wire::to(fleet.nats_url()).await.publish(&broken).await;
    fleet.still().await;
    // A model may say anything in a title.
    let title = json!(format!("Name the region {HOSTILE}"));
    let sql = format!(
        "UPDATE memories SET memory = jsonb_set(memory::jsonb, '{{lesson,title}}', '{title}'::jsonb)::text"
    );
    fleet.postgres().execute_sql(&sql).await;

    let mut raw = 0;
    for (arguments, answer) in said_by_commands(&fleet).await {
        assert_eq!(answer.code, Some(0), "{arguments}: {answer:?}");
        assert_printable(&arguments, &answer.out);
        assert_printable(&arguments, &answer.err);
        raw += usize::from(arguments.ends_with("json") && holds_raw(&answer.json()));
    }
    assert!(raw >= 3, "{raw} documents hold what was said, so the others show nothing");

    let export = fleet.export().await;
    assert_printable("export", &export);
    let lines: Vec<Value> = export.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().any(holds_raw), "the export says what was said");
    let log = std::fs::read_to_string(fleet.path("retro.log")).unwrap();
    assert!(log.contains("retro is up"), "there is a log: {log}");
    assert_printable("the log", &log);
    let row = &fleet.ask(&["retrospectives", "list"]).await[0];
    let (_, report) =
        fleet.get("default", &format!("/v1/reports/{}", text(&row["retrospective"], "id"))).await;
    assert!(report.contains('\u{202e}'), "over HTTP a program gets the text as it is");
    fleet.stop_up().await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn what_a_caller_names_is_printable_in_the_refusal_too() {
    let world = World::empty();
    let file = world.write(&format!("{HOSTILE}.json"), "no run");
    let wrong = format!("--{HOSTILE}");
    let missing = format!("missing {HOSTILE}");
    for arguments in
        [&["emit", &file][..], &["emit", &file, &wrong], &["emit", &missing], &["--output", HOSTILE, "runs"]]
    {
        let answer = carry_out(&mut world.command(arguments)).await;
        assert_ne!(answer.code, Some(0), "{answer:?}");
        assert!(answer.err.contains(r"\u{202e}"), "the name is shown: {answer:?}");
        assert_printable("a refusal", &(answer.out + &answer.err));
    }
}

#[tokio::test]
async fn a_report_as_markdown_leads_nowhere() {
    let mut world = World::start().await;
    world.emit("default", "runs.jsonl", &(0..20).map(linking).collect::<Vec<_>>()).await;
    let row = &world.ask(&["retrospectives", "list"]).await[0];
    let id = text(&row["retrospective"], "id").to_owned();
    let (_, over_http) = world.get_as("default", &format!("/v1/reports/{id}"), "text/markdown").await;
    let printed = world.retro(&["reports", "show", &id, "--markdown"]).await.out;
    for markdown in [over_http, printed] {
        let prose = without_code(&markdown);
        assert!(markdown.contains("evil.example"), "it says what was said: {markdown}");
        for lead in ["evil.example", "@octocat", "r#1", "<img", "![a]"] {
            assert!(!prose.contains(lead), "{lead} stands in the prose of {markdown}");
        }
    }
    world.stop().await;
}

fn hostile(number: u64) -> Value {
    let refused = format!("Error: missing required argument 'region' {HOSTILE}");
    failing(number, &refused)
}

fn linking(number: u64) -> Value {
    failing(number, &format!("Error: missing required argument 'region' {LINKS}"))
}

/// A run that fails with these words and then does not, and says them itself.
fn failing(number: u64, refused: &str) -> Value {
    let mut event = Run::new(WORKFLOW, &format!("release-{number}"))
        .told("Deploy the service.")
        .call("deploy_service", &json!({"service": "checkout"}), refused)
        .call("deploy_service", &json!({"service": "checkout", "region": "eu-west-1"}), "deployed checkout")
        .event();
    event["data"]["self_feedback"] = json!([format!("Name the region: {refused}")]);
    event
}

/// Every command that shows something, in both forms.
async fn said_by_commands(world: &World) -> Vec<(String, Answer)> {
    let mut commands: Vec<String> =
        ["workflows", "runs", "outcomes", "memories list", "rules list", "proposals list", "config print"]
            .iter()
            .chain(&["retrospectives list", "reports list", "dead-letters list", "dead-letters stats"])
            .chain(&["context --workflow release --step deploy"])
            .map(|command| (*command).to_owned())
            .collect();
    let memories = world.ask(&["memories", "list"]).await;
    assert!(!items(&memories).is_empty(), "the runs leave a lesson");
    for memory in items(&memories) {
        let id = text(memory, "id");
        commands.extend(["show", "why", "effect"].map(|verb| format!("memories {verb} {id}")));
    }
    for row in items(&world.ask(&["retrospectives", "list"]).await) {
        let id = text(&row["retrospective"], "id");
        commands.extend(["retrospectives show", "reports show"].map(|verb| format!("{verb} {id}")));
        commands.push(format!("reports show {id} --markdown"));
    }
    let letters = world.ask(&["dead-letters", "list"]).await;
    assert!(!items(&letters).is_empty(), "something could not be handled");
    commands.extend(items(&letters).iter().map(|one| format!("dead-letters show {}", text(one, "id"))));
    let mut said = Vec::new();
    for command in &commands {
        for form in ["table", "json"] {
            let arguments: Vec<&str> = command.split(' ').chain(["-o", form]).collect();
            said.push((arguments.join(" "), world.retro(&arguments).await));
        }
    }
    said.push(("dead-letters export".to_owned(), world.retro(&["dead-letters", "export"]).await));
    said
}

/// Said apart from the program: what no terminal is to be sent.
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

/// Whether a parsed document has what was said, as it was said.
fn holds_raw(value: &Value) -> bool {
    value.to_string().contains('\u{202e}')
}

/// Markdown without its fenced blocks and code spans.
fn without_code(markdown: &str) -> String {
    let mut prose = String::new();
    let mut fence: Option<String> = None;
    for line in markdown.lines() {
        let trimmed = line.trim_start();
        let run: String = trimmed.chars().take_while(|c| *c == '`').collect();
        match &fence {
            Some(open) if trimmed == open => fence = None,
            Some(_) => {}
            None if run.len() >= 3 && trimmed.trim_start_matches('`') == "text" => fence = Some(run),
            None => prose.push_str(&without_spans(line)),
        }
    }
    prose
}

fn without_spans(line: &str) -> String {
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
