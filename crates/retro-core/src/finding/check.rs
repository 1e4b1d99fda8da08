//! What an investigator says is kept only if it stands up mechanically.

use super::{
    Brief, CONTENT_CHARS_MAX, CUE_CHARS_MAX, Checked, Contradiction, FINDINGS_MAX, Fault, Finding, Looked,
    MemoryVerdict, QUOTE_CHARS_MAX, Quote, REASON_CHARS_MAX, SUBJECT_CHARS_MAX, TITLE_CHARS_MAX, Transient,
    Verdict,
};
use crate::trajectory::Place;

/// Drops whatever does not stand up mechanically: a quote must be verbatim in the place it names, that place in the
/// finding's step, texts within bounds, memories among the presented; of several verdicts on one memory the strongest
/// stays.
pub fn check(brief: &Brief, looked: Looked) -> Checked {
    let Looked { mut findings, mut verdicts, fault, mut transients, mut contradictions } = looked;
    let before = findings.len() + verdicts.len() + transients.len() + contradictions.len();
    findings.retain(|finding| finding_stands(brief, finding));
    findings.truncate(FINDINGS_MAX);
    verdicts.retain(|verdict| verdict_stands(brief, verdict));
    verdicts.sort_by_key(|verdict| (verdict.memory, verdict.verdict));
    verdicts.dedup_by_key(|verdict| verdict.memory);
    transients.retain(|transient| transient_stands(brief, transient));
    transients.truncate(FINDINGS_MAX);
    contradictions.retain(|contradiction| contradiction_stands(brief, contradiction));
    contradictions.truncate(FINDINGS_MAX);
    let kept = findings.len() + verdicts.len() + transients.len() + contradictions.len();
    let dropped = u32::try_from(before - kept).unwrap_or(u32::MAX);
    let fault = fault.filter(|fault| fault_stands(brief, fault));
    Checked { findings, verdicts, fault, transients, contradictions, dropped }
}

fn fault_stands(brief: &Brief, fault: &Fault) -> bool {
    quote_stands(brief, &fault.quote)
        && brief.step_at(fault.quote.place) == Some(&fault.step)
        && within(&fault.sign, REASON_CHARS_MAX)
}

fn finding_stands(brief: &Brief, finding: &Finding) -> bool {
    let cue = [&finding.cue.tool, &finding.cue.error, &finding.cue.avoid, &finding.cue.prefer];
    quote_stands(brief, &finding.quote)
        && brief.step_at(finding.quote.place) == Some(&finding.step)
        && !finding.title.trim().is_empty()
        && within(&finding.title, TITLE_CHARS_MAX)
        && within(&finding.content, CONTENT_CHARS_MAX)
        && within(&finding.subject, SUBJECT_CHARS_MAX)
        && cue.into_iter().flatten().all(|part| within(part, CUE_CHARS_MAX))
        && finding
            .contradicts
            .is_none_or(|id| brief.memories.iter().any(|memory| memory.id == id && memory.step.is_some()))
}

fn verdict_stands(brief: &Brief, verdict: &MemoryVerdict) -> bool {
    let presented = brief.memories.iter().any(|memory| memory.id == verdict.memory && memory.presented);
    let shown =
        verdict.quote.as_ref().map_or(verdict.verdict == Verdict::CueNotMet, |q| quote_stands(brief, q));
    presented && shown && within(&verdict.reason, REASON_CHARS_MAX)
}

fn transient_stands(brief: &Brief, transient: &Transient) -> bool {
    quote_stands(brief, &transient.quote)
        && brief.step_at(transient.quote.place) == Some(&transient.step)
        && within(&transient.tool, CUE_CHARS_MAX)
        && within(&transient.error, CUE_CHARS_MAX)
}

fn contradiction_stands(brief: &Brief, contradiction: &Contradiction) -> bool {
    let known = brief.memories.iter().find(|memory| memory.id == contradiction.memory);
    quote_stands(brief, &contradiction.quote)
        && brief.step_at(contradiction.quote.place) == Some(&contradiction.step)
        && within(&contradiction.reason, REASON_CHARS_MAX)
        && known.is_some_and(|memory| {
            memory.step.as_ref() == Some(&contradiction.step) && memory.subject == contradiction.subject
        })
}

fn within(text: &str, chars_max: usize) -> bool {
    text.chars().count() <= chars_max
}

/// Whether a quote stands, verbatim, in the place it names.
pub fn quote_stands(brief: &Brief, quote: &Quote) -> bool {
    let text = match quote.place {
        Place::SelfFeedback { remark } => {
            brief.run.self_feedback.get(remark as usize).map(|f| f.text.as_str())
        }
        place => brief.trajectory.text_at(place),
    };
    !quote.text.trim().is_empty()
        && quote.text.chars().count() <= QUOTE_CHARS_MAX
        && text.is_some_and(|text| text.contains(&quote.text))
}
