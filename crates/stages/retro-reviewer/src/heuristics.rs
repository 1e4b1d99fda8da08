//! Reads remarks without a model: looks for signs in each sentence, adds up the weights of the signs, and
//! reports the signs found.

use async_trait::async_trait;
use retro_core::finding::CONTENT_CHARS_MAX;
use retro_core::remark::Remark;
use retro_core::review::{ReadingFeature, ReadingKind, RemarkReading, ReviewReading, RuleText};
use retro_store::StoreError;

use crate::reader::{ReadingTask, RemarkReader, ReviewReadings};
use crate::text::{RemarkText, lowercase_words, main_clause};
use crate::{phrase, signs, topic};

/// Minimum certainty with which the reader classifies a remark as a rule, in thousandths. The policy may set another
/// bound for decisions.
const RULE_CERTAINTY: i32 = 600;
/// Length in characters above which a text counts as long. A long text is reasoning, which counts against a rule in
/// any of its sentences.
const LONG_CHARS: usize = 900;
/// Maximum number of words in a text that is only praise or an acknowledgement; a longer text has other
/// content as well.
const PRAISE_WORDS_MAX: usize = 14;
/// Maximum number of characters that a rule's content quotes from a sentence; the title and the source need
/// the rest.
const QUOTED_CHARS_MAX: usize = CONTENT_CHARS_MAX / 2;

/// Words that mark a short text as praise.
const PRAISE: &[&str] = &[
    "nice",
    "great",
    "good",
    "love",
    "lovely",
    "awesome",
    "thanks",
    "thank",
    "thx",
    "lgtm",
    "cool",
    "neat",
    "excellent",
    "perfect",
    "+1",
    "clever",
    "beautiful",
    "amazing",
    "like",
    "yay",
    "kudos",
    "👍",
    "❤️",
    "🎉",
    "sweet",
    "elegant",
    "solid",
    "fine",
];

/// First words of a text that is only an answer or a status.
const STATUS: &[&str] = &[
    "done",
    "fixed",
    "addressed",
    "updated",
    "ack",
    "ok",
    "okay",
    "same",
    "ditto",
    "resolved",
    "removed",
    "added",
    "yes",
    "yep",
    "yeah",
    "no",
    "nope",
    "agreed",
    "sure",
    "right",
    "nevermind",
    "never mind",
    "will do",
    "reverted",
    "see above",
    "as above",
];

/// Reads remarks by the signs in their sentences. Needs no model and no network; the same remark always gives the
/// same reading.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeuristicReader;

/// Name and version of the reader.
pub(crate) const HEURISTICS: &str = "heuristics-3";

#[async_trait]
impl RemarkReader for HeuristicReader {
    async fn read_remarks(&self, task: &ReadingTask) -> Result<ReviewReadings, StoreError> {
        let readings = task.remarks.iter().map(|remark| self.read_now(remark)).collect();
        let reading = ReviewReading { reader: HEURISTICS.to_owned(), ..ReviewReading::default() };
        Ok(ReviewReadings { readings, reading })
    }
}

impl HeuristicReader {
    /// Reads one remark, with the same result as [`RemarkReader::read_remarks`].
    pub fn read_now(&self, remark: &Remark) -> RemarkReading {
        let text = RemarkText::parse(&remark.body);
        let features = remark_features(remark, &text);
        let weighed = text.sentences.iter().filter_map(|sentence| weigh_sentence(sentence, &features));
        // `>` and not `>=`: of equally certain sentences the first one is the rule.
        let best = weighed.reduce(|best, next| if next.certainty > best.certainty { next } else { best });
        let quiet = classify_non_request(&text);
        match best {
            // A question may stand next to a rule, but praise and noise have no rule in them.
            Some(best)
                if best.certainty >= RULE_CERTAINTY
                    && quiet.is_none_or(|kind| kind == ReadingKind::Question) =>
            {
                best.into_reading(ReadingKind::Rule, remark)
            }
            best => match (quiet, best) {
                (Some(kind), _) => reading_without_rule(kind, &text),
                (None, Some(best)) => best.into_reading(ReadingKind::OneOff, remark),
                (None, None) => reading_without_rule(ReadingKind::OneOff, &text),
            },
        }
    }
}

/// Sentence that may be a rule, with its certainty and title.
struct RuleCandidate {
    certainty: i32,
    features: Vec<ReadingFeature>,
    sentence: String,
    title: String,
}

impl RuleCandidate {
    fn into_reading(self, kind: ReadingKind, remark: &Remark) -> RemarkReading {
        let names_of = |is_wanted: fn(i32) -> bool| {
            let names = self
                .features
                .iter()
                .filter(|feature| is_wanted(feature.contribution))
                .map(|feature| feature.name.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        let (in_favour, against) =
            (names_of(|contribution| contribution > 0), names_of(|contribution| contribution < 0));
        let mut reason =
            format!("for a rule speaks: {}", if in_favour.is_empty() { "nothing" } else { &in_favour });
        if !against.is_empty() {
            reason.push_str(&format!("; against it: {against}"));
        }
        let rule = RuleText {
            subject: topic::topic_of(&self.title).to_owned(),
            content: rule_content(&self.title, &self.sentence, remark),
            path: phrase::find_folder(&self.sentence),
            title: self.title,
        };
        let certainty = u16::try_from(self.certainty.clamp(0, 1000)).expect("clamped");
        RemarkReading { kind, certainty, features: self.features, rule: Some(rule), reason, model: None }
    }
}

/// Returns the features of the whole text that count for or against a rule in each of its sentences.
fn remark_features(remark: &Remark, text: &RemarkText) -> Vec<ReadingFeature> {
    let mut features = Vec::new();
    let mut add = |is: bool, name: &str, contribution: i32| {
        if is {
            features.push(signs::build_feature(name, contribution, ""));
        }
    };
    add(text.has_suggestion, "suggestion block", -150);
    add(text.is_nit, "calls itself a trifle", -60);
    add(text.chars > LONG_CHARS, "long text", -150);
    add(text.has_bot_marks, "a program's marks", -200);
    add(remark.reply_to.is_some(), "an answer in a thread", -60);
    features
}

/// Scores a sentence as a rule candidate. Returns `None` if it cannot be phrased as an instruction.
fn weigh_sentence(sentence: &str, text_features: &[ReadingFeature]) -> Option<RuleCandidate> {
    // A question is kept whole: without its question mark it could pass for a rule.
    let sentence = if sentence.ends_with('?') { sentence } else { main_clause(sentence) };
    let title = phrase::phrase_imperative(sentence)?;
    let features: Vec<_> =
        signs::sentence_features(sentence).into_iter().chain(text_features.iter().cloned()).collect();
    let certainty = signs::BASE_CERTAINTY + features.iter().map(|feature| feature.contribution).sum::<i32>();
    Some(RuleCandidate { certainty, features, sentence: sentence.to_owned(), title })
}

/// Classifies a remark that requests no change: a question, praise or noise. Returns `None` if it may request one.
fn classify_non_request(text: &RemarkText) -> Option<ReadingKind> {
    let Some(first) = text.sentences.first() else {
        return (!text.has_suggestion && !text.has_code).then_some(ReadingKind::Noise);
    };
    let all: Vec<String> = text.sentences.iter().flat_map(|sentence| lowercase_words(sentence)).collect();
    let asks = text.sentences.iter().any(|sentence| sentence.ends_with('?'));
    let demands = text.has_suggestion || text.sentences.iter().any(|sentence| signs::is_imperative(sentence));
    if asks && !demands {
        return Some(ReadingKind::Question);
    }
    let short = all.len() <= PRAISE_WORDS_MAX && !demands && !asks;
    if short && all.iter().any(|word| PRAISE.contains(&word.as_str())) {
        return Some(ReadingKind::Praise);
    }
    let opening = lowercase_words(first).join(" ");
    let status = STATUS.iter().any(|status| opening == *status || opening.starts_with(&format!("{status} ")));
    (status && short).then_some(ReadingKind::Noise)
}

fn reading_without_rule(kind: ReadingKind, text: &RemarkText) -> RemarkReading {
    let reason = match kind {
        ReadingKind::Question => "it asks, and asks for nothing",
        ReadingKind::Praise => "it likes what it sees",
        ReadingKind::Noise => "it answers or reports, and asks for nothing",
        ReadingKind::Rule | ReadingKind::OneOff | ReadingKind::Preference => {
            "no sentence of it can be phrased as one instruction"
        }
    };
    let mut features = Vec::new();
    if text.has_suggestion {
        features.push(signs::build_feature("suggestion block", -150, ""));
    }
    RemarkReading { kind, certainty: 0, features, rule: None, reason: reason.to_owned(), model: None }
}

/// Formats the content of a rule, which agents read on request: the rule's title and its source. Quotes only
/// the sentence that states the rule, because the rest of the remark was meant for people and may have been
/// written to attack an agent.
pub(crate) fn rule_content(title: &str, sentence: &str, remark: &Remark) -> String {
    let by = if remark.by.is_empty() { "somebody whose account is gone" } else { &remark.by };
    let day = remark.at.strftime("%Y-%m-%d");
    let place = match (&remark.path, remark.line) {
        (Some(path), Some(line)) => format!(", at {path}:{line}"),
        (Some(path), None) => format!(", at {path}"),
        (None, _) => String::new(),
    };
    let quoted: String = sentence.trim().chars().take(QUOTED_CHARS_MAX).collect();
    let content = format!(
        "{title}.\n\nFrom a review of {} by {by} on {day}{place}:\n\n{quoted}",
        remark.key.pull_request
    );
    content.chars().take(CONTENT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use retro_core::id::{RemarkKey, RemarkKind, Repository, ReviewedPullRequest};
    use retro_core::remark::AuthorAssociation;

    use super::*;

    fn read(body: &str) -> RemarkReading {
        let pull_request = ReviewedPullRequest { repo: Repository::new("acme/shop").unwrap(), number: 7 };
        HeuristicReader.read_now(&Remark {
            key: RemarkKey { pull_request, kind: RemarkKind::LineComment, id: 1 },
            review: Some(5),
            review_state: None,
            reply_to: None,
            by: "ann".to_owned(),
            bot: false,
            association: AuthorAssociation::Member,
            by_author: false,
            body: body.to_owned(),
            path: Some("src/lib.rs".to_owned()),
            line: Some(3),
            at: "2026-11-20T12:00:00Z".parse().unwrap(),
            url: None,
            edited: false,
            deleted: false,
            truncated: false,
        })
    }

    fn check(body: &str, kind: ReadingKind) {
        let reading = read(body);
        assert_eq!(reading.kind, kind, "{body}: {reading:?}");
    }

    #[test]
    fn a_rule_is_recognised_and_phrased_with_its_source() {
        let reading = read("We do not use sleeping in tests. Imagine how long they would take.");
        assert_eq!(reading.kind, ReadingKind::Rule, "{reading:?}");
        let rule = reading.rule.unwrap();
        assert_eq!((rule.subject.as_str(), rule.title.as_str()), ("tests", "Do not use sleeping in tests"));
        assert!(
            rule.content.contains("acme/shop#7 by ann on 2026-11-20, at src/lib.rs:3"),
            "{}",
            rule.content
        );
        assert!(!rule.content.contains("Imagine"), "what else was said is for people: {}", rule.content);
        check("Always wrap errors with context, as our style guide says.", ReadingKind::Rule);
        check("Prefer `BetterAuthError` over `Error` in this repository", ReadingKind::Rule);
        check("Error messages should never be capitalized, by convention.", ReadingKind::Rule);
        check("Error logs should _not_ be capitalized.", ReadingKind::Rule);
        check("Please try to avoid meaningless names such as `Foo`.", ReadingKind::Rule);
        check("convention: start types with a capital letter", ReadingKind::Rule);
        check("Please add a test for every bug fix", ReadingKind::Rule);
        check("Use `pathlib` rather than `os.path` everywhere", ReadingKind::Rule);
        check("We never catch bare Exception here", ReadingKind::Rule);
        check("All public functions need a docstring", ReadingKind::Rule);
        check("We use Vitest in this repo. Please move the helper to utils, too.", ReadingKind::Rule);
    }

    #[test]
    fn a_request_for_this_change_is_a_one_off_with_its_sentence() {
        let reading = read("Please rename this to `orders`.");
        assert_eq!(reading.kind, ReadingKind::OneOff);
        assert_eq!(reading.rule.map(|rule| rule.title).as_deref(), Some("Rename this to `orders`"));
        check("```suggestion\nlet x = 1;\n```", ReadingKind::OneOff);
        check("I think we should always return early here, but not sure", ReadingKind::OneOff);
        check("nit: add a newline", ReadingKind::OneOff);
        check("Please rename it everywhere", ReadingKind::OneOff);
        check("We never close the file here", ReadingKind::OneOff);
        check("All of the callers need an update", ReadingKind::OneOff);
        check("We use a mutex for this already", ReadingKind::OneOff);
        check("Please add a test for each of these", ReadingKind::OneOff);
    }

    #[test]
    fn questions_praise_and_noise_are_no_rules() {
        check("Why do we always clone this?", ReadingKind::Question);
        check("Nice, I like how this always works!", ReadingKind::Praise);
        check("LGTM", ReadingKind::Praise);
        check("Done.", ReadingKind::Noise);
        check("", ReadingKind::Noise);
        check("> Always do it.", ReadingKind::Noise);
    }
}
