//! Scores the functions of the gate on files of labelled lines, without an instance.
//!
//! A line is a text that a memory could show, with the command that the agent ran, if any. Its category is the
//! kind of danger that the line leads to, or `none`. Lines without a category are genuine: each one that the
//! gate would hold or refuse is listed.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use clap::Args;
use retro_gate::{Danger, find_dangers, screen_text};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decisions::eval_data::read_rows;

/// Category of a line that leads to no danger that is held by default.
const NO_DANGER: &str = "none";

/// Options of `cargo xtask eval gate`.
#[derive(Args)]
pub struct Options {
    /// Files with one JSON object per line: `category`, `tool`, `line` and `command`, of which all but the line
    /// are optional.
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    cases: Vec<PathBuf>,
    /// Also prints every missed danger and every false alarm, unless the output is JSON.
    #[arg(long)]
    mistakes: bool,
    /// Prints the figures as one JSON document instead of as tables.
    #[arg(long)]
    json: bool,
}

/// Row of a file.
#[derive(Debug, Deserialize)]
struct Row {
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    line: String,
    /// Command line, or the arguments of a call as JSON.
    #[serde(default)]
    command: Value,
}

/// Expected result of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// The line leads to this danger.
    Danger(Danger),
    /// The line leads to no danger that is held by default.
    Nothing,
    /// The line has no label, and is genuine.
    Unlabelled,
}

/// A line with the gate's result.
#[derive(Debug)]
struct GatedLine {
    expected: Expected,
    /// Tool, line and command, for people.
    shown: String,
    /// Dangers of the line and of the command, each with its excerpt.
    found: BTreeMap<Danger, String>,
    /// Codes of the reasons for which the line is hostile; empty if it is not.
    hostile: Vec<&'static str>,
}

/// Figures of the evaluation.
#[derive(Debug, Default, Serialize)]
struct Report {
    categories: BTreeMap<String, Recall>,
    /// Lines without a danger that is held by default, labelled as such.
    harmless: usize,
    false_alarms: usize,
    /// Hostile lines among the labelled ones, whatever their category.
    labelled_hostile: usize,
    unlabelled: usize,
    unlabelled_held: usize,
    unlabelled_hostile: usize,
    /// Median time of `find_dangers` per text, in nanoseconds.
    dangers_ns: u128,
    /// Median time of `screen_text` per text, in nanoseconds.
    screen_ns: u128,
}

/// Numbers of lines of one category.
#[derive(Debug, Default, Serialize)]
struct Recall {
    lines: usize,
    /// Lines for which the danger of the category was found.
    found: usize,
    /// Lines for which any danger was found that is held by default.
    held: usize,
}

/// Scores all files together. Fails if a row has an unknown category or no text.
pub(super) fn run(options: &Options) -> Result<()> {
    let mut lines = Vec::new();
    let mut times = (Vec::new(), Vec::new());
    // The first call compiles the patterns, which must not count as the time of a text.
    black_box((find_dangers("warm up"), screen_text("warm up").is_hostile()));
    for file in &options.cases {
        for (nth, row) in read_rows::<Row>(file)?.into_iter().enumerate() {
            ensure!(
                !row.line.is_empty() || !row.command.is_null(),
                "{}:{}: no text",
                file.display(),
                nth + 1
            );
            let Some(expected) = parse_category(row.category.as_deref()) else {
                bail!("{}:{}: unknown category {:?}", file.display(), nth + 1, row.category);
            };
            lines.push(gate_row(&row, expected, &mut times));
        }
    }
    let mut report = score_lines(&lines);
    (report.dangers_ns, report.screen_ns) = (median(times.0), median(times.1));
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    print_report(&report);
    print_unlabelled(&lines);
    if options.mistakes {
        print_mistakes(&lines);
    }
    Ok(())
}

/// Parses a category; `None` if it is unknown.
fn parse_category(category: Option<&str>) -> Option<Expected> {
    let Some(category) = category else { return Some(Expected::Unlabelled) };
    let name = category.trim().to_ascii_lowercase().replace('_', "-");
    if name == NO_DANGER {
        return Some(Expected::Nothing);
    }
    Danger::ALL.iter().find(|danger| danger.as_str() == name).map(|danger| Expected::Danger(*danger))
}

/// Applies the gate to a row, and adds the times of its texts in nanoseconds.
fn gate_row(row: &Row, expected: Expected, times: &mut (Vec<u128>, Vec<u128>)) -> GatedLine {
    let command = match &row.command {
        Value::Null => String::new(),
        Value::String(command) => command.clone(),
        arguments => arguments.to_string(),
    };
    let texts = [row.line.as_str(), command.as_str()].into_iter().filter(|text| !text.is_empty());
    let mut found = BTreeMap::new();
    let mut hostile = Vec::new();
    for text in texts.clone() {
        let began = Instant::now();
        let signs = find_dangers(black_box(text));
        times.0.push(began.elapsed().as_nanos());
        for sign in signs {
            found.entry(sign.danger).or_insert(sign.excerpt);
        }
    }
    // Only the line is shown to agents, so only the line is screened.
    if !row.line.is_empty() {
        let began = Instant::now();
        let screening = screen_text(black_box(&row.line));
        times.1.push(began.elapsed().as_nanos());
        hostile.extend(screening.reasons().iter().map(|reason| reason.code.as_str()));
        hostile.dedup();
    }
    let tool = row.tool.iter().map(|tool| format!("[{tool}]"));
    let shown = tool.chain(texts.map(|text| format!("{text:?}"))).collect::<Vec<_>>().join(" ");
    GatedLine { expected, shown, found, hostile }
}

impl GatedLine {
    /// Returns `true` if the default policy holds the line for a person.
    fn is_held(&self) -> bool {
        self.found.keys().any(|danger| Danger::HELD_BY_DEFAULT.contains(danger))
    }

    /// Returns `true` if the line must not be held but is.
    fn is_false_alarm(&self) -> bool {
        let harmless = match self.expected {
            Expected::Danger(danger) => !Danger::HELD_BY_DEFAULT.contains(&danger),
            Expected::Nothing => true,
            Expected::Unlabelled => false,
        };
        harmless && self.is_held()
    }

    fn describe_found(&self) -> String {
        let dangers = self.found.iter().map(|(danger, excerpt)| format!("{} ({excerpt})", danger.as_str()));
        let hostile = self.hostile.iter().map(|code| format!("hostile: {code}"));
        let found: Vec<_> = dangers.chain(hostile).collect();
        if found.is_empty() { "nothing".to_owned() } else { found.join(", ") }
    }
}

fn score_lines(lines: &[GatedLine]) -> Report {
    let mut report = Report::default();
    for line in lines {
        let (held, hostile) = (line.is_held(), !line.hostile.is_empty());
        match line.expected {
            Expected::Unlabelled => {
                report.unlabelled += 1;
                report.unlabelled_held += usize::from(held);
                report.unlabelled_hostile += usize::from(hostile);
                continue;
            }
            Expected::Danger(danger) => {
                let recall = report.categories.entry(danger.as_str().to_owned()).or_default();
                recall.lines += 1;
                recall.found += usize::from(line.found.contains_key(&danger));
                recall.held += usize::from(held);
                report.harmless += usize::from(!Danger::HELD_BY_DEFAULT.contains(&danger));
            }
            Expected::Nothing => report.harmless += 1,
        }
        report.labelled_hostile += usize::from(hostile);
        report.false_alarms += usize::from(line.is_false_alarm());
    }
    report
}

fn median(mut times: Vec<u128>) -> u128 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn print_report(report: &Report) {
    println!("{:<20} {:>6} {:>6} {:>7} {:>6} {:>7}", "category", "lines", "found", "recall", "held", "share");
    for (name, recall) in &report.categories {
        println!(
            "{name:<20} {:>6} {:>6} {:>7.3} {:>6} {:>7.3}",
            recall.lines,
            recall.found,
            share(recall.found, recall.lines),
            recall.held,
            share(recall.held, recall.lines)
        );
    }
    let alarms = share(report.false_alarms, report.harmless);
    println!("false alarms: {} of {} harmless lines ({alarms:.3})", report.false_alarms, report.harmless);
    println!("labelled lines that the screen flags: {}", report.labelled_hostile);
    println!(
        "genuine lines: {}, held {} ({:.3}), hostile {} ({:.3})",
        report.unlabelled,
        report.unlabelled_held,
        share(report.unlabelled_held, report.unlabelled),
        report.unlabelled_hostile,
        share(report.unlabelled_hostile, report.unlabelled)
    );
    println!("median time per text: dangers {} ns, screen {} ns", report.dangers_ns, report.screen_ns);
}

/// Prints the lines without a label that an agent would not be handed.
fn print_unlabelled(lines: &[GatedLine]) {
    let blocked = |line: &&GatedLine| {
        line.expected == Expected::Unlabelled && (line.is_held() || !line.hostile.is_empty())
    };
    for line in lines.iter().filter(blocked) {
        println!("blocked: {}\n  found: {}", line.shown, line.describe_found());
    }
}

fn print_mistakes(lines: &[GatedLine]) {
    for line in lines {
        if let Expected::Danger(danger) = line.expected
            && !line.found.contains_key(&danger)
        {
            println!("missed {}: {}\n  found: {}", danger.as_str(), line.shown, line.describe_found());
        }
        if line.is_false_alarm() {
            println!("false alarm: {}\n  found: {}", line.shown, line.describe_found());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(expected: Expected, found: &[Danger], hostile: &[&'static str]) -> GatedLine {
        let found = found.iter().map(|danger| (*danger, "an excerpt".to_owned())).collect();
        GatedLine { expected, shown: "a line".to_owned(), found, hostile: hostile.to_vec() }
    }

    #[test]
    fn categories_are_dangers_or_none() {
        assert_eq!(parse_category(None), Some(Expected::Unlabelled));
        assert_eq!(parse_category(Some("none")), Some(Expected::Nothing));
        for name in ["remote-content", "remote_content", " Remote-Content"] {
            assert_eq!(parse_category(Some(name)), Some(Expected::Danger(Danger::RemoteContent)), "{name}");
        }
        assert_eq!(parse_category(Some("danger")), None);
    }

    #[test]
    fn recall_and_false_alarms_are_counted_by_category() {
        let lines = [
            line(Expected::Danger(Danger::SecretKept), &[Danger::SecretKept], &[]),
            line(Expected::Danger(Danger::SecretKept), &[Danger::ChecksOff], &["asks-for-secrets"]),
            line(Expected::Danger(Danger::Force), &[Danger::Force], &[]),
            line(Expected::Danger(Danger::Force), &[Danger::Force, Danger::ChecksOff], &[]),
            line(Expected::Nothing, &[Danger::PackageInstall], &[]),
            line(Expected::Nothing, &[Danger::RemoteContent], &[]),
            line(Expected::Unlabelled, &[Danger::RemoteContent], &["off-topic"]),
        ];
        let report = score_lines(&lines);
        let secrets = &report.categories["secret-kept"];
        assert_eq!((secrets.lines, secrets.found, secrets.held), (2, 1, 2));
        assert_eq!((report.harmless, report.false_alarms, report.labelled_hostile), (4, 2, 1));
        assert_eq!((report.unlabelled, report.unlabelled_held, report.unlabelled_hostile), (1, 1, 1));
    }

    #[test]
    fn a_row_may_have_only_a_line_and_its_command_may_be_json() {
        let row: Row =
            serde_json::from_str(r#"{"tool": "fetch", "line": "Look at it.", "command": {"a": 1}}"#).unwrap();
        let mut times = (Vec::new(), Vec::new());
        let gated = gate_row(&row, Expected::Unlabelled, &mut times);
        assert_eq!(gated.shown, r#"[fetch] "Look at it." "{\"a\":1}""#);
        assert_eq!((times.0.len(), times.1.len()), (2, 1));
        let bare: Row = serde_json::from_str(r#"{"line": "Look at it."}"#).unwrap();
        assert!(bare.category.is_none() && bare.command.is_null());
        assert_eq!((median(vec![3, 1, 2]), median(Vec::new())), (2, 0));
    }
}
