//! A mistake in a prompt, with its place.

use crate::name::PromptName;

/// A mistake in a prompt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {sentence}", .prompt.file_name())]
pub struct PromptProblem {
    /// Prompt with the mistake.
    pub prompt: PromptName,
    /// 1-based line of the mistake; 1 if it is about the whole file.
    pub line: usize,
    /// What is wrong and what to do.
    pub sentence: String,
}
