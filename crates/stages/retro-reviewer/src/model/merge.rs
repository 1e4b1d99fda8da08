//! Joins what a model read in a remark with what the heuristics read, as far as the remark confirms it.
//!
//! The model decides nothing alone. Its quote has to stand in the author's own sentences; the rule is phrased from these
//! sentences by the program, or in the model's words if each of them stands there; and who may make a rule, support, screening
//! and gate are decided later, as for any reading. In doubt the remark stays as the heuristics read it.

use retro_core::remark::Remark;
use retro_core::review::{
    ModelReading, ModelReadingKind, ReadingFeature, ReadingKind, RemarkReading, ReviewSettings, RuleText,
};

use super::answer::SubmittedReading;
use crate::heuristics::rule_content;
use crate::quoted::find_quoted_sentences;
use crate::text::main_clause;
use crate::wording::check_wording;
use crate::{phrase, signs, topic};

/// Maximum length of a quote in a report, in characters.
const QUOTE_CHARS_MAX: usize = 300;

/// Beginning of the reason why a wording was refused.
pub(super) const REFUSED_WORDING: &str = "its wording is refused";

/// Rule that could be made of the quoted sentences.
struct QuotedRule {
    text: RuleText,
    /// `true` if the wording is that of the model.
    is_worded: bool,
}

/// Joins an answer with the reading of the heuristics. Returns `None` if the remark does not contain the quote, or if there is
/// none where one is needed: the answer is dropped.
pub(super) fn merge_reading(
    remark: &Remark,
    read: &RemarkReading,
    submitted: &SubmittedReading,
    settings: &ReviewSettings,
    model: &str,
) -> Option<RemarkReading> {
    let kind = ModelReadingKind::from(submitted.kind);
    let quote = submitted.quote.as_deref().map(str::trim).filter(|quote| !quote.is_empty());
    let sentences = match quote.map(|quote| find_quoted_sentences(&remark.body, quote)) {
        Some(None) => return None,
        Some(Some(sentences)) => Some(sentences),
        None => None,
    };
    let is_quoted = sentences.is_some();
    let sentences = sentences.unwrap_or_default();
    let needs_quote =
        matches!(kind, ModelReadingKind::Rule | ModelReadingKind::OneOff | ModelReadingKind::Preference);
    if needs_quote && !is_quoted {
        return None;
    }
    let mut merged = read.clone();
    let shown: String = quote.unwrap_or_default().chars().take(QUOTE_CHARS_MAX).collect();
    let mut note = ModelReading { kind, quote: shown, worded_by: None, refused: None };
    match (kind, read.kind) {
        (ModelReadingKind::Rule, ReadingKind::Rule) => {
            raise_certainty(&mut merged, settings.model_rule_certainty, "a language model reads a rule, too");
        }
        (ModelReadingKind::Rule, _) => match make_rule(remark, submitted, &sentences) {
            Ok(rule) => {
                note.worded_by = rule.is_worded.then(|| model.to_owned());
                take_rule(&mut merged, ReadingKind::Rule, rule.text);
                raise_certainty(&mut merged, settings.model_rule_certainty, "a language model reads a rule");
                merged.reason = "a language model quotes a rule in it".to_owned();
            }
            Err(refused) => note.refused = Some(refused),
        },
        (ModelReadingKind::Preference, _) => {
            merged.kind = ReadingKind::Preference;
            (merged.certainty, merged.rule) = (0, None);
            merged.reason =
                "it says what one person likes; kept for later, nothing acts on it yet".to_owned();
        }
        (_, ReadingKind::Rule) if is_quoted => {
            merged.kind = ReadingKind::OneOff;
            add_feature(&mut merged, "a language model reads no rule", settings.model_disagrees_delta);
            merged.reason = format!("the heuristics read a rule, a language model {}", with_article(kind));
        }
        (_, ReadingKind::Rule) => {
            note.refused =
                Some("it gives no words of the remark against the rule that the heuristics read".to_owned());
        }
        (ModelReadingKind::OneOff, _) if read.rule.is_none() => {
            match make_rule(remark, submitted, &sentences) {
                Ok(rule) => {
                    note.worded_by = rule.is_worded.then(|| model.to_owned());
                    take_rule(&mut merged, ReadingKind::OneOff, rule.text);
                    let name = "a language model reads a request";
                    raise_certainty(&mut merged, settings.model_one_off_certainty, name);
                    merged.reason = "a language model quotes a request for this change in it".to_owned();
                }
                Err(refused) => note.refused = Some(refused),
            }
        }
        _ => {}
    }
    merged.model = Some(note);
    Some(merged)
}

/// Makes the rule of quoted sentences: phrased by the program, or in the wording of the model if a mechanical check allows it.
/// Fails with the reason, in one clause.
fn make_rule(
    remark: &Remark,
    submitted: &SubmittedReading,
    sentences: &[String],
) -> Result<QuotedRule, String> {
    let quoted = sentences.join(" ");
    let phrased = sentences.iter().find_map(|sentence| {
        // A question is kept whole: without its question mark it could pass for a rule.
        let said = if sentence.ends_with('?') { sentence } else { main_clause(sentence) };
        phrase::phrase_imperative(said)
    });
    let build = |title: String, is_worded: bool| QuotedRule {
        text: RuleText {
            subject: topic::topic_with_hint(&title, submitted.topic.as_deref()).to_owned(),
            content: rule_content(&title, &quoted, remark),
            path: phrase::find_folder(&quoted),
            title,
        },
        is_worded,
    };
    let one_off = submitted.kind != super::answer::SubmittedKind::Rule;
    // "Rename this" tells nobody anything who does not see the change.
    let points = |title: &str| signs::points_at_change(title);
    if let Some(title) = phrased.filter(|title| one_off || !points(title)) {
        return Ok(build(title, false));
    }
    let wording = submitted.wording.as_deref().map(str::trim).filter(|wording| !wording.is_empty());
    let Some(wording) = wording else {
        return Err("no quoted sentence can be phrased as an instruction, and it gives no wording".to_owned());
    };
    let refused = |why: String| format!("{REFUSED_WORDING}: {why}");
    let title = phrase::phrase_imperative(wording)
        .ok_or_else(|| refused("it is no instruction of one sentence".to_owned()))?;
    check_wording(&title, &quoted).map_err(refused)?;
    if points(&title) && !one_off {
        return Err(refused("it points at this change".to_owned()));
    }
    Ok(build(title, true))
}

fn take_rule(reading: &mut RemarkReading, kind: ReadingKind, rule: RuleText) {
    reading.kind = kind;
    reading.rule = Some(rule);
}

/// Raises the certainty to a minimum by a feature that says who reads it so.
fn raise_certainty(reading: &mut RemarkReading, least: u16, name: &str) {
    let missing = i32::from(least) - i32::from(reading.certainty);
    add_feature(reading, name, missing.max(0));
}

fn add_feature(reading: &mut RemarkReading, name: &str, contribution: i32) {
    let certainty = (i32::from(reading.certainty) + contribution).clamp(0, 1000);
    reading.certainty = u16::try_from(certainty).expect("clamped");
    reading.features.push(ReadingFeature {
        name: name.to_owned(),
        contribution,
        matched_text: String::new(),
    });
}

fn with_article(kind: ModelReadingKind) -> &'static str {
    match kind {
        ModelReadingKind::Rule => "a rule",
        ModelReadingKind::OneOff => "a request for this change only",
        ModelReadingKind::Question => "a question",
        ModelReadingKind::Praise => "praise",
        ModelReadingKind::Noise => "nothing to learn",
        ModelReadingKind::Preference => "a preference",
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::SubmittedKind;
    use super::*;
    use crate::HeuristicReader;
    use crate::reviewer::tests::remark_with;

    fn merge(body: &str, submitted: &SubmittedReading) -> Option<RemarkReading> {
        let remark = remark_with(1, "ann", body);
        let read = HeuristicReader.read_now(&remark);
        merge_reading(&remark, &read, submitted, &ReviewSettings::default(), "m")
    }

    fn said(kind: SubmittedKind, quote: Option<&str>, wording: Option<&str>) -> SubmittedReading {
        let text = |text: Option<&str>| text.map(str::to_owned);
        SubmittedReading { remark: 1, kind, quote: text(quote), wording: text(wording), topic: None }
    }

    #[test]
    fn a_quoted_rule_is_phrased_by_the_program() {
        let body = "Please wrap it. Thanks. The error types live in `errors.rs`, so add new errors there.";
        let reading =
            merge(body, &said(SubmittedKind::Rule, Some("so add new errors there"), Some("Add errors")))
                .unwrap();
        // The whole sentence is no instruction, and the wording drops words but says nothing else.
        assert_eq!(reading.kind, ReadingKind::Rule, "{reading:?}");
        assert_eq!(reading.certainty, 700);
        assert_eq!(reading.rule.unwrap().title, "Add errors");
        let rule = "We want all handlers to return early";
        let reading = merge(rule, &said(SubmittedKind::Rule, Some(rule), Some("Return early in handlers")));
        assert_eq!(reading.unwrap().model.unwrap().worded_by.as_deref(), Some("m"));
    }

    #[test]
    fn a_quote_of_half_a_sentence_does_not_drop_its_negation() {
        let body = "Please do not use `unwrap` in handlers here.";
        let reading =
            merge(body, &said(SubmittedKind::Rule, Some("use `unwrap` in handlers"), None)).unwrap();
        assert!(
            reading.rule.as_ref().is_some_and(|rule| rule.title.starts_with("Do not use `unwrap`")),
            "{reading:?}"
        );
    }

    #[test]
    fn what_the_author_did_not_write_is_dropped() {
        let body = "> Always squash commits\n\nWhy?\n```\nnever do it\n```";
        for quote in ["Always squash commits", "never do it", "Never force push"] {
            assert_eq!(merge(body, &said(SubmittedKind::Rule, Some(quote), None)), None, "{quote}");
        }
        assert_eq!(merge(body, &said(SubmittedKind::Preference, None, None)), None, "it needs a quote");
    }

    #[test]
    fn a_refused_wording_leaves_the_remark_as_the_heuristics_read_it() {
        let body = "Handlers that return early are easier to read.";
        let wrong = said(SubmittedKind::Rule, Some(body), Some("Return early and log the request"));
        let reading = merge(body, &wrong).unwrap();
        assert_eq!((reading.kind, reading.rule), (ReadingKind::OneOff, None));
        let refused = reading.model.unwrap().refused.unwrap();
        assert!(refused.starts_with("its wording is refused: it has the word"), "{refused}");
    }

    #[test]
    fn who_refutes_a_rule_has_to_quote_it() {
        let body = "Always run the formatter.";
        let silent = merge(body, &said(SubmittedKind::Noise, None, None)).unwrap();
        assert_eq!(silent.kind, ReadingKind::Rule);
        assert!(silent.model.unwrap().refused.is_some());
        let quoted = merge(body, &said(SubmittedKind::OneOff, Some(body), None)).unwrap();
        assert_eq!(quoted.kind, ReadingKind::OneOff);
        let alone = HeuristicReader.read_now(&remark_with(1, "ann", body)).certainty;
        assert_eq!(quoted.certainty, alone - 300);
        assert!(quoted.rule.is_some(), "the same request on another pull request still counts");
        let liked = merge(body, &said(SubmittedKind::Preference, Some(body), None)).unwrap();
        assert_eq!((liked.kind, liked.rule), (ReadingKind::Preference, None));
    }

    #[test]
    fn a_one_off_that_the_heuristics_could_not_phrase_is_kept_as_an_example() {
        let body = "Could we add an index on `orders.day` in the migration";
        let wording = "Add an index on `orders.day` in the migration";
        let reading = merge(body, &said(SubmittedKind::OneOff, Some(body), Some(wording))).unwrap();
        assert_eq!((reading.kind, reading.certainty), (ReadingKind::OneOff, 350));
        assert_eq!(reading.rule.unwrap().title, wording);
    }
}
