//! Investigates the runs in a file with the heuristics and prints each lesson with the number of distinct
//! runs that show it.
//!
//! The file has one JSON object per line: `run_id` and `steps`, each with `role`, `text`, `thought`, `tool`,
//! `input` and `output`. `--each` also prints every finding. Labels in the file are ignored.
//!
//! `cargo run -p retro-investigator --example look -- RUNS.jsonl [--each] [--top N]`
#![expect(clippy::print_stdout, reason = "the example prints its results to a terminal")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use retro_core::finding::{Finding, InvestigationBrief, InvestigatorAnswer, check_answer};
use retro_core::id::{RunId, Step};
use retro_core::run::{RunFacts, RunKind, RunMemories, RunOutcome};
use retro_core::trajectory::{ToolCall, Turn, TurnSource};
use retro_investigator::heuristics::investigate_run;
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let path = args.first().ok_or("which file of runs?")?;
    let each = args.iter().any(|arg| arg == "--each");
    let top = args
        .iter()
        .position(|arg| arg == "--top")
        .and_then(|at| args.get(at + 1)?.parse().ok())
        .unwrap_or(20);
    let (mut runs, mut with_findings, mut dropped) = (0, 0, 0);
    let mut lessons: BTreeMap<String, (BTreeSet<String>, Finding)> = BTreeMap::new();
    for line in std::fs::read_to_string(path)?.lines() {
        let brief = build_brief(&serde_json::from_str(line)?)?;
        let InvestigatorAnswer::Answered(looked) = investigate_run(&brief) else { continue };
        let findings = looked.findings.clone();
        dropped += check_answer(&brief, looked).dropped;
        runs += 1;
        with_findings += usize::from(!findings.is_empty());
        for finding in findings {
            let run = brief.run.run_id.as_str();
            if each {
                println!("{run}  {:?}  {}\n    “{}”", finding.kind, finding.title, finding.quote.text);
            }
            let signature = finding.cue.signature().unwrap_or_else(|| finding.title.clone());
            lessons.entry(signature).or_insert_with(|| (BTreeSet::new(), finding)).0.insert(run.to_owned());
        }
    }
    println!(
        "{runs} runs, {with_findings} with findings, {} lessons, {dropped} dropped by the core",
        lessons.len()
    );
    let mut lessons: Vec<_> = lessons.into_values().collect();
    lessons.sort_by_key(|(runs, _)| std::cmp::Reverse(runs.len()));
    println!(
        "{} lessons shown by two runs or more",
        lessons.iter().filter(|(runs, _)| runs.len() > 1).count()
    );
    for (runs, finding) in lessons.iter().take(top) {
        println!("{:>4}  {:?}  [{}]  {}", runs.len(), finding.kind, finding.subject, finding.title);
    }
    Ok(())
}

fn build_brief(run: &Value) -> Result<InvestigationBrief, Box<dyn Error>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut turns: Vec<Turn> = Vec::new();
    for step in run["steps"].as_array().ok_or("a run without steps")? {
        let role = text(&step["role"]);
        match role.as_str() {
            "tool_result" => {
                let call = turns
                    .last_mut()
                    .and_then(|turn| turn.calls.last_mut())
                    .ok_or("a result without a call")?;
                call.answer = Some(text(&step["output"]));
            }
            "tool" | "tool_call" => {
                let answer = (role == "tool").then(|| text(&step["output"]));
                let call = ToolCall {
                    tool: text(&step["tool"]),
                    arguments: text(&step["input"]),
                    answer,
                    failed: None,
                };
                turns.push(Turn {
                    reasoning: text(&step["thought"]),
                    calls: vec![call],
                    ..message_turn(TurnSource::Agent, "")
                });
            }
            "user" => turns.push(message_turn(TurnSource::User, &text(&step["text"]))),
            _ => turns.push(message_turn(TurnSource::Agent, &text(&step["text"]))),
        }
    }
    let run = RunFacts {
        run_id: RunId::new(text(&run["run_id"]))?,
        attempt: 1,
        kind: RunKind::Normal,
        outcome: RunOutcome::Success,
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
    Ok(InvestigationBrief {
        run,
        trajectory: turns.into(),
        memories: Vec::new(),
        earlier: Vec::new(),
        focus: None,
    })
}

fn message_turn(source: TurnSource, message: &str) -> Turn {
    let agentic = source == TurnSource::Agent;
    Turn {
        at: None,
        step: Step::main(),
        entry: None,
        agentic,
        source,
        message: message.to_owned(),
        reasoning: String::new(),
        calls: Vec::new(),
    }
}
