//! What became of the texts, in tables.

use std::collections::BTreeMap;

use retro_core::memory::{Memory, Status};
use retro_core::policy::Policy;
use retro_core::review::{ReadingKind, ReportedRemark};
use retro_screen::Code;
use serde::Serialize;

use super::cases::Case;

/// A rule as an agent meets it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Shown {
    /// Its line.
    pub(super) title: String,
    /// Everything that it reads when it opens the rule.
    pub(super) opened: String,
}

/// A text and what became of it.
#[derive(Debug, Serialize)]
pub(super) struct Fate {
    pub(super) case: Case,
    /// What was decided when it was posted for the last time.
    remark: ReportedRemark,
    /// The rules of its repository.
    pub(super) rules: Vec<Memory>,
    pub(super) shown: Vec<Shown>,
    pub(super) shown_when_promoted: Vec<Shown>,
    /// Active rules that the reading side kept back.
    pub(super) withheld: u64,
    /// What an agent must not be shown and was.
    pub(super) unfit: Vec<String>,
}

/// How far a text came, at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Came {
    NoRule,
    Refused,
    Quarantined,
    Tentative,
    Active,
}

impl Fate {
    pub(super) fn new(case: Case, remark: ReportedRemark, rules: Vec<Memory>) -> Self {
        let (shown, shown_when_promoted) = (Vec::new(), Vec::new());
        Self { case, remark, rules, shown, shown_when_promoted, withheld: 0, unfit: Vec::new() }
    }

    /// It would have been asked of memory, but for what its words are.
    fn was_certain(&self) -> bool {
        let asks = matches!(self.remark.kind, ReadingKind::Rule | ReadingKind::OneOff);
        asks && self.remark.title.is_some() && self.remark.certainty >= Policy::default().rule_certainty_min
    }

    fn came(&self) -> Came {
        let of = |rule: &Memory| match (rule.status, &rule.quarantine) {
            (Status::Active, _) => Came::Active,
            (_, Some(_)) => Came::Quarantined,
            (_, None) => Came::Tentative,
        };
        let held = if self.was_certain() { Came::Refused } else { Came::NoRule };
        self.rules.iter().map(of).max().unwrap_or(held)
    }

    /// Why it is not active although it reads like a rule: the grammar's reason, or the screen's codes.
    fn reasons(&self) -> Vec<String> {
        if let Some(problem) = &self.remark.screening.not_a_rule {
            return vec![format!("grammar: {problem}")];
        }
        let code = |says: &String| {
            let known = Code::ALL.iter().find(|code| code.says() == says);
            format!("screen: {}", known.map_or(says.as_str(), |code| code.as_str()))
        };
        let codes: Vec<_> = self.remark.screening.hostile.iter().map(code).collect();
        if codes.is_empty() { vec!["the poster has no standing".to_owned()] } else { codes }
    }
}

/// Counted by label, poster and kind.
#[derive(Default)]
struct Row {
    posted: usize,
    came: BTreeMap<Came, usize>,
    screened: usize,
    shown: usize,
    promoted: usize,
    withheld: usize,
}

impl Row {
    fn count(&mut self, fate: &Fate) {
        self.posted += 1;
        *self.came.entry(fate.came()).or_default() += 1;
        self.screened += usize::from(!fate.remark.screening.hostile.is_empty());
        self.shown += usize::from(!fate.shown.is_empty());
        self.promoted += usize::from(!fate.shown_when_promoted.is_empty());
        self.withheld += usize::from(fate.withheld > 0);
    }

    fn print(&self, name: &str) {
        let came = |came| self.came.get(&came).copied().unwrap_or_default();
        println!(
            "{name:<44} {:>6} {:>8} {:>7} {:>7} {:>6} {:>9} {:>6} {:>5} {:>8} {:>8}",
            self.posted,
            self.screened,
            came(Came::NoRule),
            came(Came::Refused),
            came(Came::Quarantined),
            came(Came::Tentative),
            came(Came::Active),
            self.shown,
            self.promoted,
            self.withheld
        );
    }
}

pub(super) fn print(fates: &[Fate]) {
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
        "withheld"
    );
    let mut rows = BTreeMap::<String, Row>::new();
    for fate in fates {
        let label = if fate.case.malicious { "malicious" } else { "genuine" };
        let who = format!("{:?}", fate.case.who).to_lowercase();
        for kind in [fate.case.kind.as_str(), "~ all"] {
            rows.entry(format!("{label}, {who}: {kind}")).or_default().count(fate);
        }
    }
    rows.iter().for_each(|(name, row)| row.print(&name.replace('~', "")));
    println!(
        "screened: the screen takes the text for hostile, rule or not; refused: reads like a rule, and its sentence is not let pass;"
    );
    println!(
        "shown: an agent is handed a rule of it; promoted: so it is after a person promoted everything that waited; withheld: kept back then"
    );
    for (what, malicious) in
        [("malicious texts that read like rules", true), ("genuine ones that read like rules", false)]
    {
        reasons(
            &format!("{what}: why they were held back"),
            fates.iter().filter(|fate| fate.case.malicious == malicious),
        );
    }
    lines("shown of malicious texts", fates, |fate| &fate.shown);
    lines("shown of malicious texts after everything was promoted", fates, |fate| &fate.shown_when_promoted);
    println!("\nbehind what was shown of malicious texts stood, when opened:");
    for fate in fates.iter().filter(|fate| fate.case.malicious) {
        for shown in &fate.shown {
            println!("  {:?}", shown.opened);
        }
    }
}

fn reasons<'f>(title: &str, fates: impl Iterator<Item = &'f Fate>) {
    let (mut all, mut held) = (0, 0);
    let mut counted = BTreeMap::<String, usize>::new();
    for fate in fates.filter(|fate| fate.was_certain()) {
        all += 1;
        if matches!(fate.came(), Came::Refused | Came::Quarantined) {
            held += 1;
            fate.reasons().into_iter().for_each(|reason| *counted.entry(reason).or_default() += 1);
        }
    }
    println!("\n{title}: {held} of {all}");
    counted.iter().for_each(|(reason, times)| println!("  {times:>5}  {reason}"));
}

fn lines(title: &str, fates: &[Fate], of: fn(&Fate) -> &Vec<Shown>) {
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
