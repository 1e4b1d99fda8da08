//! Words that a person gives to a lesson.

use crate::finding::{CONTENT_CHARS_MAX, TITLE_CHARS_MAX};
use crate::memory::Lesson;

/// New words for a lesson. A part that is `None` stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LessonWording {
    /// The lesson in one sentence.
    pub title: Option<String>,
    /// Details that an agent gets when it opens the memory.
    pub content: Option<String>,
}

/// Error for a text that is empty or too long.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its {what} must have 1 to {max} characters")]
pub struct TextLengthError {
    /// Name of the text: `title` or `content`.
    pub what: &'static str,
    /// Maximum number of characters.
    pub max: usize,
}

impl LessonWording {
    /// Returns the lesson in these words of the person `by`. Its cue stays, so runs are judged by it as before. The
    /// same words leave the lesson as it is.
    pub(super) fn apply_to(&self, lesson: &Lesson, by: &str) -> Result<Lesson, TextLengthError> {
        let title = word("title", self.title.as_ref(), &lesson.title, TITLE_CHARS_MAX)?;
        // A memory whose content was its title would keep the old words in it.
        let repeats_title = self.content.is_none() && lesson.content == lesson.title;
        let content = match repeats_title {
            true => title.clone(),
            false => word("content", self.content.as_ref(), &lesson.content, CONTENT_CHARS_MAX)?,
        };
        if title == lesson.title && content == lesson.content {
            return Ok(lesson.clone());
        }
        Ok(Lesson { title, content, worded_by: Some(by.to_owned()), ..lesson.clone() })
    }
}

/// Returns the new text without the white space around it, or the old one if there is no new one.
fn word(what: &'static str, new: Option<&String>, old: &str, max: usize) -> Result<String, TextLengthError> {
    let Some(text) = new.map(|text| text.trim()) else { return Ok(old.to_owned()) };
    if (1..=max).contains(&text.chars().count()) {
        Ok(text.to_owned())
    } else {
        Err(TextLengthError { what, max })
    }
}
