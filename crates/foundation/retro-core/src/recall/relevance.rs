//! Orders memories by their weight and by what they have in common with a task.
//!
//! **The need.** By weight alone, a step with many memories hands every run the same ones, whatever the run is about.
//!
//! **The design.** The relevance of a memory is a mean of two measures: the words that the task and the memory share
//! (Okapi BM25, with names and paths as terms of their own), and the cosine of their vectors. A long task has a little in
//! common with every memory, so only what exceeds the median of the step counts. The score is the weight plus a bounded
//! bonus that grows with the square of it: what is hardly relevant leaves the order of the weights, and what stands out
//! comes first.
//!
//! Reciprocal rank fusion, the usual way to combine such measures, knows only ranks. The first of several irrelevant
//! memories would gain as much as the first of several relevant ones, and the distance between a weight of 0.900 and
//! one of 0.100 would not count. With a bonus, a heavier memory is never behind a lighter one that is as relevant.
//!
//! The parameters were chosen on one half of two sets of real texts (`cargo xtask eval relevance`), and the gateway's
//! page has the figures of the other half.
//!
//! Everything is computed with integers, so that all machines agree. A text decides about the order alone: which
//! memories are eligible is decided before, without it.

use std::cmp::Reverse;

use super::task::{RecallTask, TaskVectors};
use super::terms::for_each_term;
use crate::similarity::{Embedder as _, MeasuredVector, NgramEmbedder, SimilarityScale, cosine_similarity};
use crate::weight::Weight;

/// Largest bonus, in thousandths, for a relevance of 1.000. A relevance of 0.350 earns as much as a weight of 0.980.
const BONUS_MAX: u32 = 8000;
/// Share of the words in the relevance beside the vectors of the built-in embedder, in thousandths. Those are made of
/// words, too.
const WORDS_SHARE: u32 = 700;
/// Share of the words beside the vectors of another embedder, which may find what is said in other words.
const WORDS_SHARE_OF_MODEL: u32 = 500;
/// Shared information at which the relevance by words is half of its maximum, in thousandths of a bit.
const SHARED_HALF: u64 = 8000;
/// Number of other memories that are assumed to contain none of a task's terms. Otherwise no term would tell anything
/// in a step with one memory.
const OTHER_MEMORIES: u64 = 10;
/// Parameters of BM25, in thousandths, with their usual values: how fast repetitions of a term stop to count, and how
/// much the length of a text counts.
const BM25_K1: u64 = 1200;
const BM25_B: u64 = 750;
/// Divisor of the information of a term that expresses advice, whatever the subject.
const LIGHT_SHARE: u64 = 3;
/// Maximum number of words that are listed as shared with the task.
const WORDS_MAX: usize = 5;

/// Terms and vectors of the texts of prepared memories, which are needed only if a run names its task. Several times as
/// large as the texts.
#[derive(Debug)]
pub struct TextIndex(pub(super) Box<[LineIndex]>);

impl TextIndex {
    /// Returns the approximate size in memory, in bytes.
    pub fn size_bytes(&self) -> usize {
        let bytes =
            |line: &LineIndex| size_of::<LineIndex>() + size_of_val(&*line.terms) + line.vector.heap_bytes();
        size_of::<Self>() + self.0.iter().map(bytes).sum::<usize>()
    }
}

/// Terms and vector of a memory's text.
#[derive(Debug)]
pub(super) struct LineIndex {
    /// Distinct terms by hash, each with the number of its occurrences, sorted by hash.
    terms: Box<[(u32, u8)]>,
    /// Number of all occurrences.
    length: u32,
    /// Vector of the title by the built-in embedder.
    vector: MeasuredVector,
}

impl LineIndex {
    pub(super) fn new(title: &str, content: &str) -> Self {
        let mut hashes = Vec::new();
        for text in [title, content] {
            for_each_term(text, |term| hashes.push(term.hash));
        }
        hashes.sort_unstable();
        let count = |same: &[u32]| (same[0], u8::try_from(same.len()).unwrap_or(u8::MAX));
        let terms = hashes.chunk_by(|one, other| one == other).map(count).collect();
        let length = u32::try_from(hashes.len()).unwrap_or(u32::MAX);
        let vector = NgramEmbedder.embed(title).expect("the built-in embedder has every vector");
        Self { terms, length, vector: MeasuredVector::from_vector(vector) }
    }
}

/// Order in which prepared memories get their places, for one task.
#[derive(Debug)]
pub struct TaskOrder<'t> {
    task: &'t RecallTask,
    index: &'t TextIndex,
    /// Numbers of the lines, best first.
    pub(super) order: Vec<usize>,
    /// Score of each line, by its number.
    pub(super) scores: Vec<LineScore>,
    /// Information of each term of the task, in thousandths of a bit.
    information: Vec<u64>,
}

/// What speaks for a memory, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineScore {
    /// What the memory has in common with the task, at most 1000.
    pub(super) relevance: u16,
    /// `true` if it contains a word of the task that is not mere advice, or if its vector says the same subject.
    pub(super) is_about: bool,
    /// Weight and bonus together.
    pub(super) score: u32,
}

/// What a task is compared with.
pub(super) struct ComparedLine<'l> {
    pub(super) weight: Weight,
    /// Title by which embedders know the memory.
    pub(super) title: &'l str,
}

impl<'t> TaskOrder<'t> {
    /// Orders lines, which are numbered by descending weight, for a task.
    pub(super) fn new(
        task: &'t RecallTask,
        index: &'t TextIndex,
        vectors: Option<&TaskVectors>,
        lines: &[ComparedLine<'_>],
    ) -> Self {
        assert_eq!(index.0.len(), lines.len(), "the index is that of the lines");
        let shared: Vec<_> = index.0.iter().map(|line| find_shared(task, line)).collect();
        let information = weigh_terms(task, &shared);
        let average = index.0.iter().map(|line| u64::from(line.length)).sum::<u64>()
            / u64::try_from(lines.len().max(1)).unwrap_or(u64::MAX);
        let score = |((line, index), shared): ((&ComparedLine<'_>, &LineIndex), &Vec<(usize, u8)>)| {
            let by_words = relevance_by_words(shared, &information, u64::from(index.length), average);
            let of_model = vectors.and_then(|vectors| relevance_by_model(vectors, line.title));
            let by_vectors = of_model.unwrap_or_else(|| relevance_by_n_grams(task, index));
            let words_share = if of_model.is_some() { WORDS_SHARE_OF_MODEL } else { WORDS_SHARE };
            let names_subject = shared.iter().any(|(term, _)| !task.terms[*term].is_light);
            let is_about = names_subject || by_vectors >= SimilarityScale::CONTRADICTION;
            // Less is what any two texts have in common, and would change the order of equal weights.
            let relevance = if is_about { mix_relevance(by_words, by_vectors, words_share) } else { 0 };
            LineScore { relevance, is_about, score: 0 }
        };
        let mut scores: Vec<_> = lines.iter().zip(&index.0).zip(&shared).map(score).collect();
        let median = find_median(&scores);
        for (score, line) in scores.iter_mut().zip(lines) {
            score.score = u32::from(line.weight.get()) + bonus(score.relevance.saturating_sub(median));
        }
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by_key(|at| (Reverse(scores[*at].score), *at));
        Self { task, index, order, scores, information }
    }

    /// Returns `true` if there is nothing to order.
    pub const fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns the words that a line, named by its number, shares with the task, the most telling first and at most
    /// [`WORDS_MAX`].
    pub(super) fn shared_words(&self, at: usize) -> Vec<String> {
        let mut shared = find_shared(self.task, &self.index.0[at]);
        shared.sort_by_key(|(term, _)| (Reverse(self.information[*term]), *term));
        shared.iter().take(WORDS_MAX).map(|(term, _)| self.task.terms[*term].word.clone()).collect()
    }
}

/// Returns the bonus for a relevance, both in thousandths.
pub(super) fn bonus(relevance: u16) -> u32 {
    BONUS_MAX / 1000 * u32::from(relevance) * u32::from(relevance) / 1000
}

fn mix_relevance(by_words: u16, by_vectors: u16, words_share: u32) -> u16 {
    let mixed = u32::from(by_words) * words_share + u32::from(by_vectors) * (1000 - words_share);
    u16::try_from(mixed / 1000).expect("a mean of two that are at most 1000")
}

/// Returns the lower median of the relevance, or 0 without memories.
fn find_median(scores: &[LineScore]) -> u16 {
    let mut relevance: Vec<u16> = scores.iter().map(|score| score.relevance).collect();
    relevance.sort_unstable();
    relevance.get(relevance.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

/// Returns the terms of the task that a text contains, by their number, each with its occurrences in the text.
fn find_shared(task: &RecallTask, index: &LineIndex) -> Vec<(usize, u8)> {
    let mut of_line = index.terms.iter().peekable();
    let mut shared = Vec::new();
    for (nth, term) in task.terms.iter().enumerate() {
        while of_line.next_if(|(hash, _)| *hash < term.hash).is_some() {}
        if let Some((_, count)) = of_line.next_if(|(hash, _)| *hash == term.hash) {
            shared.push((nth, *count));
        }
    }
    shared
}

/// Returns the information of each term of the task in thousandths of a bit: the rarer among the memories, the more.
fn weigh_terms(task: &RecallTask, shared: &[Vec<(usize, u8)>]) -> Vec<u64> {
    let mut containing = vec![0u64; task.terms.len()];
    shared.iter().flatten().for_each(|(term, _)| containing[*term] += 1);
    let memories = shared.len() as u64 + OTHER_MEMORIES;
    let weigh = |(term, containing): (&super::terms::Term, u64)| {
        let information = log2_milli(2 * memories + 2, 2 * containing + 1);
        if term.is_light { information / LIGHT_SHARE } else { information }
    };
    task.terms.iter().zip(containing).map(weigh).collect()
}

/// Returns the relevance by shared terms, in thousandths: their BM25 score, mapped so that it never reaches 1000.
fn relevance_by_words(shared: &[(usize, u8)], information: &[u64], length: u64, average: u64) -> u16 {
    // In thousandths: how much longer than the others the text is.
    let relative = BM25_K1 * (1000 - BM25_B + BM25_B * length / average.max(1)) / 1000;
    let score: u64 = shared
        .iter()
        .map(|(term, count)| {
            let count = u64::from(*count) * 1000;
            information[*term] * count * (1000 + BM25_K1) / ((count + relative) * 1000)
        })
        .sum();
    u16::try_from(score * 1000 / (score + SHARED_HALF)).expect("below 1000")
}

/// Returns the relevance by vectors of another embedder than the built-in one, or `None` if the title has none.
fn relevance_by_model(vectors: &TaskVectors, title: &str) -> Option<u16> {
    let memory = vectors.memories.get(title)?;
    Some(vectors.scale.normalize_cosine(cosine_similarity(&vectors.task, memory)))
}

fn relevance_by_n_grams(task: &RecallTask, index: &LineIndex) -> u16 {
    NgramEmbedder.scale().normalize_cosine(task.vector.cosine_similarity(&index.vector))
}

/// Returns the binary logarithm of a fraction of at least 1, in thousandths. Between powers of two it is linear, and
/// so at most 0.09 too small.
fn log2_milli(numerator: u64, denominator: u64) -> u64 {
    let fixed = (numerator << 16) / denominator.max(1);
    let power = fixed.max(1 << 16).ilog2();
    let rest = fixed.max(1 << 16) - (1 << power);
    u64::from(power - 16) * 1000 + ((rest * 1000) >> power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_exact_at_powers_of_two_and_close_between_them() {
        for (numerator, expected) in [(1, 0), (2, 1000), (8, 3000), (64, 6000)] {
            assert_eq!(log2_milli(numerator, 1), expected);
        }
        for numerator in 1..200u32 {
            let exact = f64::from(numerator).log2() * 1000.0;
            let close = log2_milli(u64::from(numerator), 1) as f64;
            assert!((0.0..=90.0).contains(&(exact - close).max(0.0)), "{numerator}: {close}, {exact}");
        }
        assert_eq!(log2_milli(3, 5), 0, "never negative");
    }
}
