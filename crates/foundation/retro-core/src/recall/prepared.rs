//! Lines of the memories that may be presented, prepared once for many runs.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::OnceLock;

use super::RecallCandidate;
use super::fence::{LINE_HEAD_BYTES, RecalledMemory, render_line};
use super::relevance::{ComparedLine, LineIndex, TaskOrder, TextIndex};
use super::task::{RecallTask, TaskVectors};
use crate::gate::{blocked_reason, shown_content, shown_title};
use crate::id::MemoryId;
use crate::memory::{Memory, MemoryScope, MemoryStatus};
use crate::policy::Policy;
use crate::weight::Weight;

/// Memories or rules that an agent may be shown, with their lines of the block, in the order in which they get a place.
/// The tokens of a line are counted once, when it is first tried.
#[derive(Debug, Default)]
pub struct PreparedMemories {
    pub(super) lines: Box<[PreparedLine]>,
    /// Numbers of the lines, the least presented first, and then in their order.
    pub(super) least_presented: Box<[u32]>,
    /// Those that the gate objects to, each with the path of a rule.
    pub(super) blocked: Vec<Option<Box<str>>>,
    pub(super) fence_tokens: OnceLock<u32>,
    pub(super) line_break_tokens: OnceLock<u32>,
    pub(super) hint_tokens: OnceLock<u32>,
}

#[derive(Debug)]
pub(super) struct PreparedLine {
    pub(super) id: MemoryId,
    pub(super) weight: Weight,
    /// Line of the block, without its line break.
    pub(super) text: Box<str>,
    /// Title, if it is not the end of `text`.
    title: Option<Box<str>>,
    /// Path of a rule that applies only to it.
    pub(super) path: Option<Box<str>>,
    pub(super) tokens: OnceLock<u32>,
    pub(super) presentations: u64,
    /// Title as it is stored, by which embedders know the memory, if it is not the one that is shown.
    stored_title: Option<Box<str>>,
}

impl PreparedMemories {
    /// Prepares the candidates that an agent may be shown: those that are active, heavy enough, neither disabled nor
    /// held, and to which the gate does not object.
    pub fn new(mut candidates: Vec<RecallCandidate>, policy: &Policy) -> Self {
        candidates.retain(|candidate| is_eligible(&candidate.memory, policy));
        let (mut candidates, blocked): (Vec<_>, Vec<_>) = candidates
            .into_iter()
            .partition(|candidate| blocked_reason(&candidate.memory, &policy.held_dangers).is_none());
        let blocked = blocked.iter().map(|candidate| rule_path(&candidate.memory)).collect();
        // Highest weight first, then fewest presentations, then oldest, then lowest id.
        candidates.sort_by_key(|one| {
            (Reverse(one.memory.weight), one.presentations, one.memory.created_at, one.memory.id)
        });
        // A list of its own: one that takes over the candidates' allocation would keep their much larger size.
        let mut lines = Vec::with_capacity(candidates.len());
        lines.extend(candidates.into_iter().map(PreparedLine::new));
        let lines = lines.into_boxed_slice();
        let mut least_presented: Box<[u32]> = (0..).take(lines.len()).collect();
        least_presented.sort_by_key(|at| lines[*at as usize].presentations);
        Self { lines, least_presented, blocked, ..Self::default() }
    }

    /// Returns the approximate size in memory, in bytes.
    pub fn size_bytes(&self) -> usize {
        let texts = |line: &PreparedLine| {
            let optional = [&line.title, &line.path, &line.stored_title].into_iter().flatten();
            line.text.len() + optional.map(|text| text.len()).sum::<usize>()
        };
        size_of::<Self>()
            + self
                .lines
                .iter()
                .map(|line| size_of::<PreparedLine>() + size_of::<u32>() + texts(line))
                .sum::<usize>()
    }

    /// Indexes the texts of the memories, for runs that name their tasks. The contents, which only an index needs, are
    /// those of `candidates`; of a memory that is not among them any more, the title is indexed alone. Takes time linear
    /// in the length of the texts.
    pub fn index_texts(&self, candidates: &[RecallCandidate]) -> TextIndex {
        let shown = |memory: &Memory| shown_content(&memory.scope, &memory.lesson);
        let mut contents: HashMap<MemoryId, String> =
            candidates.iter().map(|one| (one.memory.id, shown(&one.memory))).collect();
        let index = |line: &PreparedLine| {
            LineIndex::new(line.title(), &contents.remove(&line.id).unwrap_or_default())
        };
        TextIndex(self.lines.iter().map(index).collect())
    }

    /// Orders the memories for a task: by weight and relevance, and equal ones as without a task. `index` is the index of
    /// these memories. Takes time linear in the number of their terms.
    ///
    /// `vectors` are those of another embedder than the built-in one.
    pub fn order_for_task<'t>(
        &self,
        index: &'t TextIndex,
        task: &'t RecallTask,
        vectors: Option<&TaskVectors>,
    ) -> TaskOrder<'t> {
        let lines: Vec<_> = self.lines.iter().map(PreparedLine::compared).collect();
        TaskOrder::new(task, index, vectors, &lines)
    }

    /// Returns the titles whose vectors [`order_for_task`](Self::order_for_task) uses.
    pub fn compared_titles(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(PreparedLine::compared_title)
    }
}

impl PreparedLine {
    fn new(candidate: RecallCandidate) -> Self {
        let RecallCandidate { memory, presentations } = candidate;
        let (id, weight) = (memory.id, memory.weight);
        let title = shown_title(&memory.scope, &memory.lesson);
        let text = render_line(id, weight, &title).into_boxed_str();
        let stored = memory.lesson.comparison_text();
        let stored_title = (stored != title).then(|| Box::from(stored));
        let title = (text.get(LINE_HEAD_BYTES..) != Some(&title)).then(|| title.into_boxed_str());
        let (path, tokens) = (rule_path(&memory), OnceLock::new());
        Self { id, weight, text, title, path, tokens, presentations, stored_title }
    }

    fn title(&self) -> &str {
        self.title.as_deref().unwrap_or_else(|| &self.text[LINE_HEAD_BYTES..])
    }

    fn compared(&self) -> ComparedLine<'_> {
        ComparedLine { weight: self.weight, title: self.compared_title() }
    }

    /// Returns the title by which embedders know the memory.
    pub(super) fn compared_title(&self) -> &str {
        self.stored_title.as_deref().unwrap_or_else(|| self.title())
    }

    pub(super) fn recalled(&self, newcomer: bool) -> RecalledMemory {
        let title = self.title().to_owned();
        RecalledMemory { id: self.id, weight: self.weight, title, newcomer, because: None }
    }
}

fn is_eligible(memory: &Memory, policy: &Policy) -> bool {
    memory.status == MemoryStatus::Active
        && memory.disabled_by.is_none()
        && memory.weight.get() >= policy.inject_weight_min
}

fn rule_path(memory: &Memory) -> Option<Box<str>> {
    match &memory.scope {
        MemoryScope::Repository { path, .. } => path.as_deref().map(Box::from),
        _ => None,
    }
}
