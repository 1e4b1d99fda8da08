//! Checks an investigator's answer mechanically, and drops the parts that the run does not support.

use super::{
    CONTENT_CHARS_MAX, CUE_CHARS_MAX, CheckedAnswer, Contradiction, EvidenceOrigin, FINDINGS_MAX,
    FOCUS_QUOTES_MAX, Fault, Finding, InvestigationBrief, LessonCue, MemoryVerdict, ObservedFailure,
    QUOTE_CHARS_MAX, Quote, REASON_CHARS_MAX, RawAnswer, Refutation, RunFocus, SUBJECT_CHARS_MAX,
    TITLE_CHARS_MAX, TransientError, VerdictRecord,
};
use crate::trajectory::QuotePlace;

/// Drops every entry of an answer that fails a mechanical check. A quote must occur verbatim at the place
/// that it names, and that place must be in the entry's step. Texts must be within their limits, and verdicts
/// must be about presented memories. Of several verdicts on one memory, the strongest is kept.
pub fn check_answer(brief: &InvestigationBrief, answer: RawAnswer) -> CheckedAnswer {
    let RawAnswer {
        mut findings, mut verdicts, fault, mut transients, mut contradictions, mut failures, ..
    } = answer;
    let (mut focus, mut causes, mut refutations) = (answer.focus, answer.causes, answer.refutations);
    let count_quotes = |focus: &Option<RunFocus>| focus.as_ref().map_or(0, |focus| focus.quotes.len());
    let before = findings.len()
        + verdicts.len()
        + transients.len()
        + contradictions.len()
        + failures.len()
        + causes.len()
        + refutations.len()
        + count_quotes(&focus);
    // Invalid entries are dropped before the list is cut, so they do not take up places of valid ones.
    findings.retain(|finding| is_valid_finding(brief, finding));
    findings.truncate(FINDINGS_MAX);
    for finding in &mut findings {
        finding.origin = EvidenceOrigin::of_run(&brief.run, finding.origin.source.take());
    }
    verdicts.retain(|verdict| is_valid_verdict(brief, verdict));
    // The strongest verdict on each memory comes first, because `dedup_by_key` keeps the first.
    verdicts.sort_by_key(|verdict| (verdict.memory, verdict.verdict));
    verdicts.dedup_by_key(|verdict| verdict.memory);
    transients.retain(|transient| is_valid_transient(brief, transient));
    transients.truncate(FINDINGS_MAX);
    contradictions.retain(|contradiction| is_valid_contradiction(brief, contradiction));
    contradictions.truncate(FINDINGS_MAX);
    failures.retain(|failure| is_valid_failure(brief, failure));
    failures.truncate(FINDINGS_MAX);
    for failure in &mut failures {
        failure.origin = EvidenceOrigin::of_run(&brief.run, failure.origin.source.take());
    }
    causes
        .retain(|cause| is_verbatim_quote(brief, &cause.quote) && fits_chars(&cause.text, REASON_CHARS_MAX));
    causes.truncate(FINDINGS_MAX);
    refutations.retain(|refutation| is_valid_refutation(brief, &findings, refutation));
    refutations.truncate(FINDINGS_MAX);
    if let Some(focus) = &mut focus {
        check_focus(brief, focus);
    }
    let kept = findings.len()
        + verdicts.len()
        + transients.len()
        + contradictions.len()
        + failures.len()
        + causes.len()
        + refutations.len()
        + count_quotes(&focus);
    let dropped = u32::try_from(before - kept).unwrap_or(u32::MAX);
    let fault = fault.filter(|fault| is_valid_fault(brief, fault));
    CheckedAnswer {
        engine: answer.engine,
        findings,
        verdicts,
        fault,
        transients,
        contradictions,
        failures,
        focus,
        causes,
        refutations,
        compaction: answer.compaction,
        model_note: answer.model_note.map(|note| shorten(&note, REASON_CHARS_MAX)),
        dropped: dropped.saturating_add(answer.dropped),
    }
}

/// Shortens the texts of an answer to a question, and drops the quotes that the run does not contain.
fn check_focus(brief: &InvestigationBrief, focus: &mut RunFocus) {
    focus.text = shorten(&focus.text, CONTENT_CHARS_MAX);
    focus.open = focus.open.take().map(|open| shorten(&open, REASON_CHARS_MAX));
    focus.quotes.retain(|quote| is_verbatim_quote(brief, quote));
    focus.quotes.truncate(FOCUS_QUOTES_MAX);
}

fn shorten(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}

fn is_valid_fault(brief: &InvestigationBrief, fault: &Fault) -> bool {
    is_verbatim_quote(brief, &fault.quote)
        && brief.step_at(fault.quote.place) == Some(&fault.step)
        && fits_chars(&fault.sign, REASON_CHARS_MAX)
}

fn is_valid_finding(brief: &InvestigationBrief, finding: &Finding) -> bool {
    let LessonCue { tool, error, avoid, prefer, worked } = &finding.cue;
    let cue = [tool, error, avoid, prefer, worked];
    is_verbatim_quote(brief, &finding.quote)
        && brief.step_at(finding.quote.place) == Some(&finding.step)
        && !finding.title.trim().is_empty()
        && fits_chars(&finding.title, TITLE_CHARS_MAX)
        && fits_chars(&finding.content, CONTENT_CHARS_MAX)
        && fits_chars(&finding.subject, SUBJECT_CHARS_MAX)
        && cue.into_iter().flatten().all(|part| fits_chars(part, CUE_CHARS_MAX))
        && finding
            // A run can contradict memories of a step, but not rules.
            .contradicts
            .is_none_or(|id| brief.memories.iter().any(|memory| memory.id == id && memory.step.is_some()))
}

/// A finding that failed a check needs no objection.
fn is_valid_refutation(brief: &InvestigationBrief, findings: &[Finding], refutation: &Refutation) -> bool {
    is_verbatim_quote(brief, &refutation.quote) && findings.iter().any(|finding| refutation.is_about(finding))
}

fn is_valid_verdict(brief: &InvestigationBrief, verdict: &VerdictRecord) -> bool {
    let presented = brief.memories.iter().any(|memory| memory.id == verdict.memory && memory.presented);
    let shown = verdict
        .quote
        .as_ref()
        .map_or(verdict.verdict == MemoryVerdict::CueNotMet, |q| is_verbatim_quote(brief, q));
    presented && shown && fits_chars(&verdict.reason, REASON_CHARS_MAX)
}

fn is_valid_transient(brief: &InvestigationBrief, transient: &TransientError) -> bool {
    is_verbatim_quote(brief, &transient.quote)
        && brief.step_at(transient.quote.place) == Some(&transient.step)
        && fits_chars(&transient.tool, CUE_CHARS_MAX)
        && fits_chars(&transient.error, CUE_CHARS_MAX)
}

fn is_valid_failure(brief: &InvestigationBrief, failure: &ObservedFailure) -> bool {
    is_verbatim_quote(brief, &failure.quote)
        && brief.step_at(failure.quote.place) == Some(&failure.step)
        && fits_chars(&failure.content, CONTENT_CHARS_MAX)
        && fits_chars(&failure.tool, CUE_CHARS_MAX)
        && fits_chars(&failure.error, CUE_CHARS_MAX)
        && failure.worked.as_ref().is_none_or(|worked| fits_chars(worked, CUE_CHARS_MAX))
}

fn is_valid_contradiction(brief: &InvestigationBrief, contradiction: &Contradiction) -> bool {
    let known = brief.memories.iter().find(|memory| memory.id == contradiction.memory);
    is_verbatim_quote(brief, &contradiction.quote)
        && brief.step_at(contradiction.quote.place) == Some(&contradiction.step)
        && fits_chars(&contradiction.reason, REASON_CHARS_MAX)
        && known.is_some_and(|memory| {
            memory.step.as_ref() == Some(&contradiction.step) && memory.subject == contradiction.subject
        })
}

fn fits_chars(text: &str, chars_max: usize) -> bool {
    text.chars().count() <= chars_max
}

/// Returns `true` if a quote occurs verbatim at the place that it names. Empty and overlong quotes never do.
pub fn is_verbatim_quote(brief: &InvestigationBrief, quote: &Quote) -> bool {
    let text = match quote.place {
        QuotePlace::SelfFeedback { remark } => {
            brief.run.self_feedback.get(remark as usize).map(|f| f.text.as_str())
        }
        place => brief.trajectory.text_at(place),
    };
    !quote.text.trim().is_empty()
        && quote.text.chars().count() <= QUOTE_CHARS_MAX
        && text.is_some_and(|text| text.contains(&quote.text))
}
