//! Judges memories at the gate, at write and at read.
//!
//! A memory is read by an agent with rights, so nothing that a stranger wrote may reach it as an order. The
//! gate (`retro_gate`) judges what an agent would be shown *and* the parts that it was made of. It is called
//! directly, not through a port, so no decision can be made without it:
//!
//! - **write**: a hostile observation is refused, and a memory that leads to a danger that the policy holds is
//!   put into quarantine by the change that follows its creation; each retrospective, and each batch of rules,
//!   holds what an earlier version of the gate let through;
//! - **read**: what the gate would refuse or hold is blocked, even before a retrospective has held it.
//!
//! The judgement of a lesson is computed once a process and version of the gate; a lesson that is stated anew is
//! another one. Evidence is added later and is judged whenever it is shown.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use retro_gate::{
    Danger, GATE_VERSION, GateJudgement, GateTexts, Speaker, find_dangers, judge_texts, plain_line,
    quote_as_data, requote_answers, validate_rule_title,
};
use sha2::{Digest, Sha256};

use crate::finding::{CONTENT_CHARS_MAX, QUOTE_CHARS_MAX, Quote, TITLE_CHARS_MAX};
use crate::memory::{Evidence, Lesson, Memory, MemoryScope};
use crate::trajectory::QuotePlace;

/// Decision of the gate about a lesson.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateDecision {
    /// An agent may be shown the lesson.
    Passed,
    /// The lesson leads to a danger that the policy holds: a person decides.
    Held {
        /// Reason, in one sentence for people.
        why: String,
    },
    /// No agent may be shown the lesson. It is not learnt; one that was learnt before the gate objected to it is
    /// put into quarantine, and a person may still release it.
    Refused {
        /// Reason, in one sentence for people.
        why: String,
    },
}

impl GateDecision {
    /// Returns the reason why no agent is shown the lesson, or `None` if it passed.
    pub fn objection(&self) -> Option<&str> {
        match self {
            Self::Passed => None,
            Self::Held { why } | Self::Refused { why } => Some(why),
        }
    }
}

/// Decides if an agent may be shown a lesson of this scope. `held` contains the dangers that the policy holds.
pub fn judge_lesson(scope: &MemoryScope, lesson: &Lesson, held: &[Danger]) -> GateDecision {
    if has_derived_advice(lesson) {
        let why =
            "a person decides: an earlier version made its advice of a sentence that a tool had written";
        return GateDecision::Held { why: why.to_owned() };
    }
    let judged = JUDGEMENTS.judge(scope, lesson);
    if let Some(why) = &judged.refused {
        return GateDecision::Refused { why: why.clone() };
    }
    let dangers = judged.texts.dangers.iter().filter(|sign| held.contains(&sign.danger));
    let mut found: Vec<String> = dangers
        .map(|sign| format!("{} (“{}”)", sign.danger.description().trim_end_matches('.'), sign.excerpt))
        .collect();
    // No words tell who wrote an answer: the maker of the tool, or whoever wrote the page, ticket or row in it.
    if lesson.cue.is_documented() && held.contains(&Danger::DocumentedRule) {
        found.push(Danger::DocumentedRule.description().trim_end_matches('.').to_owned());
    }
    if found.is_empty() {
        return GateDecision::Passed;
    }
    let why = found.join("; ");
    GateDecision::Held { why: format!("a person decides: {why}") }
}

/// Decides if an agent may be shown a memory now. Returns the reason if not: it is held, or the gate objects to
/// it and no operator has released it.
pub fn blocked_reason(memory: &Memory, held: &[Danger]) -> Option<String> {
    if let Some(why) = &memory.quarantine {
        return Some(format!("it is held until a person releases it: {why}"));
    }
    if memory.released_by.is_some() {
        return None;
    }
    judge_lesson(&memory.scope, &memory.lesson, held).objection().map(str::to_owned)
}

/// Returns the reason why a quote may not become evidence, or `None` if it may.
pub fn refused_quote_reason(quote: &Quote) -> Option<String> {
    let texts = GateTexts { parts: vec![&quote.text], ..GateTexts::default() };
    describe_hostile(&judge_texts(&texts))
}

/// Returns the line of a memory as agents are shown it: one line of plain text, with the path of a rule that
/// is confined to one. What a tool answered is quoted again, so a stricter gate also holds for lessons that were
/// learnt before it. A sentence of an agent is shown as its quotation. Empty if nothing of it may be shown.
pub fn shown_title(scope: &MemoryScope, lesson: &Lesson) -> String {
    JUDGEMENTS.judge(scope, lesson).title.clone()
}

/// Returns the content of a memory as agents are shown it: as one line of plain text, with what a tool answered
/// quoted again.
pub fn shown_content(scope: &MemoryScope, lesson: &Lesson) -> String {
    JUDGEMENTS.judge(scope, lesson).content.clone()
}

fn format_title(scope: &MemoryScope, lesson: &Lesson) -> String {
    match scope {
        MemoryScope::Repository { path: Some(path), .. } => {
            plain_line(&format!("{} (in {path})", lesson.title), TITLE_CHARS_MAX)
        }
        MemoryScope::Repository { path: None, .. } => plain_line(&lesson.title, TITLE_CHARS_MAX),
        // A person has worded it: nothing in it is an answer of a tool, and no agent is to be named for it.
        _ if lesson.worded_by.is_some() => plain_line(&lesson.title, TITLE_CHARS_MAX),
        _ if is_remark(lesson) => {
            let room = TITLE_CHARS_MAX - REMARK_FRAME.chars().count();
            let quoted = quote_as_data(&lesson.title, Speaker::Agent, &worked_calls(lesson), room);
            quoted.map_or_else(String::new, |words| REMARK_FRAME.replace("{}", &words))
        }
        _ => {
            let title = plain_line(&lesson.title, TITLE_CHARS_MAX);
            requote_answers(&title, &worked_calls(lesson), TITLE_CHARS_MAX).unwrap_or_default()
        }
    }
}

fn format_content(scope: &MemoryScope, lesson: &Lesson) -> String {
    let content = plain_line(&lesson.content, CONTENT_CHARS_MAX);
    if matches!(scope, MemoryScope::Repository { .. }) || is_prose(lesson) {
        return content;
    }
    requote_answers(&content, &worked_calls(lesson), CONTENT_CHARS_MAX).unwrap_or_default()
}

/// Returns the calls that worked according to a lesson. Only their commands stay in a quotation.
fn worked_calls(lesson: &Lesson) -> Vec<&str> {
    lesson.cue.worked.as_deref().into_iter().collect()
}

/// Frame of an agent's sentence, which attributes it.
const REMARK_FRAME: &str = "An agent noted: “{}”";

/// Returns `true` if the lesson is a sentence of an agent: it was not built from calls, which would name a tool.
pub(crate) const fn is_remark(lesson: &Lesson) -> bool {
    lesson.cue.tool.is_none()
}

/// Returns `true` if title and content are sentences that a person or an agent wrote.
const fn is_prose(lesson: &Lesson) -> bool {
    is_remark(lesson) || lesson.worded_by.is_some()
}

/// Returns `true` if an earlier version built the advice of this lesson from a sentence of a tool: "X must be Y"
/// became "check that X is Y".
fn has_derived_advice(lesson: &Lesson) -> bool {
    !is_prose(lesson)
        && lesson.cue.prefer.is_none()
        && lesson.title.starts_with("Before calling `")
        && lesson.title.contains("`, check that ")
}

/// Returns the scope of a memory as agents are shown it. The path of a rule comes from a pull request.
pub fn shown_scope(mut scope: MemoryScope) -> MemoryScope {
    if let MemoryScope::Repository { path: Some(path), .. } = &mut scope {
        *path = plain_line(path, TITLE_CHARS_MAX);
    }
    scope
}

/// Returns the evidence of a memory as agents are shown it: every quote as data, without those of which nothing
/// may be shown, and without their origins. Empty for a rule: only operators see whole review comments.
pub fn shown_evidence(memory: &Memory) -> Vec<Evidence> {
    if matches!(memory.scope, MemoryScope::Repository { .. }) {
        return Vec::new();
    }
    let worked = worked_calls(&memory.lesson);
    // A quote that nobody has found in a trace is no evidence to an agent.
    let checked = memory.evidence.iter().filter(|evidence| !evidence.is_unchecked());
    let shown = checked.filter_map(|evidence| {
        let Quote { place, text } = &evidence.quote;
        let speaker = match place {
            QuotePlace::SelfFeedback { .. } => Speaker::Agent,
            _ => Speaker::Tool,
        };
        let text = quote_as_data(text, speaker, &worked, QUOTE_CHARS_MAX)?;
        // An agent's sentence keeps its advice, so it must not lead to a danger either.
        if speaker == Speaker::Agent
            && find_dangers(&text).iter().any(|sign| Danger::HELD_BY_DEFAULT.contains(&sign.danger))
        {
            return None;
        }
        let quote = Quote { place: *place, text };
        refused_quote_reason(&evidence.quote).is_none().then(|| Evidence {
            quote,
            origin: crate::finding::EvidenceOrigin::default(),
            ..evidence.clone()
        })
    });
    shown.collect()
}

/// Judgement of one lesson, before the policy is applied.
struct LessonJudgement {
    /// Title and content as agents are shown them.
    title: String,
    content: String,
    texts: GateJudgement,
    refused: Option<String>,
}

impl LessonJudgement {
    fn compute(scope: &MemoryScope, lesson: &Lesson) -> Self {
        let (title, content) = (format_title(scope, lesson), format_content(scope, lesson));
        let Lesson { subject, cue, .. } = lesson;
        let parts =
            [Some(&lesson.title), Some(subject), cue.tool.as_ref(), cue.error.as_ref(), cue.prefer.as_ref()];
        // The content of a lesson about calls tells what failed, and then the calls that worked. Any other content
        // is the lesson in more words.
        let done = match content.find(" Then `") {
            Some(at) if !is_prose(lesson) => &content[at..],
            None if !is_prose(lesson) => "",
            _ => content.as_str(),
        };
        let actions = [Some(title.as_str()), Some(done), cue.prefer.as_deref(), cue.worked.as_deref()];
        let shown = vec![title.as_str(), content.as_str()];
        // The path of a rule comes from a pull request, and the line may be too short for all of it.
        let path = match scope {
            MemoryScope::Repository { path, .. } => path.as_deref(),
            _ => None,
        };
        let parts = parts.into_iter().flatten().map(String::as_str).chain(path);
        let texts = judge_texts(&GateTexts {
            sentences: if is_prose(lesson) { shown.clone() } else { Vec::new() },
            parts: shown.into_iter().chain(parts).collect(),
            actions: actions.into_iter().flatten().collect(),
        });
        let unshown =
            title.is_empty().then(|| "the gate refuses its text: nothing of it may be shown".to_owned());
        let refused = describe_hostile(&texts).or(unshown).or_else(|| {
            let is_rule = matches!(scope, MemoryScope::Repository { .. });
            let problem = is_rule.then(|| validate_rule_title(&lesson.title).err())??;
            Some(format!("the gate refuses its text: it is no instruction about code: {problem}"))
        });
        Self { title, content, texts, refused }
    }
}

pub(crate) fn describe_hostile(judgement: &GateJudgement) -> Option<String> {
    let mut codes: Vec<_> = judgement.hostile.iter().map(|reason| reason.code).collect();
    codes.sort_unstable();
    codes.dedup();
    let all: Vec<_> = codes.iter().map(|code| code.description().trim_end_matches('.')).collect();
    (!all.is_empty()).then(|| format!("the gate refuses its text: {}", all.join("; ")))
}

/// Maximum number of judgements that are kept, at up to two kilobytes each. More lessons than one process
/// hands out in a while.
const JUDGEMENTS_MAX: usize = 16_384;

/// Judgements of lessons by the hash of everything that they depend on. A judgement is a function of its key,
/// so keeping it changes no decision.
struct Judgements(Mutex<HashMap<[u8; 32], Arc<LessonJudgement>>>);

static JUDGEMENTS: LazyLock<Judgements> = LazyLock::new(|| Judgements(Mutex::new(HashMap::new())));

impl Judgements {
    fn judge(&self, scope: &MemoryScope, lesson: &Lesson) -> Arc<LessonJudgement> {
        let key = hash_lesson(scope, lesson);
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return Arc::clone(known);
        }
        // Judged without the lock: a long text must not make other requests wait.
        let judged = Arc::new(LessonJudgement::compute(scope, lesson));
        let mut all = lock();
        if all.len() >= JUDGEMENTS_MAX {
            all.clear();
        }
        all.insert(key, Arc::clone(&judged));
        judged
    }
}

fn hash_lesson(scope: &MemoryScope, lesson: &Lesson) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |text: Option<&str>| {
        // The length in front keeps the parts apart, and tells an absent part from an empty one.
        hash.update(text.map_or(u64::MAX, |text| text.len() as u64).to_le_bytes());
        hash.update(text.unwrap_or_default());
    };
    let path = match scope {
        MemoryScope::Repository { path, .. } => path.as_deref(),
        _ => None,
    };
    let cue = &lesson.cue;
    for text in [Some(scope.kind()), path, Some(&lesson.subject), Some(&lesson.title), Some(&lesson.content)]
    {
        add(text);
    }
    for part in [&cue.tool, &cue.error, &cue.avoid, &cue.prefer, &cue.worked, &lesson.worded_by] {
        add(part.as_deref());
    }
    hash.update(GATE_VERSION.to_le_bytes());
    hash.finalize().into()
}
