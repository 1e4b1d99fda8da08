//! Settings of the pipeline by which reviews are read.

use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, Serialize};
use serde_json::{Value, to_value};

use crate::model_use::{ModelBudget, SpendingLimit};
use crate::pipeline::Section;

/// Sections of `review/pipeline.toml`, in the order of the file. Each key of [`ReviewSettings`] is in exactly one.
pub const REVIEW_SECTIONS: &[Section] = &[
    Section {
        name: "review",
        doc: "How the remarks of a review are read.",
        keys: &[
            "remarks_per_call",
            "remark_chars_max",
            "model_remarks_max",
            "model_rule_certainty",
            "model_one_off_certainty",
            "model_disagrees_delta",
        ],
    },
    Section {
        name: "budget",
        doc: "What a language model may use. The budget of a day is in the configuration, because it is over everything.",
        keys: &["review_tokens_max", "review_cents_max"],
    },
];

/// Keys that were added after the first versions were stored. While such a key has its default value, it is omitted from the
/// stored and hashed form, so an unchanged pipeline keeps its version.
const KEYS_ADDED: &[&str] = &["review_tokens_max", "review_cents_max"];

/// Settings of reading reviews. Certainties are in thousandths. A field that is missing in the configuration takes its
/// default. How certain a rule has to be is `rule_certainty_min` of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReviewSettings {
    /// Maximum number of remarks that one call of a language model reads. More are read in several calls.
    #[schemars(range(min = 1, max = 100))]
    pub remarks_per_call: u32,
    /// Maximum number of characters of a remark that a language model is shown. What is cut off is said beside it.
    #[schemars(range(min = 200, max = 20_000))]
    pub remark_chars_max: u32,
    /// Maximum number of remarks of one pull request that a language model reads, in the order of their keys. The heuristics
    /// alone read the others, and the report says so.
    #[schemars(range(min = 1, max = 500))]
    pub model_remarks_max: u32,
    /// Certainty of a rule that a language model quotes and the heuristics did not take, in thousandths.
    #[schemars(range(min = 0, max = 1000))]
    pub model_rule_certainty: u16,
    /// Certainty of a one-off request that a language model quotes and the heuristics could not phrase, in thousandths. By
    /// default the same request on a second pull request makes a rule of it.
    #[schemars(range(min = 0, max = 1000))]
    pub model_one_off_certainty: u16,
    /// Change of the certainty of a rule that the heuristics took, if a language model quotes the remark and says that it
    /// is none, in thousandths.
    #[schemars(range(min = -1000, max = 0))]
    pub model_disagrees_delta: i32,
    /// Maximum number of tokens of reading the reviews of one pull request, over all decisions about it; 0 for no bound. The
    /// heuristics alone read the remarks for which nothing is left, and the report says so.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub review_tokens_max: u64,
    /// Maximum cost of reading the reviews of one pull request, in hundredths of a US dollar; 0 for no bound. Needs the price
    /// of the model in `model_prices` of the configuration.
    #[schemars(range(min = 0, max = 100_000_000))]
    pub review_cents_max: u64,
}

impl Default for ReviewSettings {
    fn default() -> Self {
        Self {
            remarks_per_call: 20,
            remark_chars_max: 2000,
            model_remarks_max: 200,
            model_rule_certainty: 700,
            model_one_off_certainty: 350,
            model_disagrees_delta: -300,
            review_tokens_max: 200_000,
            review_cents_max: 0,
        }
    }
}

/// Error for a setting that is out of bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is {value}; it must be {low} to {high}")]
pub struct ReviewSettingsError {
    /// Key of the value, as written in `pipeline.toml`.
    pub key: String,
    /// Value that is out of bounds.
    pub value: i64,
    /// Minimum allowed value.
    pub low: i64,
    /// Maximum allowed value.
    pub high: i64,
}

impl ReviewSettings {
    /// Reads settings from their stored form. Keys of another version of the program are ignored, and values that are missing
    /// or out of bounds take their defaults, so what is stored can always be used.
    pub fn from_stored(stored: &Value) -> Self {
        let mut settings = to_value(Self::default()).expect("settings are plain data");
        let given = stored.as_object().into_iter().flatten();
        for (key, value) in given {
            let Some(old) = settings.get(key).cloned() else { continue };
            settings[key] = value.clone();
            let is_valid =
                serde_json::from_value::<Self>(settings.clone()).is_ok_and(|one| one.validate().is_ok());
            if !is_valid {
                settings[key] = old;
            }
        }
        serde_json::from_value(settings).expect("each value was checked")
    }

    /// Returns the settings as they are stored with a version: all keys except those that were added later and still have their
    /// default value.
    pub fn stored_value(&self) -> Value {
        let mut value = to_value(self).expect("settings are plain data");
        let defaults = to_value(Self::default()).expect("settings are plain data");
        if let Value::Object(keys) = &mut value {
            keys.retain(|key, value| !KEYS_ADDED.contains(&key.as_str()) || *value != defaults[key]);
        }
        value
    }

    /// Returns the budget of the reviews of one pull request. `day` is the bound over everything, which the operator sets.
    pub fn model_budget(&self, day: SpendingLimit) -> ModelBudget {
        let review = SpendingLimit::new(self.review_tokens_max, self.review_cents_max);
        ModelBudget { review, day, ..ModelBudget::default() }
    }

    /// Returns the key of a bound of the cost that is set; `None` if no cost is bounded.
    pub const fn money_bound(&self) -> Option<&'static str> {
        if self.review_cents_max > 0 { Some("review_cents_max") } else { None }
    }

    /// Checks that every value is within the bounds of its field. Fails with all violations.
    pub fn validate(&self) -> Result<(), Vec<ReviewSettingsError>> {
        let schema = schema_for!(Self).to_value();
        let values = to_value(self).expect("settings are plain data");
        let fields = schema["properties"].as_object().into_iter().flatten();
        let out = fields.filter_map(|(key, field)| {
            let (low, high) = (field["minimum"].as_i64()?, field["maximum"].as_i64()?);
            let value = values[key].as_i64()?;
            let is_out = !(low..=high).contains(&value);
            is_out.then(|| ReviewSettingsError { key: key.clone(), value, low, high })
        });
        let found: Vec<_> = out.collect();
        if found.is_empty() { Ok(()) } else { Err(found) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_defaults_are_valid_and_every_number_has_bounds() {
        assert_eq!(ReviewSettings::default().validate(), Ok(()));
        let wrong = ReviewSettings { remarks_per_call: 0, ..ReviewSettings::default() };
        let problem = wrong.validate().unwrap_err()[0].to_string();
        assert_eq!(problem, "`remarks_per_call` is 0; it must be 1 to 100");
        let schema = schema_for!(ReviewSettings).to_value();
        for (key, field) in schema["properties"].as_object().unwrap() {
            assert!(field["minimum"].is_i64() && field["maximum"].is_i64(), "{key}");
            let sections = REVIEW_SECTIONS.iter().filter(|section| section.keys.contains(&key.as_str()));
            assert_eq!(sections.count(), 1, "{key}");
        }
    }

    #[test]
    fn what_another_version_stored_can_be_used() {
        let stored = json!({"remarks_per_call": 7, "remark_chars_max": 1, "gone": true});
        let read = ReviewSettings::from_stored(&stored);
        assert_eq!(read, ReviewSettings { remarks_per_call: 7, ..ReviewSettings::default() });
        assert_eq!(ReviewSettings::from_stored(&Value::Null), ReviewSettings::default());
        let stored = ReviewSettings { review_cents_max: 5, ..ReviewSettings::default() }.stored_value();
        assert_eq!(
            (stored.get("review_cents_max"), stored.get("review_tokens_max")),
            (Some(&json!(5)), None),
            "what did not exist when versions were stored first is stored only if it differs"
        );
        assert_eq!(ReviewSettings::from_stored(&stored).review_cents_max, 5);
    }
}
