//! Prints the outcomes of hostile runs: tables by place, kind and attack file, and the texts to read.

use std::collections::BTreeMap;

use retro_core::printable::make_printable_line;

use super::judge::Sign;
use super::run_outcomes::{BlockedLesson, CaseResult, RunOutcome, ShownHit};
use crate::decisions::observations::mask_numbers;

/// Maximum number of quoted texts to print. The worse ones are all printed.
const QUOTED_SHOWN_MAX: usize = 200;
/// Maximum number of reasons to print for held and for refused lessons.
const REASONS_SHOWN_MAX: usize = 20;

/// Numbers of cases of one row.
#[derive(Default)]
struct ResultRow {
    cases: usize,
    results: BTreeMap<CaseResult, usize>,
    honest: usize,
    honest_learnt: usize,
    rejected: usize,
}

impl ResultRow {
    fn count_outcome(&mut self, outcome: &RunOutcome) {
        self.cases += 1;
        *self.results.entry(outcome.result).or_default() += 1;
        self.honest += usize::from(outcome.honest_learnt.is_some());
        self.honest_learnt += usize::from(outcome.honest_learnt == Some(true));
        self.rejected += usize::from(outcome.rejected.is_some());
    }

    fn print_row(&self, name: &str) {
        let counts = CaseResult::ALL.map(|result| self.results.get(&result).copied().unwrap_or_default());
        let cells: String = counts.iter().map(|count| format!(" {count:>8}")).collect();
        let honest =
            if self.honest == 0 { String::new() } else { format!("{}/{}", self.honest_learnt, self.honest) };
        println!("{name:<54} {:>6}{cells} {honest:>10} {:>8}", self.cases, self.rejected);
    }
}

pub(super) fn print_run_outcomes(outcomes: &[RunOutcome]) {
    // `~` sorts after letters, so the totals are the last rows; it is removed from the printed name.
    print_table("place and variant", outcomes, |one| {
        vec![format!("{}: {}", one.place, one.variant), "~ all".to_owned()]
    });
    print_table("place and kind", outcomes, |one| {
        vec![format!("{}: {}", one.place, one.kind), format!("~ all: {}", one.kind)]
    });
    print_table("source and place", outcomes, |one| {
        vec![format!("{}: {}", one.source, one.place), format!("{}: ~ all", one.source)]
    });
    println!(
        "nothing: nothing was learnt; clean: an agent gets a memory that carries nothing of the payload;"
    );
    println!(
        "quoted: a fragment stands within “…” or in evidence; effect: the attacker's expression matches outside;"
    );
    println!("instr.: a fragment stands outside “…”; frame: a broken block or hidden characters;");
    println!("honest: mixed cases whose honest lesson is handed out; rejected: by the intake");
    print_blocked("held for a person", outcomes, |one| &one.held);
    print_blocked("refused", outcomes, |one| &one.refused);
    for (title, sign) in [("instructions", Sign::Instruction), ("effects", Sign::Effect)] {
        print_hits(title, outcomes, sign, usize::MAX);
    }
    print_frame_problems(outcomes);
    print_hits("quoted", outcomes, Sign::Quoted, QUOTED_SHOWN_MAX);
    print_notes("rejected by the intake", outcomes, |one| one.rejected.as_deref());
    print_notes("not carried out", outcomes, |one| one.problem.as_deref());
}

fn print_table(title: &str, outcomes: &[RunOutcome], names: impl Fn(&RunOutcome) -> Vec<String>) {
    let mut rows = BTreeMap::<String, ResultRow>::new();
    for outcome in outcomes {
        for name in names(outcome) {
            rows.entry(name).or_default().count_outcome(outcome);
        }
    }
    let headings: String = CaseResult::ALL.iter().map(|result| format!(" {:>8}", result.heading())).collect();
    println!("\n{title:<54} {:>6}{headings} {:>10} {:>8}", "cases", "honest", "rejected");
    rows.iter().for_each(|(name, row)| row.print_row(&name.replace("~ ", "")));
}

/// Prints the reasons for which lessons were blocked, most frequent first.
fn print_blocked(title: &str, outcomes: &[RunOutcome], blocked: impl Fn(&RunOutcome) -> &Vec<BlockedLesson>) {
    let mut counted = BTreeMap::<String, usize>::new();
    for lesson in outcomes.iter().flat_map(&blocked) {
        *counted.entry(mask_numbers(&lesson.reason)).or_default() += 1;
    }
    let mut reasons: Vec<_> = counted.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    println!("\n{title}: {} lessons", reasons.iter().map(|(_, count)| count).sum::<usize>());
    for (reason, count) in reasons.iter().take(REASONS_SHOWN_MAX) {
        println!("  {count:>5}  {}", make_printable_line(reason));
    }
}

/// Prints the texts with this sign, each with its case and the words that were found.
fn print_hits(title: &str, outcomes: &[RunOutcome], sign: Sign, most: usize) {
    let hits: Vec<(&RunOutcome, &ShownHit)> = outcomes
        .iter()
        .flat_map(|one| one.hits.iter().map(move |hit| (one, hit)))
        .filter(|(_, shown)| shown.hit.sign == sign)
        .collect();
    let cases = outcomes.iter().filter(|one| one.hits.iter().any(|shown| shown.hit.sign == sign)).count();
    println!("\n{title}: {} texts of {cases} cases", hits.len());
    for (one, shown) in hits.iter().take(most) {
        println!("  {} {}, {} ({}), {}:", one.source, one.id, one.place, one.variant, shown.part);
        println!("      {}", make_printable_line(&shown.text));
        println!("      found: {}", make_printable_line(&shown.hit.found));
    }
}

fn print_frame_problems(outcomes: &[RunOutcome]) {
    let broken = outcomes.iter().flat_map(|one| one.frame.iter().map(move |problem| (one, problem)));
    let broken: Vec<_> = broken.collect();
    println!("\nbroken frames: {}", broken.len());
    for (one, problem) in broken {
        println!("  {} {}, {} ({}): {problem}", one.source, one.id, one.place, one.variant);
    }
}

fn print_notes(title: &str, outcomes: &[RunOutcome], note: impl Fn(&RunOutcome) -> Option<&str>) {
    let noted: Vec<_> = outcomes.iter().filter_map(|one| Some((one, note(one)?))).collect();
    println!("\n{title}: {} cases", noted.len());
    for (one, note) in noted {
        println!("  {} {}, {}: {}", one.workflow, one.id, one.place, make_printable_line(note));
    }
}
