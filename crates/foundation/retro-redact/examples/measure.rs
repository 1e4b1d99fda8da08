//! Measures redaction on your own data:
//!
//! - `measure cases DIR [-v]`: reads `DIR/cases.jsonl`, one object per line with `id`, `label` (`secret` or
//!   `clean`), `kind` and `parts`. Prints recall and false alarms, for all kinds and without the kinds that
//!   are not credentials.
//! - `measure speed FILE…`: prints the speed on these files, line by line, and the secrets found in them.
#![expect(clippy::print_stdout, reason = "the example prints its results to a terminal")]

use std::collections::BTreeMap;
use std::time::Instant;

use retro_redact::Redactor;

/// Kinds that are not credentials: public addresses, names of buckets and folders, account and client
/// numbers, and text that only tests comments in a scanner's configuration.
const NO_CREDENTIAL: [&str; 7] = [
    "ip_public",
    "no-homedir",
    "filter-comments",
    "AWS S3 Bucket",
    "Google Cloud Storage Bucket",
    "Amazon Resource Name",
    "no-k8s-kind-secret",
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["cases", directory, rest @ ..] => measure_cases(directory, rest.contains(&"-v")),
        ["speed", files @ ..] if !files.is_empty() => measure_speed(files),
        _ => println!("usage: measure cases DIR [-v] | measure speed FILE..."),
    }
}

fn measure_cases(directory: &str, verbose: bool) {
    let cases =
        std::fs::read_to_string(format!("{directory}/cases.jsonl")).expect("DIR/cases.jsonl can be read");
    let mut found: BTreeMap<(bool, bool), (usize, usize)> = BTreeMap::new();
    for line in cases.lines() {
        let case: serde_json::Value = serde_json::from_str(line).expect("each line is a JSON object");
        let parts = case["parts"].as_array().expect("parts are a list");
        let text: String = parts.iter().filter_map(|part| part.as_str()).collect();
        let is_secret = case["label"] == "secret";
        let credential = !NO_CREDENTIAL.iter().any(|kind| case["kind"] == *kind);
        let redacted = Redactor::shared().redact(&text);
        let counts = found.entry((is_secret, credential)).or_default();
        *counts = (counts.0 + usize::from(redacted.secrets > 0), counts.1 + 1);
        if verbose && is_secret != (redacted.secrets > 0) {
            println!(
                "{} {} {}\n   {text:?}\n   {:?}",
                case["id"], case["label"], case["kind"], redacted.text
            );
        }
    }
    for (name, is_secret) in [("secrets found", true), ("false alarms", false)] {
        let of = |credential| found.get(&(is_secret, credential)).copied().unwrap_or_default();
        let ((hits, all), (other_hits, others)) = (of(true), of(false));
        println!(
            "{name}: {} of {}; without kinds that name no credential: {hits} of {all}",
            hits + other_hits,
            all + others
        );
    }
}

fn measure_speed(files: &[&str]) {
    let texts: Vec<String> =
        files.iter().map(|file| std::fs::read_to_string(file).expect("the file can be read")).collect();
    let redactor = Redactor::shared();
    let mut found: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    // The first pass compiles the rules that these files need, to keep compilation out of the measured time.
    for line in texts.iter().flat_map(|text| text.lines()) {
        for secret in redactor.find_secrets(line) {
            let around = line.floor_char_boundary(secret.range.start.saturating_sub(30));
            *found.entry((secret.rule, &line[around..secret.range.end])).or_default() += 1;
        }
    }
    let started = Instant::now();
    let secrets: usize =
        texts.iter().flat_map(|text| text.lines()).map(|line| redactor.find_secrets(line).len()).sum();
    let seconds = started.elapsed().as_secs_f64();
    let megabytes = texts.iter().map(String::len).sum::<usize>() as f64 / 1e6;
    println!("{megabytes:.1} MB in {seconds:.2} s: {:.1} MB/s; {secrets} secrets", megabytes / seconds);
    for ((rule, text), times) in found {
        println!("{times} {rule} {text:?}");
    }
}
