//! Checks that the values of a policy are within their bounds and fit together.

use schemars::schema_for;
use serde_json::{Value, to_value};

use super::Policy;

/// Error for a policy value that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A number is out of bounds.
    #[error("`{key}` is {value}; it must be {low} to {high}{}", describe_other(because_of))]
    OutOfBounds {
        /// Key of the value, as written in `pipeline.toml`.
        key: String,
        /// Value that is out of bounds.
        value: i64,
        /// Minimum allowed value.
        low: i64,
        /// Maximum allowed value.
        high: i64,
        /// Key whose value determines the bound; `None` if the bound is fixed.
        because_of: Option<&'static str>,
    },
    /// A value with the right form cannot work.
    #[error("`{key}` {problem}")]
    Unworkable {
        /// Key of the value, as written in `pipeline.toml`.
        key: &'static str,
        /// What is wrong, and what to do.
        problem: String,
    },
}

impl PolicyError {
    /// Returns the key of the value, as written in `pipeline.toml`.
    pub fn key(&self) -> &str {
        match self {
            Self::OutOfBounds { key, .. } => key,
            Self::Unworkable { key, .. } => key,
        }
    }

    /// Returns the key whose value determines what is allowed; `None` if nothing else does.
    pub const fn because_of(&self) -> Option<&'static str> {
        match self {
            Self::OutOfBounds { because_of, .. } => *because_of,
            Self::Unworkable { .. } => None,
        }
    }
}

fn describe_other(because_of: &Option<&'static str>) -> String {
    because_of.map_or(String::new(), |other| format!(", because of `{other}`"))
}

impl Policy {
    /// Checks that every value is within the bounds of its field and consistent with the other values. Fails
    /// with all violations.
    pub fn validate(&self) -> Result<(), Vec<PolicyError>> {
        let mut found = self.range_errors();
        found.extend(self.cross_field_errors());
        let stages = self.find_stage_problem();
        found.extend(stages.map(|problem| PolicyError::Unworkable { key: "stages", problem }));
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    fn range_errors(&self) -> Vec<PolicyError> {
        // The bounds are read from the schema, so the documented and the checked bounds cannot differ.
        let schema = schema_for!(Self).to_value();
        let values = to_value(self).expect("a policy is plain data");
        let fields = schema["properties"].as_object().into_iter().flatten();
        let out = fields.filter_map(|(key, field)| {
            let (low, high) = (field["minimum"].as_i64()?, field["maximum"].as_i64()?);
            let value = integer_value(&values[key])?;
            let out = !(low..=high).contains(&value);
            out.then(|| PolicyError::OutOfBounds { key: key.clone(), value, low, high, because_of: None })
        });
        out.collect()
    }

    /// Returns errors for the values that are within their own bounds but conflict with another value.
    fn cross_field_errors(&self) -> Vec<PolicyError> {
        let weight_min = i64::from(self.inject_weight_min);
        let rules = [
            (
                "inject_newcomers",
                self.inject_newcomers.into(),
                0,
                self.inject_memories_max.into(),
                "inject_memories_max",
            ),
            ("archive_weight", self.archive_weight.into(), 0, weight_min, "inject_weight_min"),
            // Below the injection weight, a confirmed memory would begin in limbo and never be presented.
            ("confirmed_weight", self.confirmed_weight.into(), weight_min, 1000, "inject_weight_min"),
        ];
        let violates = |(_, value, low, high, _): &(_, i64, i64, i64, _)| !(low..=high).contains(&value);
        let to_error = |(key, value, low, high, other): (&str, _, _, _, _)| PolicyError::OutOfBounds {
            key: key.to_owned(),
            value,
            low,
            high,
            because_of: Some(other),
        };
        rules.into_iter().filter(violates).map(to_error).collect()
    }
}

/// Returns a policy value as an integer, or `None` if it is not one. An integer that is too large for an
/// `i64` becomes `i64::MAX`, which exceeds every bound.
fn integer_value(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_u64().map(|_| i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_a_bad_value_is_named() {
        assert_eq!(Policy::default().validate(), Ok(()));
        let error = Policy { harmed_delta: 5, ..Policy::default() }.validate().unwrap_err();
        assert_eq!(error[0].to_string(), "`harmed_delta` is 5; it must be -1000 to 0");
    }

    #[test]
    fn all_invalid_values_are_reported_together() {
        let policy =
            Policy { inject_weight_min: 20, threshold_runs: 0, tombstone_s: u64::MAX, ..Policy::default() };
        let problems: Vec<_> = policy.validate().unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "`threshold_runs` is 0; it must be 1 to 100000",
                "`tombstone_s` is 9223372036854775807; it must be 1 to 315360000",
                "`archive_weight` is 50; it must be 0 to 20, because of `inject_weight_min`",
            ]
        );
    }

    #[test]
    fn every_number_has_bounds() {
        let schema = schema_for!(Policy).to_value();
        for (key, field) in schema["properties"].as_object().unwrap() {
            let bounded = field["minimum"].is_i64() && field["maximum"].is_i64();
            let choice =
                ["sample_order", "held_dangers", "witness", "widen_repositories", "model_refutes", "stages"]
                    .contains(&key.as_str());
            assert!(bounded || choice, "{key}: {field}");
        }
    }
}
