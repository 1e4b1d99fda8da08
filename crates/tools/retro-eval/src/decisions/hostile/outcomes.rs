//! Records the outcomes of the posted texts and prints them as tables.

use std::collections::BTreeMap;

use retro_core::memory::{Memory, MemoryStatus};
use retro_core::policy::Policy;
use retro_core::review::{ReadingKind, ReportedRemark, ReviewReading, ReviewReport};
use retro_gate::Code;
use serde::Serialize;

use super::cases::Case;

/// A rule as an agent sees it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ShownRule {
    /// Line of the rule in the agent's prompt.
    pub(super) title: String,
    /// Text that the agent reads on opening the rule.
    pub(super) opened: String,
}

/// Outcome of one posted text.
#[derive(Debug, Serialize)]
pub(super) struct TextOutcome {
    pub(super) case: Case,
    /// Decision about the last comment with this text.
    remark: ReportedRemark,
    /// How the last comment was read.
    reading: Option<ReviewReading>,
    /// Rules of the repository to which the text was posted.
    pub(super) rules: Vec<Memory>,
    pub(super) shown: Vec<ShownRule>,
    pub(super) shown_when_promoted: Vec<ShownRule>,
    /// Number of active rules that were blocked from the agent's context.
    pub(super) blocked: u64,
    /// Forbidden texts that were shown to the agent.
    pub(super) unfit: Vec<String>,
}

/// Furthest stage that a text reached on its way to an active rule. The variants are ordered by stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FurthestStage {
    NoRule,
    Refused,
    Quarantined,
    Tentative,
    Active,
}

impl TextOutcome {
    /// Creates the outcome of a text by the report about it. Returns `None` if the report has no remark.
    pub(super) fn from_report(case: Case, mut report: ReviewReport, rules: Vec<Memory>) -> Option<Self> {
        Some(Self {
            case,
            remark: report.remarks.pop()?,
            reading: report.reading,
            rules,
            shown: Vec::new(),
            shown_when_promoted: Vec::new(),
            blocked: 0,
            unfit: Vec::new(),
        })
    }

    /// Returns `true` if the text reads like a rule with enough certainty, so only its wording can keep it
    /// from becoming one.
    fn reads_like_rule(&self) -> bool {
        let asks = matches!(self.remark.kind, ReadingKind::Rule | ReadingKind::OneOff);
        asks && self.remark.title.is_some() && self.remark.certainty >= Policy::default().rule_certainty_min
    }

    /// Returns the number of answers of a language model about the text that were dropped.
    pub(super) fn dropped_answers(&self) -> usize {
        self.reading.as_ref().map_or(0, |reading| reading.dropped as usize)
    }

    /// Returns the number of wordings of a language model that were refused.
    pub(super) fn refused_wordings(&self) -> usize {
        self.reading.as_ref().map_or(0, |reading| reading.refused_wordings as usize)
    }

    pub(super) fn furthest_stage(&self) -> FurthestStage {
        let of = |rule: &Memory| match (rule.status, &rule.quarantine) {
            (MemoryStatus::Active, _) => FurthestStage::Active,
            (_, Some(_)) => FurthestStage::Quarantined,
            (_, None) => FurthestStage::Tentative,
        };
        let held = if self.reads_like_rule() { FurthestStage::Refused } else { FurthestStage::NoRule };
        self.rules.iter().map(of).max().unwrap_or(held)
    }

    /// Returns the reasons for which a text that reads like a rule is not active: the grammar's reason, or
    /// the codes of the screen.
    fn rejection_reasons(&self) -> Vec<String> {
        if let Some(problem) = &self.remark.screening.not_a_rule {
            return vec![format!("grammar: {problem}")];
        }
        let code = |description: &String| {
            let known = Code::ALL.iter().find(|code| code.description() == description);
            format!("screen: {}", known.map_or(description.as_str(), |code| code.as_str()))
        };
        let codes: Vec<_> = self.remark.screening.hostile.iter().map(code).collect();
        if codes.is_empty() { vec!["the author has no standing".to_owned()] } else { codes }
    }
}

/// Numbers of texts with one label, author and kind.
#[derive(Default)]
struct OutcomeRow {
    posted: usize,
    came: BTreeMap<FurthestStage, usize>,
    screened: usize,
    shown: usize,
    promoted: usize,
    blocked: usize,
}

impl OutcomeRow {
    fn count_outcome(&mut self, fate: &TextOutcome) {
        self.posted += 1;
        *self.came.entry(fate.furthest_stage()).or_default() += 1;
        self.screened += usize::from(!fate.remark.screening.hostile.is_empty());
        self.shown += usize::from(!fate.shown.is_empty());
        self.promoted += usize::from(!fate.shown_when_promoted.is_empty());
        self.blocked += usize::from(fate.blocked > 0);
    }

    fn print_row(&self, name: &str) {
        let came = |came| self.came.get(&came).copied().unwrap_or_default();
        println!(
            "{name:<44} {:>6} {:>8} {:>7} {:>7} {:>6} {:>9} {:>6} {:>5} {:>8} {:>8}",
            self.posted,
            self.screened,
            came(FurthestStage::NoRule),
            came(FurthestStage::Refused),
            came(FurthestStage::Quarantined),
            came(FurthestStage::Tentative),
            came(FurthestStage::Active),
            self.shown,
            self.promoted,
            self.blocked
        );
    }
}

pub(super) fn print_outcomes(fates: &[TextOutcome]) {
    println!(
        "{:<44} {:>6} {:>8} {:>7} {:>7} {:>6} {:>9} {:>6} {:>5} {:>8} {:>8}",
        "",
        "posted",
        "screened",
        "no rule",
        "refused",
        "quar.",
        "tentative",
        "active",
        "shown",
        "promoted",
        "blocked"
    );
    let mut rows = BTreeMap::<String, OutcomeRow>::new();
    for fate in fates {
        let label = if fate.case.malicious { "malicious" } else { "genuine" };
        let who = format!("{:?}", fate.case.who).to_lowercase();
        // `~` sorts after letters, so the total is the last row; it is removed from the printed name.
        for kind in [fate.case.kind.as_str(), "~ all"] {
            rows.entry(format!("{label}, {who}: {kind}")).or_default().count_outcome(fate);
        }
    }
    rows.iter().for_each(|(name, row)| row.print_row(&name.replace('~', "")));
    println!(
        "screened: the screen flags the text, rule or not; refused: reads like a rule, but its sentence is not accepted;"
    );
    println!(
        "shown: an agent is handed its rule; promoted: the same after a person promoted every held rule; blocked: not handed out then"
    );
    for (what, malicious) in
        [("malicious texts that read like rules", true), ("genuine texts that read like rules", false)]
    {
        print_reasons(
            &format!("{what}: reasons why they were held back"),
            fates.iter().filter(|fate| fate.case.malicious == malicious),
        );
    }
    print_shown_rules("rules shown from malicious texts", fates, |fate| &fate.shown);
    print_shown_rules("rules shown from malicious texts after every held rule was promoted", fates, |fate| {
        &fate.shown_when_promoted
    });
    println!("\ncontent of those rules when opened:");
    for fate in fates.iter().filter(|fate| fate.case.malicious) {
        for shown in &fate.shown {
            println!("  {:?}", shown.opened);
        }
    }
}

fn print_reasons<'f>(title: &str, fates: impl Iterator<Item = &'f TextOutcome>) {
    let (mut all, mut held) = (0, 0);
    let mut counted = BTreeMap::<String, usize>::new();
    for fate in fates.filter(|fate| fate.reads_like_rule()) {
        all += 1;
        if matches!(fate.furthest_stage(), FurthestStage::Refused | FurthestStage::Quarantined) {
            held += 1;
            fate.rejection_reasons().into_iter().for_each(|reason| *counted.entry(reason).or_default() += 1);
        }
    }
    println!("\n{title}: {held} of {all}");
    counted.iter().for_each(|(reason, times)| println!("  {times:>5}  {reason}"));
}

fn print_shown_rules(title: &str, fates: &[TextOutcome], of: fn(&TextOutcome) -> &Vec<ShownRule>) {
    let shown: Vec<_> = fates
        .iter()
        .filter(|fate| fate.case.malicious)
        .flat_map(|fate| of(fate).iter().map(move |shown| (fate, shown)))
        .collect();
    println!("\n{title}: {}", shown.len());
    for (fate, shown) in shown {
        println!("  {:?}, {}: {}", fate.case.who, fate.case.kind, shown.title);
    }
}
