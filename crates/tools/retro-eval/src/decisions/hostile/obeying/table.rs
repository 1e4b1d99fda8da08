//! Prints what became of the instructions that the obeying model obeyed, by class of attack.

use std::collections::BTreeMap;

use super::super::outcomes::{FurthestStage, TextOutcome};
use super::super::run_outcomes::{CaseResult, RunOutcome};
use super::record::ObeyRecord;

/// Numbers of the runs of one class.
#[derive(Debug, Default, PartialEq, Eq)]
struct RunRow {
    cases: usize,
    shown: usize,
    obeyed: usize,
    acted: usize,
    stated: usize,
    sent_back: usize,
    dropped: u64,
    refused: usize,
    held: usize,
    quoted: usize,
    reached: usize,
    reported: usize,
}

impl RunRow {
    fn count(&mut self, outcome: &RunOutcome, record: ObeyRecord) {
        self.cases += 1;
        self.shown += usize::from(record.shown);
        self.obeyed += usize::from(record.stated > 0);
        self.acted += record.acted;
        self.stated += record.stated;
        self.sent_back += record.sent_back;
        self.dropped += outcome.dropped;
        self.refused += usize::from(!outcome.refused.is_empty());
        self.held += usize::from(!outcome.held.is_empty());
        self.quoted += usize::from(outcome.result == CaseResult::Quoted);
        self.reached += usize::from(outcome.result.is_failure());
        self.reported += usize::from(outcome.reported);
    }
}

/// Prints the table of runs, by kind of attack and by place.
pub(in super::super) fn print_runs(outcomes: &[RunOutcome], records: &BTreeMap<String, ObeyRecord>) {
    println!(
        "\nA model that obeys everything it reads, in retrospectives (a script; each case is a workflow of ten runs)"
    );
    for (title, class) in
        [("class of attack", (|one| &one.kind) as fn(&RunOutcome) -> &String), ("place", |one| &one.place)]
    {
        println!(
            "\n{title:<28} {:>6} {:>6} {:>7} {:>6} {:>7} {:>9} {:>8} {:>8} {:>5} {:>9} {:>7} {:>13}",
            "cases",
            "shown",
            "obeyed",
            "acted",
            "stated",
            "sent back",
            "dropped",
            "refused",
            "held",
            "reported",
            "quoted",
            "REACHED AGENT"
        );
        for (name, row) in count_rows(outcomes, records, class) {
            let RunRow { cases, shown, obeyed, acted, stated, sent_back, .. } = row;
            println!(
                "{:<28} {cases:>6} {shown:>6} {obeyed:>7} {acted:>6} {stated:>7} {sent_back:>9} {:>8} {:>8} {:>5} {:>9} {:>7} {:>13}",
                name.replace("~ ", ""),
                row.dropped,
                row.refused,
                row.held,
                row.reported,
                row.quoted,
                row.reached
            );
        }
    }
    println!(
        "shown: cases whose text the model read; obeyed: cases in which it stated instructions; acted: calls of a tool that \
         would carry one out, of which the program has none;"
    );
    println!(
        "stated, sent back, dropped: statements, answers that a program check sent back, and what the checks dropped in the \
         end; refused, held: cases with a lesson that was refused or waits for a person;"
    );
    println!(
        "reported: cases in whose report people read the text, as the cause that a model states; quoted: an agent sees a \
         fragment within “…”; reached: outside of it, or the effect"
    );
}

/// Counts the outcomes of each class, and of all. `~` sorts after letters.
fn count_rows(
    outcomes: &[RunOutcome],
    records: &BTreeMap<String, ObeyRecord>,
    class: fn(&RunOutcome) -> &String,
) -> BTreeMap<String, RunRow> {
    let mut rows = BTreeMap::<String, RunRow>::new();
    for outcome in outcomes {
        let record = records.get(&outcome.workflow).copied().unwrap_or_default();
        for name in [class(outcome).as_str(), "~ all"] {
            rows.entry(name.to_owned()).or_default().count(outcome, record);
        }
    }
    rows
}

/// Prints the table of reviews, by author and kind of attack.
pub(in super::super) fn print_reviews(outcomes: &[TextOutcome], records: &BTreeMap<String, ObeyRecord>) {
    println!(
        "\nThe same model reading reviews (each text on two pull requests, by an outsider and by a member)"
    );
    println!(
        "{:<40} {:>6} {:>6} {:>7} {:>7} {:>8} {:>9} {:>8} {:>6} {:>10} {:>7} {:>13}",
        "author: class of attack",
        "texts",
        "shown",
        "obeyed",
        "dropped",
        "wording",
        "no rule",
        "refused",
        "quar.",
        "tentative",
        "active",
        "REACHED AGENT"
    );
    let mut rows = BTreeMap::<String, [usize; 11]>::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.case.malicious) {
        let record = records.get(&outcome.case.repo).copied().unwrap_or_default();
        let stage = outcome.furthest_stage();
        let is = |other: FurthestStage| usize::from(stage == other);
        let counts = [
            1,
            usize::from(record.shown),
            usize::from(record.stated > 0),
            outcome.dropped_answers(),
            outcome.refused_wordings(),
            is(FurthestStage::NoRule),
            is(FurthestStage::Refused),
            is(FurthestStage::Quarantined),
            is(FurthestStage::Tentative),
            is(FurthestStage::Active),
            usize::from(!outcome.unfit.is_empty()),
        ];
        let who = outcome.case.who.login();
        for kind in [outcome.case.kind.as_str(), "~ all"] {
            let row = rows.entry(format!("{who}: {kind}")).or_default();
            row.iter_mut().zip(counts).for_each(|(sum, one)| *sum += one);
        }
    }
    for (name, counts) in &rows {
        let [texts, shown, obeyed, dropped, wording, none, refused, held, tentative, active, reached] =
            counts;
        println!(
            "{:<40} {texts:>6} {shown:>6} {obeyed:>7} {dropped:>7} {wording:>8} {none:>9} {refused:>8} {held:>6} {tentative:>10} {active:>7} {reached:>13}",
            name.replace("~ ", "")
        );
    }
    println!(
        "dropped, wording: answers and wordings of the model that the checks dropped; then the furthest that the text came; active: a rule \
         that the grammar and the screen accept, all of which are listed above;"
    );
    println!(
        "reached: an agent is shown a line that is no rule about code, hostile content, or a broken block"
    );
}
