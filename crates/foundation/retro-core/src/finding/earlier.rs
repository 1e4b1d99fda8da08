//! Makes the list of what earlier runs of a retrospective showed short enough for a prompt.
//!
//! Nothing is said anew: lines that say the same become one of them, and others are dropped. Lines with one signature are
//! merged first. If the rest is still too long, a model may group lines by their numbers, and whatever it answers, each kept
//! line is one that was given. Without a usable answer the lines of the fewest runs, then the least severe, then the oldest are
//! dropped.

use std::cmp::Reverse;

use super::{Compaction, EarlierFinding, Finding, FindingKind};
use crate::id::RunId;

/// Maximum size of what an investigation is told about earlier runs, in bytes: a few pages, which leave room for the run.
pub const EARLIER_BYTES_MAX: usize = 8 * 1024;
/// Maximum size of the list that a model is asked to shorten, in bytes.
pub const COMPACTED_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of dropped findings that are named.
const DROPPED_NAMED_MAX: usize = 100;
/// Maximum number of runs that a line names.
const RUNS_NAMED_MAX: usize = 5;

/// What one or more earlier runs showed, as one line of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierLine {
    /// Runs that showed it, in order of investigation.
    pub runs: Vec<RunId>,
    /// The finding that is told; of several, one of those given.
    pub finding: Finding,
}

impl EarlierLine {
    /// Returns the line.
    pub fn text(&self) -> String {
        let named: Vec<&str> = self.runs.iter().take(RUNS_NAMED_MAX).map(RunId::as_str).collect();
        let more = match self.runs.len().saturating_sub(RUNS_NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let runs = if self.runs.len() == 1 { "run" } else { "runs" };
        let Finding { step, title, .. } = &self.finding;
        format!("{runs} {}{more}: step {step}: {title}", named.join(", "))
    }

    fn merge(&mut self, other: Self) {
        for run in other.runs {
            if !self.runs.contains(&run) {
                self.runs.push(run);
            }
        }
    }

    fn says_the_same(&self, finding: &Finding) -> bool {
        let own = &self.finding;
        let signature = finding.cue.signature();
        own.step == finding.step
            && (own.title == finding.title || (signature.is_some() && own.cue.signature() == signature))
    }
}

/// Lines while they are shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierLines {
    given: u32,
    lines: Vec<EarlierLine>,
    dropped: Vec<EarlierLine>,
}

/// Group of lines that say the same, as a model states it: by the numbers of the lines, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineGroup {
    /// Number of the line that is kept.
    pub keep: u32,
    /// Numbers of the lines that say the same.
    pub same: Vec<u32>,
}

impl EarlierLines {
    /// Lists every finding as a line of its own.
    pub fn new(earlier: &[EarlierFinding]) -> Self {
        let line =
            |one: &EarlierFinding| EarlierLine { runs: vec![one.run.clone()], finding: one.finding.clone() };
        Self {
            given: to_count(earlier.len()),
            lines: earlier.iter().map(line).collect(),
            dropped: Vec::new(),
        }
    }

    /// Returns the lines.
    pub fn lines(&self) -> &[EarlierLine] {
        &self.lines
    }

    /// Returns the size of all lines, in bytes.
    pub fn bytes(&self) -> usize {
        self.lines.iter().map(line_bytes).sum()
    }

    /// Returns `true` if the lines need not be shortened.
    pub fn fit(&self) -> bool {
        self.bytes() <= EARLIER_BYTES_MAX
    }

    /// Merges the lines of one step with one signature or title. The first of them is kept.
    pub fn merge_equal(&mut self) {
        let mut merged: Vec<EarlierLine> = Vec::new();
        for line in self.lines.drain(..) {
            match merged.iter_mut().find(|known| known.says_the_same(&line.finding)) {
                Some(known) => known.merge(line),
                None => merged.push(line),
            }
        }
        self.lines = merged;
    }

    /// Drops lines until the rest has at most `bytes_max` bytes: those of the fewest runs first, then the least severe, then
    /// the oldest.
    pub fn drop_to(&mut self, bytes_max: usize) {
        let mut order: Vec<usize> = (0..self.lines.len()).collect();
        order.sort_by_key(|at| {
            (self.lines[*at].runs.len(), Reverse(leniency(self.lines[*at].finding.kind)), *at)
        });
        let (mut bytes, mut is_dropped) = (self.bytes(), vec![false; self.lines.len()]);
        for at in order {
            if bytes <= bytes_max {
                break;
            }
            bytes -= line_bytes(&self.lines[at]);
            is_dropped[at] = true;
        }
        let mut at = 0;
        let dropped = self.lines.extract_if(.., |_| {
            at += 1;
            is_dropped[at - 1]
        });
        self.dropped.extend(dropped);
    }

    /// Groups the lines as a model says; a line in no group is dropped. Fails with a sentence, and changes nothing, if a number
    /// names no line or is used twice, if lines of different steps are merged, or if no line is kept.
    pub fn group(&mut self, groups: &[LineGroup]) -> Result<(), String> {
        let mut group_of: Vec<Option<usize>> = vec![None; self.lines.len()];
        for (nth, group) in groups.iter().enumerate() {
            for number in std::iter::once(&group.keep).chain(&group.same) {
                let at = (*number as usize).checked_sub(1).filter(|at| *at < self.lines.len());
                let at = at.ok_or_else(|| format!("there is no line {number}"))?;
                if group_of[at].replace(nth).is_some() {
                    return Err(format!("line {number} is in two groups"));
                }
                let kept = &self.lines[group.keep as usize - 1].finding.step;
                if *kept != self.lines[at].finding.step {
                    return Err(format!("lines {} and {number} are about different steps", group.keep));
                }
            }
        }
        if groups.is_empty() {
            return Err("it keeps no line".to_owned());
        }
        // In the order of the lines, so that the beginning stays the same from run to run.
        let mut kept: Vec<(usize, EarlierLine)> = groups
            .iter()
            .map(|group| (group.keep as usize - 1, self.lines[group.keep as usize - 1].clone()))
            .collect();
        for (at, line) in self.lines.drain(..).enumerate() {
            match group_of[at] {
                Some(nth) => kept[nth].1.merge(line),
                None => self.dropped.push(line),
            }
        }
        kept.sort_by_key(|(at, _)| *at);
        self.lines = kept.into_iter().map(|(_, line)| line).collect();
        Ok(())
    }

    /// Describes how the lines were shortened, for the report.
    pub fn describe(&self, by: Option<String>, problem: Option<String>) -> Compaction {
        Compaction {
            by,
            problem,
            given: self.given,
            told: to_count(self.lines.len()),
            dropped: to_count(self.dropped.len()),
            dropped_lines: self.dropped.iter().take(DROPPED_NAMED_MAX).map(EarlierLine::text).collect(),
        }
    }
}

/// Returns the bytes of a line with its mark and its end.
fn line_bytes(line: &EarlierLine) -> usize {
    line.text().len() + "- \n".len()
}

/// Returns a number that is greater the less a kind of finding teaches.
const fn leniency(kind: FindingKind) -> u8 {
    match kind {
        FindingKind::Repair => 0,
        FindingKind::Failure => 1,
        FindingKind::RetryLoop => 2,
        FindingKind::SelfFeedback | FindingKind::Documented => 3,
    }
}

fn to_count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{EvidenceOrigin, LessonCue, Quote};
    use crate::id::Step;
    use crate::trajectory::QuotePlace;

    fn earlier(run: &str, step: &str, kind: FindingKind, title: &str) -> EarlierFinding {
        let finding = Finding {
            kind,
            step: Step::new(step).unwrap(),
            subject: "sh".to_owned(),
            title: title.to_owned(),
            content: String::new(),
            cue: LessonCue::default(),
            quote: Quote { place: QuotePlace::Message { turn: 0 }, text: "words".to_owned() },
            contradicts: None,
            origin: EvidenceOrigin::default(),
        };
        EarlierFinding { run: RunId::new(run).unwrap(), finding }
    }

    fn texts(lines: &EarlierLines) -> Vec<String> {
        lines.lines().iter().map(EarlierLine::text).collect()
    }

    fn four() -> EarlierLines {
        EarlierLines::new(&[
            earlier("a", "main", FindingKind::Failure, "one"),
            earlier("a", "main", FindingKind::Repair, "two"),
            earlier("b", "main", FindingKind::Failure, "one"),
            earlier("b", "other", FindingKind::Repair, "three"),
        ])
    }

    #[test]
    fn equal_lines_become_one_that_names_its_runs() {
        let mut lines = four();
        lines.merge_equal();
        assert_eq!(
            texts(&lines),
            ["runs a, b: step main: one", "run a: step main: two", "run b: step other: three"]
        );
        assert_eq!(
            lines.describe(None, None),
            Compaction { by: None, problem: None, given: 4, told: 3, dropped: 0, dropped_lines: Vec::new() }
        );
    }

    #[test]
    fn the_least_severe_and_oldest_lines_of_the_fewest_runs_go_first() {
        let mut lines = EarlierLines::new(&[
            earlier("a", "main", FindingKind::Repair, "old"),
            earlier("a", "main", FindingKind::Failure, "weak"),
            earlier("a", "main", FindingKind::SelfFeedback, "said twice"),
            earlier("b", "main", FindingKind::SelfFeedback, "said twice"),
            earlier("b", "main", FindingKind::Repair, "new"),
        ]);
        lines.merge_equal();
        for left in [vec!["old", "said twice", "new"], vec!["said twice", "new"], vec!["said twice"], vec![]]
        {
            lines.drop_to(lines.bytes() - 1);
            let kept: Vec<_> = lines.lines().iter().map(|line| line.finding.title.as_str()).collect();
            assert_eq!(kept, left);
        }
        assert_eq!(lines.describe(None, None).dropped_lines[0], "run a: step main: weak");
    }

    #[test]
    fn a_model_may_merge_and_drop_and_say_nothing_new() {
        let group = |keep, same: &[u32]| LineGroup { keep, same: same.to_vec() };
        let mut lines = four();
        lines.group(&[group(4, &[]), group(2, &[3])]).unwrap();
        assert_eq!(texts(&lines), ["runs a, b: step main: two", "run b: step other: three"]);
        let told = lines.describe(Some("small".to_owned()), None);
        assert_eq!((told.given, told.told, told.dropped), (4, 2, 1));
        assert_eq!(told.dropped_lines, ["run a: step main: one"]);
        for (groups, problem) in [
            (vec![group(5, &[])], "there is no line 5"),
            (vec![group(0, &[])], "there is no line 0"),
            (vec![group(1, &[2]), group(3, &[2])], "line 2 is in two groups"),
            (vec![group(1, &[1])], "line 1 is in two groups"),
            (vec![group(1, &[4])], "lines 1 and 4 are about different steps"),
            (vec![], "it keeps no line"),
        ] {
            let mut lines = four();
            assert_eq!(lines.group(&groups), Err(problem.to_owned()));
            assert_eq!(lines, four(), "nothing changes");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_answered_each_kept_line_was_given_and_the_rest_is_dropped(
            groups in proptest::collection::vec((0u32..8, proptest::collection::vec(0u32..8, 0..4)), 0..5),
            bytes_max in 0usize..200,
        ) {
            let mut lines = four();
            let given: Vec<String> = four().lines().iter().map(|line| line.finding.title.clone()).collect();
            let groups: Vec<_> =
                groups.into_iter().map(|(keep, same)| LineGroup { keep, same }).collect();
            let _ = lines.group(&groups);
            lines.drop_to(bytes_max);
            proptest::prop_assert!(lines.bytes() <= bytes_max);
            proptest::prop_assert!(lines.lines().iter().all(|line| given.contains(&line.finding.title)));
            let runs: usize = lines.lines.iter().chain(&lines.dropped).map(|line| line.runs.len()).sum();
            proptest::prop_assert!(runs <= given.len());
        }
    }
}
