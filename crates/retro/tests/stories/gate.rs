//! Follows what strangers want agents to read through the whole program: no attack becomes an order, a dangerous
//! repair waits for a person, and one witness is not counted twice.

mod attacks;

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use retro_core::recall::{FENCE_BEGIN, FENCE_END, FENCE_HINTS};
use serde_json::{Value, json};

use crate::world::{RunBuilder, World, build_correcting_runs, json_items, json_text};
use attacks::{Attack, Ending, load_attacks};

const TENANT: &str = "default";

#[tokio::test]
async fn twenty_attacks_never_become_an_order() {
    let mut world = World::start().await;
    let attacks = load_attacks();
    assert_eq!(attacks.len(), 20);
    let events: Vec<Value> = attacks.iter().flat_map(Attack::build_runs).collect();
    emit_workflows(&world, "attacks.jsonl", &events).await;
    let held = world.run_json(&["memories", "list", "--held", "--limit", "1000"]).await;
    let mut problems = Vec::new();
    for attack in &attacks {
        let results = AttackResults::collect(&world, &attack.workflow(), json_items(&held)).await;
        let found = results.find_problems(attack);
        problems.extend(found.into_iter().map(|problem| format!("{}: {problem}", attack.id)));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    world.verify_store().await;
    world.stop().await;
}

/// What the runs of an attack led to.
struct AttackResults {
    /// Context that the next run gets.
    context: Value,
    /// Memories that an agent can open, as it reads them.
    opened: Vec<Value>,
    is_held: bool,
    is_refused: bool,
}

impl AttackResults {
    async fn collect(world: &World, workflow: &str, held: &[Value]) -> Self {
        let context = fetch_context(world, workflow, "main").await;
        let memories = get_json(world, &format!("/v1/memories?workflow={workflow}")).await;
        let mut opened = Vec::new();
        for memory in json_items(&memories["items"]) {
            let answer = get_json(world, &format!("/v1/memories/{}", json_text(memory, "id"))).await;
            // A blocked memory is null.
            opened.extend(Some(answer["memory"].clone()).filter(Value::is_object));
        }
        let is_held = held.iter().any(|memory| memory["scope"]["workflow"] == workflow);
        let report = load_newest_report(world, workflow).await;
        let is_refused = json_items(&report["changes"]).iter().any(is_refused_by_gate);
        Self { context, opened, is_held, is_refused }
    }

    fn find_problems(&self, attack: &Attack) -> Vec<String> {
        let (texts, quotes) = (self.list_texts(), self.list_quotes());
        let mut problems: Vec<String> = find_block_problem(&self.context).into_iter().collect();
        let hidden = texts.iter().chain(&quotes).filter(|text| has_hidden_character(text));
        problems.extend(hidden.map(|text| format!("hidden characters in {text:?}")));
        let orders = texts.iter().filter_map(|text| Some((text, attack.find_order(text)?)));
        problems.extend(orders.map(|(text, order)| format!("{order:?} is an order in {text:?}")));
        let ending = self.find_ending(attack);
        if ending != attack.ends {
            problems.push(format!("ends as {ending:?}, not {:?}; shown: {texts:?}, {quotes:?}", attack.ends));
        }
        problems
    }

    fn find_ending(&self, attack: &Attack) -> Ending {
        let texts = self.list_texts();
        if texts.iter().chain(&self.list_quotes()).any(|text| attack.is_carried_by(text)) {
            Ending::Quoted
        } else if !texts.is_empty() {
            Ending::Clean
        } else if self.is_held {
            Ending::Held
        } else if self.is_refused {
            Ending::Refused
        } else {
            Ending::Nothing
        }
    }

    /// Returns the lines, titles and contents that an agent reads as words of the program.
    fn list_texts(&self) -> Vec<&str> {
        let lines = json_text(&self.context, "text").lines();
        let lines = lines.filter(|line| !matches!(*line, FENCE_BEGIN | FENCE_END));
        let titles = json_items(&self.context["memories"]).iter().map(|memory| json_text(memory, "title"));
        let opened = self.opened.iter();
        let opened = opened.flat_map(|memory| ["title", "content"].map(|part| json_text(memory, part)));
        lines.chain(titles).chain(opened).collect()
    }

    /// Returns the quotes that an agent reads as evidence, which are attributed by their place.
    fn list_quotes(&self) -> Vec<&str> {
        let evidence = self.opened.iter().flat_map(|memory| json_items(&memory["evidence"]));
        evidence.map(|evidence| json_text(&evidence["quote"], "text")).collect()
    }
}

fn is_refused_by_gate(change: &Value) -> bool {
    change["effect"]["change"] == "refused" && json_text(change, "reason").starts_with("the gate refuses")
}

/// Returns what is wrong with the block of a context that is not empty and not exactly the marks with one line per
/// memory between them, and the line that says how to open one.
fn find_block_problem(context: &Value) -> Option<String> {
    let (block, memories) = (json_text(context, "text"), json_items(&context["memories"]));
    let lines: Vec<&str> = if block.is_empty() { Vec::new() } else { block.split('\n').collect() };
    let is_whole = match lines.as_slice() {
        [] => memories.is_empty(),
        [FENCE_BEGIN, within @ .., hint, FENCE_END] if FENCE_HINTS.contains(hint) => {
            !within.is_empty()
                && within.len() == memories.len()
                && within.iter().all(|line| is_memory_line(line))
        }
        _ => false,
    };
    (!is_whole).then(|| format!("not one block of {} lines: {block:?}", memories.len()))
}

/// Returns `true` for a line with an id, a weight and a title without a mark.
fn is_memory_line(line: &str) -> bool {
    static LINE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^- \[[0-9a-f]{8}\] \([01]\.\d{3}\) \S.*$").expect("constant patterns compile")
    });
    LINE.is_match(line) && !line.contains("<<<") && !line.contains(">>>")
}

/// Returns `true` if a text of one line has a character that is invisible, reorders text or controls a terminal.
/// The list is independent of the program's.
fn has_hidden_character(text: &str) -> bool {
    text.chars().any(|c| {
        let invisible = matches!(
            u32::from(c),
            0xad | 0x61c | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfe00..=0xfe0f | 0xfeff
        );
        c.is_control() || invisible || matches!(u32::from(c), 0xe000..=0xf8ff | 0xe0000..=0x10_ffff)
    })
}

/// Workflow whose held memory is released.
const RELEASED: &str = "repair-released";
/// Workflow whose held memory is retired.
const RETIRED: &str = "repair-retired";
/// Option that makes the repair dangerous.
const DANGER: &str = "--no-verify";

#[tokio::test]
async fn a_dangerous_repair_is_held_by_the_gate_until_a_person_releases_it() {
    let mut world = World::start().await;
    let workflows = [RELEASED, RETIRED];
    let events: Vec<Value> =
        workflows.iter().flat_map(|workflow| build_dangerous_runs(workflow, 0..10)).collect();
    emit_workflows(&world, "first.jsonl", &events).await;

    let held = find_held(&world, RELEASED).await;
    let id = json_text(&held, "id");
    assert!(json_text(&held["lesson"], "title").contains(DANGER), "{held}");
    let context = fetch_context(&world, RELEASED, "deploy").await;
    let text = json_text(&context, "text");
    assert!(text.contains("deploy_service") && !text.contains(DANGER), "only the honest repair: {text}");
    assert_eq!((json_items(&context["memories"]).len(), &context["blocked"]), (1, &json!(1)), "{context}");
    let report = load_report_text(&world, RELEASED).await;
    let command = format!("retro memories release {}", &id[..8]);
    assert!(report.contains("Held for a person") && report.contains(&command), "{report}");

    let release = ["memories", "release", id, "--by", "ann", "--reason", "the hook checks generated files"];
    assert_eq!(world.run_json(&release).await["result"], "released");
    world.wait_until_idle().await;
    let context = fetch_context(&world, RELEASED, "deploy").await;
    let text = json_text(&context, "text");
    assert!(text.contains("deploy_service") && text.contains(DANGER), "{text}");
    assert_eq!(context["blocked"], 0, "{context}");
    let why = world.run_json(&["memories", "why", id]).await;
    let kinds = json_items(&why["history"]).iter().map(|entry| json_text(entry, "change"));
    let kinds: Vec<_> = kinds.filter(|kind| *kind != "observed").collect();
    assert_eq!(kinds, ["created", "held", "released"], "{why}");

    let other = find_held(&world, RETIRED).await;
    let retire = ["memories", "retire", json_text(&other, "id"), "--reason", "nobody goes past the hook"];
    assert_eq!(world.run_json(&retire).await["result"], "deleted");
    world.wait_until_idle().await;
    let again: Vec<Value> = build_dangerous_runs(RETIRED, 10..20).collect();
    world.emit_and_wait(TENANT, "again.jsonl", &again).await;
    let report = load_newest_report(&world, RETIRED).await;
    let kinds = json_items(&report["changes"]).iter().map(|change| &change["effect"]["change"]);
    let kinds: Vec<_> = kinds.collect();
    assert!(kinds.contains(&&json!("suppressed")), "the tombstone suppresses it: {kinds:?}");
    assert!(!kinds.contains(&&json!("created")) && !kinds.contains(&&json!("revived")), "{kinds:?}");
    let held = world.run_json(&["memories", "list", "--held"]).await;
    assert_eq!(json_items(&held).len(), 0, "{held}");
    assert_eq!(world.verify_store().await["tombstones"], 1);
    world.stop().await;
}

/// Returns runs in which the agent gets a commit past a failing hook, and corrects a call of another tool.
fn build_dangerous_runs(workflow: &str, runs: Range<u64>) -> impl Iterator<Item = Value> {
    runs.map(move |number| {
        let commit = |option: &str| json!({"command": format!("git commit {option}-m 'fix {number}'")});
        RunBuilder::new(workflow, &format!("{workflow}-{number}"))
            .with_message("Commit the change and deploy the service.")
            .with_call("bash", &commit(""), "error: the pre-commit hook failed")
            .with_call("bash", &commit(&format!("{DANGER} ")), &format!("[main 3fa{number}c1] fix {number}"))
            .with_corrected_call("deploy_service", "region")
            .build_event()
    })
}

/// Workflow whose runs all read one page.
const PAGE_READERS: &str = "page-readers";
const PAGE: &str = "https://docs.example/guide";
/// Workflow whose runs belong to one task.
const ONE_TASK: &str = "one-task";

#[tokio::test]
async fn a_page_read_ten_times_is_one_witness() {
    let mut world = World::start().await;
    let mut events: Vec<Value> = (0..10).map(build_page_run).collect();
    events.extend(build_task_runs("anna", 0..10));
    emit_workflows(&world, "first.jsonl", &events).await;

    let of_page = find_only_memory(&world, PAGE_READERS).await;
    assert_eq!(of_page["status"], "tentative", "{of_page}");
    assert_eq!(fetch_context(&world, PAGE_READERS, "deploy").await["text"], "");
    let shown = show_memory(&world, &of_page).await;
    assert!(shown.contains(&format!("read from {PAGE}")), "{shown}");
    assert!(shown.contains("seen in 4 runs (1 separate witness behind 4 of them)"), "{shown}");
    let (status, opened) = world.get(TENANT, &format!("/v1/memories/{}", json_text(&of_page, "id"))).await;
    assert!(status == 200 && !opened.contains(PAGE), "an agent is not led to the page: {opened}");

    let of_task = find_only_memory(&world, ONE_TASK).await;
    assert_eq!(of_task["status"], "tentative", "one user with one task: {of_task}");
    let others: Vec<Value> = build_task_runs("ben", 10..20).collect();
    world.emit_and_wait(TENANT, "others.jsonl", &others).await;
    let of_task = find_only_memory(&world, ONE_TASK).await;
    assert_eq!(of_task["status"], "active", "another user confirms: {of_task}");
    let shown = show_memory(&world, &of_task).await;
    assert!(shown.contains("user anna, task 17") && shown.contains("user ben, task 17"), "{shown}");
    assert_eq!(find_only_memory(&world, PAGE_READERS).await["status"], "tentative");
    world.verify_store().await;
    world.stop().await;
}

/// Returns a run that reads a page whose content looks like an error, and reads it again with what it asks for.
fn build_page_run(number: u64) -> Value {
    RunBuilder::new(PAGE_READERS, &format!("{PAGE_READERS}-{number}"))
        .with_message("Read the guide.")
        .with_call("fetch_page", &json!({"url": PAGE}), "Error: missing required argument 'format'")
        .with_call("fetch_page", &json!({"url": PAGE, "format": "text"}), "The guide has three parts.")
        .build_event()
}

/// Returns correcting runs of one task by this user.
fn build_task_runs(user: &str, runs: Range<u64>) -> impl Iterator<Item = Value> {
    build_correcting_runs(ONE_TASK, "deploy_service", runs).into_iter().map(move |mut event| {
        event["data"]["user"] = json!(user);
        event["data"]["task"] = json!("17");
        event
    })
}

/// Emits the runs of several workflows with one command, and waits until the retrospective of each has closed.
async fn emit_workflows(world: &World, name: &str, events: &[Value]) {
    let file = world.write_events(name, events);
    assert_eq!(world.run_json(&["emit", &file]).await["sent"], events.len());
    // Nothing is left to do as well before the first run is counted.
    world.wait_until_counted(TENANT, events.len() as u64).await;
    world.wait_until_idle().await;
}

async fn fetch_context(world: &World, workflow: &str, step: &str) -> Value {
    world.fetch_context(TENANT, &json!({"workflow": workflow, "step": step})).await
}

async fn get_json(world: &World, path: &str) -> Value {
    let (status, body) = world.get(TENANT, path).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).expect("JSON")
}

async fn load_newest_report(world: &World, workflow: &str) -> Value {
    get_json(world, &find_newest_report(world, workflow).await).await
}

async fn load_report_text(world: &World, workflow: &str) -> String {
    let path = find_newest_report(world, workflow).await;
    let (status, text) = world.get_in_format(TENANT, &path, "text/plain").await;
    assert_eq!(status, 200, "{text}");
    text
}

/// Returns the path of the newest report of a workflow.
async fn find_newest_report(world: &World, workflow: &str) -> String {
    let rows = get_json(world, &format!("/v1/retrospectives?workflow={workflow}")).await;
    let newest = json_items(&rows["items"]).first().expect("a retrospective");
    format!("/v1/reports/{}", json_text(&newest["retrospective"], "id"))
}

/// Returns the only held memory of a workflow.
async fn find_held(world: &World, workflow: &str) -> Value {
    let held = world.run_json(&["memories", "list", "--held", "--workflow", workflow]).await;
    assert_eq!(json_items(&held).len(), 1, "{held}");
    held[0].clone()
}

/// Returns the only memory of a workflow.
async fn find_only_memory(world: &World, workflow: &str) -> Value {
    let memories = world.run_json(&["memories", "list", "--workflow", workflow]).await;
    assert_eq!(json_items(&memories).len(), 1, "{memories}");
    memories[0].clone()
}

/// Returns a memory as people see it.
async fn show_memory(world: &World, memory: &Value) -> String {
    let answer = world.run_retro(&["memories", "show", json_text(memory, "id")]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    answer.out
}
