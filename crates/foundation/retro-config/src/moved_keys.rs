//! Names the keys of the configuration that the pipelines replaced.
//!
//! Such a key is an error and not a second bound beside the new one: two places for one bound would leave open which of them
//! applies, and a value that is ignored would lift a bound that somebody relies on.

/// Moved keys, each with the file and the key that replaced it, both in the table `[budget]`.
const MOVED_KEYS: [(&str, &str, &str); 7] = [
    ("model_turns_max", "retrospective/pipeline.toml", "model_turns_max"),
    ("model_budget_investigation_tokens", "retrospective/pipeline.toml", "investigation_tokens_max"),
    ("model_budget_investigation_cents", "retrospective/pipeline.toml", "investigation_cents_max"),
    ("model_budget_retrospective_tokens", "retrospective/pipeline.toml", "retrospective_tokens_max"),
    ("model_budget_retrospective_cents", "retrospective/pipeline.toml", "retrospective_cents_max"),
    ("model_budget_review_tokens", "review/pipeline.toml", "review_tokens_max"),
    ("model_budget_review_cents", "review/pipeline.toml", "review_cents_max"),
];

/// Says which key of which file replaced a key of the configuration; `None` if none did.
pub(crate) fn describe_moved_key(name: &str) -> Option<String> {
    let (_, file, key) = MOVED_KEYS.into_iter().find(|(moved, ..)| *moved == name)?;
    Some(format!(
        "`{name}` has moved to the pipelines: set `{key}` below `[budget]` in {file} of the folder that `pipelines` names"
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Pipeline, PipelineFiles};

    #[test]
    fn what_replaced_a_key_can_be_written() {
        for (moved, file, key) in MOVED_KEYS {
            let text = (file.to_owned(), format!("[budget]\n{key} = 50\n"));
            let read = Pipeline::parse(Path::new("mine"), &PipelineFiles::from_texts([text].into()));
            assert!(read.is_ok(), "{moved}: {read:?}");
            assert!(describe_moved_key(moved).is_some_and(|text| text.contains(file)));
        }
        assert_eq!(describe_moved_key("model_budget_day_tokens"), None);
    }
}
