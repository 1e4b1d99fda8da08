//! Collects the texts that a decision may compare, before their vectors are resolved.

use std::collections::{BTreeMap, HashSet};

use crate::audience::Audience;
use crate::memory::{Lesson, Memory, MemoryScope, Tombstone};

/// Lessons that a decision may compare, by scope, whatever its audience is. Only lessons of one scope are compared, and only in scopes
/// with a new lesson.
#[derive(Debug, Default)]
pub(crate) struct ComparedLessons<'l> {
    scopes: BTreeMap<MemoryScope, ScopeLessons<'l>>,
}

/// Lessons of one scope that a decision may compare.
#[derive(Debug, Default)]
struct ScopeLessons<'l> {
    /// Lessons that are compared with every lesson of the scope.
    new: Vec<&'l Lesson>,
    /// Stored lessons that are compared with every lesson of the scope, because it has new ones.
    peers: Vec<&'l Lesson>,
    /// Lessons that are compared with the new ones only.
    known: Vec<&'l Lesson>,
}

impl<'l> ComparedLessons<'l> {
    /// Adds a lesson that is compared with every lesson of its scope.
    pub(crate) fn add_new(&mut self, scope: &MemoryScope, lesson: &'l Lesson) {
        self.scopes.entry(whole_step(scope)).or_default().new.push(lesson);
    }

    /// Adds a stored lesson that is compared with every lesson of its scope, if the scope has a new one.
    pub(crate) fn add_peer(&mut self, scope: &MemoryScope, lesson: &'l Lesson) {
        if let Some(lessons) = self.scopes.get_mut(&whole_step(scope)) {
            lessons.peers.push(lesson);
        }
    }

    /// Adds a stored lesson that is compared with the new lessons of its scope, if it has any.
    pub(crate) fn add_known(&mut self, scope: &MemoryScope, lesson: &'l Lesson) {
        if let Some(lessons) = self.scopes.get_mut(&whole_step(scope)) {
            lessons.known.push(lesson);
        }
    }

    /// Adds stored memories and tombstones that are compared with the new lessons of their scopes.
    pub(crate) fn add_all_known(&mut self, memories: &'l [Memory], tombstones: &'l [Tombstone]) {
        for memory in memories {
            self.add_known(&memory.scope, &memory.lesson);
        }
        for tombstone in tombstones {
            self.add_known(&tombstone.scope, &tombstone.lesson);
        }
    }

    /// Returns the texts, each once. New texts come first, because only a limited number of them is embedded at
    /// a time, and the vectors of known ones are stored sooner or later.
    pub(crate) fn into_texts(self) -> Vec<String> {
        let scopes: Vec<_> = self.scopes.into_values().filter(ScopeLessons::compares_texts).collect();
        let new = scopes.iter().flat_map(|scope| &scope.new);
        let peers = scopes.iter().flat_map(|scope| &scope.peers);
        let known = scopes.iter().flat_map(ScopeLessons::known_texts);
        let all = new.chain(peers).map(|lesson| lesson.comparison_text()).chain(known);
        let mut seen = HashSet::new();
        all.filter(|text| seen.insert(*text)).map(str::to_owned).collect()
    }
}

impl<'l> ScopeLessons<'l> {
    /// Returns `true` if at least one pair of lessons is compared by text: two signatures are compared without
    /// their texts.
    fn compares_texts(&self) -> bool {
        let all = || self.new.iter().chain(&self.peers).chain(&self.known);
        all().count() > 1 && all().any(has_no_signature)
    }

    /// Returns the texts of the known lessons that are compared by text with at least one new lesson or peer.
    fn known_texts(&self) -> impl Iterator<Item = &'l str> {
        let by_text = self.new.iter().chain(&self.peers).any(has_no_signature);
        let compared = self.known.iter().filter(move |lesson| by_text || has_no_signature(lesson));
        compared.map(|lesson| lesson.comparison_text())
    }
}

/// Returns the scope without its audience: what two repositories have shown is compared to widen it.
fn whole_step(scope: &MemoryScope) -> MemoryScope {
    match scope {
        MemoryScope::Step { workflow, step, .. } => {
            let (workflow, step) = (workflow.clone(), step.clone());
            MemoryScope::Step { workflow, step, audience: Audience::Everyone }
        }
        other => other.clone(),
    }
}

fn has_no_signature(lesson: &&Lesson) -> bool {
    lesson.cue.signature().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::LessonCue;
    use crate::id::{Step, Workflow};

    fn scope(step: &str) -> MemoryScope {
        MemoryScope::Step {
            workflow: Workflow::new("w").unwrap(),
            step: Step::new(step).unwrap(),
            audience: Audience::Everyone,
        }
    }

    fn unsigned(title: &str) -> Lesson {
        Lesson {
            subject: String::new(),
            title: title.into(),
            content: String::new(),
            cue: LessonCue::default(),
            worded_by: None,
        }
    }

    fn signed(title: &str) -> Lesson {
        let cue = LessonCue { tool: Some("sh".into()), error: Some(title.into()), ..LessonCue::default() };
        Lesson { cue, ..unsigned(title) }
    }

    /// Returns the texts of new and known lessons of one scope.
    fn texts(new: &[Lesson], known: &[Lesson]) -> Vec<String> {
        let here = scope("here");
        let mut compared = ComparedLessons::default();
        new.iter().for_each(|lesson| compared.add_new(&here, lesson));
        known.iter().for_each(|lesson| compared.add_known(&here, lesson));
        compared.into_texts()
    }

    #[test]
    fn two_signatures_need_no_texts() {
        assert!(texts(&[signed("a")], &[signed("b"), signed("c")]).is_empty());
        assert_eq!(texts(&[signed("a")], &[signed("b"), unsigned("c")]), ["a", "c"]);
        assert_eq!(texts(&[signed("a"), unsigned("b")], &[signed("c")]), ["a", "b", "c"]);
    }

    #[test]
    fn a_lesson_alone_in_its_scope_is_not_compared() {
        assert!(texts(&[unsigned("a")], &[]).is_empty());
        assert!(texts(&[], &[unsigned("a"), unsigned("b")]).is_empty());
        let (here, elsewhere) = (scope("here"), scope("elsewhere"));
        let (new, known) = (unsigned("a"), unsigned("b"));
        let mut compared = ComparedLessons::default();
        compared.add_new(&here, &new);
        compared.add_known(&elsewhere, &known);
        compared.add_peer(&elsewhere, &known);
        assert!(compared.into_texts().is_empty());
    }

    #[test]
    fn a_text_is_returned_once_and_new_ones_come_first() {
        assert_eq!(texts(&[unsigned("z"), unsigned("b")], &[unsigned("b"), unsigned("a")]), ["z", "b", "a"]);
    }

    #[test]
    fn new_texts_of_every_scope_come_before_stored_ones() {
        let (first, second) = (scope("a"), scope("b"));
        let [new_a, peer_a, new_b, peer_b] = ["1", "2", "3", "4"].map(unsigned);
        let mut compared = ComparedLessons::default();
        compared.add_new(&first, &new_a);
        compared.add_new(&second, &new_b);
        compared.add_peer(&first, &peer_a);
        compared.add_peer(&second, &peer_b);
        assert_eq!(compared.into_texts(), ["1", "3", "2", "4"]);
    }
}
