//! The reader without a model: it looks for signs in each sentence, adds them up, and can say what it saw.

use async_trait::async_trait;
use retro_core::finding::CONTENT_CHARS_MAX;
use retro_core::review::{Feature, Reading, ReadingKind, Remark, RuleText};

use crate::text::{Said, head, words};
use crate::{Reader, phrase, signs, topic};

/// From here on the reader itself calls a remark a rule; the policy's bound may be another.
const RULE_CERTAINTY: i32 = 600;
/// A text longer than this reasons, whatever one of its sentences says, in characters.
const LONG_CHARS: usize = 900;
/// Most words of praise, and of an acknowledgement: what is longer says something besides.
const PRAISE_WORDS_MAX: usize = 14;
/// Most characters of the sentence that a rule's content quotes; the source and the folder stand beside it.
const QUOTED_CHARS_MAX: usize = CONTENT_CHARS_MAX / 2;

/// Words that like it.
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

/// What an answer or a status begins with.
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

/// Reads remarks by signs. Needs no model and no network; the same text gives the same reading.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heuristics;

#[async_trait]
impl Reader for Heuristics {
    fn name(&self) -> &str {
        "heuristics-2"
    }

    async fn read(&self, remark: &Remark) -> Reading {
        self.read_now(remark)
    }
}

impl Heuristics {
    /// As [`Reader::read`], at once.
    pub fn read_now(&self, remark: &Remark) -> Reading {
        let said = Said::of(&remark.body);
        let whole = whole(remark, &said);
        let weighed = said.sentences.iter().filter_map(|sentence| weigh(sentence, &whole));
        let best = weighed.reduce(|best, next| if next.certainty > best.certainty { next } else { best });
        let quiet = quiet(&said);
        match best {
            Some(best)
                if best.certainty >= RULE_CERTAINTY
                    && quiet.is_none_or(|kind| kind == ReadingKind::Question) =>
            {
                best.read_as(ReadingKind::Rule, remark)
            }
            best => match (quiet, best) {
                (Some(kind), _) => nothing(kind, &said),
                (None, Some(best)) => best.read_as(ReadingKind::OneOff, remark),
                (None, None) => nothing(ReadingKind::OneOff, &said),
            },
        }
    }
}

/// A sentence that could be a rule.
struct Weighed {
    certainty: i32,
    features: Vec<Feature>,
    sentence: String,
    title: String,
}

impl Weighed {
    fn read_as(self, kind: ReadingKind, remark: &Remark) -> Reading {
        let told = |counts: fn(i32) -> bool| {
            let names = self
                .features
                .iter()
                .filter(|feature| counts(feature.counts))
                .map(|feature| feature.name.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        let (spoke, against) = (told(|counts| counts > 0), told(|counts| counts < 0));
        let mut why = format!("for a rule speaks: {}", if spoke.is_empty() { "nothing" } else { &spoke });
        if !against.is_empty() {
            why.push_str(&format!("; against it: {against}"));
        }
        let rule = RuleText {
            subject: topic::of(&self.title).to_owned(),
            content: content(&self.title, &self.sentence, remark),
            path: phrase::path(&self.sentence),
            title: self.title,
        };
        let certainty = u16::try_from(self.certainty.clamp(0, 1000)).expect("clamped");
        Reading { kind, certainty, features: self.features, rule: Some(rule), why }
    }
}

/// What the text as a whole says for or against any of its sentences being a rule.
fn whole(remark: &Remark, said: &Said) -> Vec<Feature> {
    let mut features = Vec::new();
    let mut add = |is: bool, name: &str, counts: i32| {
        if is {
            features.push(signs::feature(name, counts, ""));
        }
    };
    add(said.suggestion, "suggestion block", -150);
    add(said.nit, "calls itself a trifle", -60);
    add(said.chars > LONG_CHARS, "long text", -150);
    add(said.machine, "a program's marks", -200);
    add(remark.reply_to.is_some(), "an answer in a thread", -60);
    features
}

/// A sentence with what speaks for and against it; `None` when it cannot be phrased as an instruction.
fn weigh(sentence: &str, whole: &[Feature]) -> Option<Weighed> {
    let sentence = if sentence.ends_with('?') { sentence } else { head(sentence) };
    let title = phrase::imperative(sentence)?;
    let features: Vec<_> = signs::of_sentence(sentence).into_iter().chain(whole.iter().cloned()).collect();
    let certainty = signs::BASE + features.iter().map(|feature| feature.counts).sum::<i32>();
    Some(Weighed { certainty, features, sentence: sentence.to_owned(), title })
}

/// What a remark is that asks for nothing; `None`: it may ask for something.
fn quiet(said: &Said) -> Option<ReadingKind> {
    let Some(first) = said.sentences.first() else {
        return (!said.suggestion && !said.code).then_some(ReadingKind::Noise);
    };
    let all: Vec<String> = said.sentences.iter().flat_map(|sentence| words(sentence)).collect();
    let asks = said.sentences.iter().any(|sentence| sentence.ends_with('?'));
    let demands = said.suggestion || said.sentences.iter().any(|sentence| signs::imperative(sentence));
    if asks && !demands {
        return Some(ReadingKind::Question);
    }
    let short = all.len() <= PRAISE_WORDS_MAX && !demands && !asks;
    if short && all.iter().any(|word| PRAISE.contains(&word.as_str())) {
        return Some(ReadingKind::Praise);
    }
    let opening = words(first).join(" ");
    let status = STATUS.iter().any(|status| opening == *status || opening.starts_with(&format!("{status} ")));
    (status && short).then_some(ReadingKind::Noise)
}

fn nothing(kind: ReadingKind, said: &Said) -> Reading {
    let why = match kind {
        ReadingKind::Question => "it asks, and asks for nothing",
        ReadingKind::Praise => "it likes what it sees",
        ReadingKind::Noise => "it answers or reports, and asks for nothing",
        ReadingKind::Rule | ReadingKind::OneOff => "no sentence of it can be phrased as one instruction",
    };
    let mut features = Vec::new();
    if said.suggestion {
        features.push(signs::feature("suggestion block", -150, ""));
    }
    Reading { kind, certainty: 0, features, rule: None, why: why.to_owned() }
}

/// The rule with its source: what a reader gets on request. Only the sentence that states it is quoted: what else stands in the
/// remark was said to people, and may have been written for an agent.
fn content(title: &str, sentence: &str, remark: &Remark) -> String {
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
    use retro_core::review::{Association, PullRequestRef, RemarkKey, RemarkKind, Repository};

    use super::*;

    fn read(body: &str) -> Reading {
        let pull_request = PullRequestRef { repo: Repository::new("acme/shop").unwrap(), number: 7 };
        Heuristics.read_now(&Remark {
            key: RemarkKey { pull_request, kind: RemarkKind::LineComment, id: 1 },
            review: Some(5),
            verdict: None,
            reply_to: None,
            by: "ann".to_owned(),
            bot: false,
            association: Association::Member,
            by_author: false,
            body: body.to_owned(),
            path: Some("src/lib.rs".to_owned()),
            line: Some(3),
            at: "2026-11-20T12:00:00Z".parse().unwrap(),
            url: None,
            edited: false,
            deleted: false,
        })
    }

    fn check(body: &str, kind: ReadingKind) {
        let reading = read(body);
        assert_eq!(reading.kind, kind, "{body}: {reading:?}");
    }

    #[test]
    fn a_rule_is_known_phrased_and_carries_its_source() {
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
    }

    #[test]
    fn what_is_asked_of_this_change_alone_is_a_one_off_with_its_wish() {
        let reading = read("Please rename this to `orders`.");
        assert_eq!(reading.kind, ReadingKind::OneOff);
        assert_eq!(reading.rule.map(|rule| rule.title).as_deref(), Some("Rename this to `orders`"));
        check("```suggestion\nlet x = 1;\n```", ReadingKind::OneOff);
        check("I think we should always return early here, but not sure", ReadingKind::OneOff);
        check("nit: add a newline", ReadingKind::OneOff);
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
