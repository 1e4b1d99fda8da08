//! Prints what a language model was asked, what it found beside the heuristics, and what became of it.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use retro_eval::instance::Instance;
use serde_json::Value;

use super::learnt::Learnt;

/// Maximum number of memories whose history is shown, new ones first.
const HISTORIES_MAX: usize = 2;
/// Heading of the report's section about the investigations.
const SECTION: &str = "## Investigations";

/// Prints the results.
pub(super) async fn show_results(retro: &Instance, alone: &Learnt, both: &Learnt) -> Result<()> {
    println!("1. What the model was asked\n");
    println!("   The tokens are estimates of the recorder, at the prices of a small model.");
    both.reports.iter().for_each(print_use);
    println!("\n2. What it found that the heuristics did not\n");
    let known = finding_titles(alone);
    print_all(&both.reports, |investigation| new_findings(investigation, &known));
    println!("\n   What it refuted of what the heuristics found:\n");
    print_all(&both.reports, refutations);
    println!("\n3. What the checks dropped\n");
    print_all(&both.reports, |investigation| {
        let dropped = investigation["dropped"].as_u64().unwrap_or_default();
        if dropped == 0 {
            Vec::new()
        } else {
            vec![format!("{dropped} statements that the run does not show")]
        }
    });
    println!("\n4. The section of the report about the investigations (retro reports show … --markdown)\n");
    for report in &both.reports {
        let id = report["id"].as_str().context("a report without an id")?;
        let text = retro.run_text(&["reports", "show", id, "--markdown"]).await?;
        println!("{}\n", section_of(&text));
    }
    show_memories(retro, alone, both).await
}

fn print_use(report: &Value) {
    let total = &report["total"];
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    println!(
        "   runs {} to {}: {} calls, {} tokens of prompts ({} of them cached) and {} of answers, ${:.4}",
        report["first"],
        report["last"],
        count(&total["model_calls"]),
        count(&total["tokens"]["input_tokens"]),
        count(&total["tokens"]["cached_tokens"]),
        count(&total["tokens"]["output_tokens"]),
        total["cost_usd"].as_f64().unwrap_or_default()
    );
}

fn investigations(report: &Value) -> impl Iterator<Item = &Value> {
    report["investigations"].as_array().into_iter().flatten()
}

/// Returns every finding as its run with its title.
fn finding_titles(learnt: &Learnt) -> BTreeSet<(String, String)> {
    let all = learnt.reports.iter().flat_map(investigations);
    all.flat_map(|one| {
        let run = one["run"].as_str().unwrap_or_default().to_owned();
        let titles = one["findings"].as_array().into_iter().flatten().map(|finding| &finding["title"]);
        titles.map(move |title| (run.clone(), title.as_str().unwrap_or_default().to_owned()))
    })
    .collect()
}

fn new_findings(investigation: &Value, known: &BTreeSet<(String, String)>) -> Vec<String> {
    let run = investigation["run"].as_str().unwrap_or_default();
    let findings = investigation["findings"].as_array().into_iter().flatten();
    let titles = findings.map(|finding| finding["title"].as_str().unwrap_or_default().to_owned());
    let mut lines: Vec<String> =
        titles.filter(|title| !known.contains(&(run.to_owned(), title.clone()))).collect();
    let causes = investigation["causes"].as_array().into_iter().flatten();
    lines.extend(
        causes.map(|cause| format!("cause, for people: {}", cause["text"].as_str().unwrap_or_default())),
    );
    lines
}

fn refutations(investigation: &Value) -> Vec<String> {
    let all = investigation["refutations"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.map(|one| {
        let (finding, reason, quote) = (&one["finding"], &one["reason"], &one["quote"]["text"]);
        format!("{} ({}: “{}”)", text(finding), text(reason), text(quote))
    })
    .collect()
}

/// Prints lines about each investigation, and says if there are none.
fn print_all(reports: &[Value], lines_of: impl Fn(&Value) -> Vec<String>) {
    let mut printed = 0;
    for investigation in reports.iter().flat_map(investigations) {
        for line in lines_of(investigation) {
            println!("   run {}: {line}", investigation["run"].as_str().unwrap_or_default());
            printed += 1;
        }
    }
    if printed == 0 {
        println!("   nothing");
    }
}

fn section_of(markdown: &str) -> &str {
    let Some(at) = markdown.find(SECTION) else { return "" };
    let section = &markdown[at..];
    let end = section[SECTION.len()..].find("\n## ").map_or(section.len(), |end| end + SECTION.len());
    section[..end].trim_end()
}

async fn show_memories(retro: &Instance, alone: &Learnt, both: &Learnt) -> Result<()> {
    println!("5. Memories, and which version of pipeline and prompts made them\n");
    let title = |memory: &Value| memory["lesson"]["title"].as_str().unwrap_or_default().to_owned();
    let titles = |learnt: &Learnt| learnt.memories.iter().map(title).collect::<BTreeSet<String>>();
    let (by_heuristics, by_both) = (titles(alone), titles(both));
    let print = |mark: &str, memory: &Value| {
        println!("   {mark} {:<9} {}", memory["status"].as_str().unwrap_or_default(), title(memory));
    };
    for memory in &both.memories {
        print(if by_heuristics.contains(&title(memory)) { " " } else { "+" }, memory);
    }
    let prevented = alone.memories.iter().filter(|memory| !by_both.contains(&title(memory)));
    prevented.for_each(|memory| print("-", memory));
    println!("   + the heuristics alone did not learn it; - they did, and the model objected\n");
    let is_new = |memory: &&Value| !by_heuristics.contains(&title(memory));
    let new = both.memories.iter().filter(is_new);
    let active = both.memories.iter().filter(|memory| memory["status"] == "active" && !is_new(memory));
    for memory in new.chain(active).take(HISTORIES_MAX) {
        let id = memory["id"].as_str().context("a memory without an id")?;
        println!("$ retro memories why {id}");
        retro.run_command(&["memories", "why", id]).await?;
        println!();
    }
    println!("$ retro pipeline versions");
    retro.run_command(&["pipeline", "versions"]).await
}

/// Returns `true` if a prompt of a retrospective had no cassette.
pub(super) fn has_missed_cassette(report: &Value) -> bool {
    investigations(report)
        .any(|one| one["model_note"].as_str().is_some_and(|note| note.contains("no cassette")))
}
