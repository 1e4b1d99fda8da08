//! Defines what a measure of a heuristic is, and its figures.

use anyhow::Result;

use crate::decisions::eval_data::EvalData;

/// Measures one heuristic on one data set.
pub(super) trait Measure {
    /// Name of the measure in the printed table.
    const NAME: &'static str;
    /// Folder of the data set within the evaluation data.
    const SET: &'static str;
    /// Result of the investigator with its label.
    type Case;

    /// Loads all cases of the data set, with the results of the investigator and of the baseline.
    fn load_cases(data: &EvalData) -> Result<Vec<Self::Case>>;

    /// Returns the name of a case's group. Similar cases have the same group, which keeps them in the same
    /// half.
    fn group_key(case: &Self::Case) -> &str;

    /// Computes the figures for the given cases. The number and the order of the figures must not depend on
    /// the cases, because the figures of both halves share a row.
    fn compute_figures(cases: &[&Self::Case]) -> Vec<Figure>;

    /// Describes the mistake in a case. Returns `None` if the investigator's result is correct.
    fn describe_mistake(case: &Self::Case) -> Option<String>;
}

/// Measured value with the baseline's value and the goal.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    pub(super) name: String,
    /// Number of cases from which the figure was computed.
    pub(super) cases: usize,
    pub(super) ours: f64,
    pub(super) baseline: f64,
    pub(super) goal: Option<f64>,
    /// Upper bound of a goal that is a range; `None` for all other goals.
    pub(super) at_most: Option<f64>,
}

impl Figure {
    pub(super) fn new(name: impl Into<String>, cases: usize, ours: f64, baseline: f64) -> Self {
        Self { name: name.into(), cases, ours, baseline, goal: None, at_most: None }
    }

    pub(super) fn with_goal(self, goal: f64) -> Self {
        Self { goal: Some(goal), ..self }
    }

    /// Sets a range as the goal, including both bounds.
    pub(super) fn with_range(self, goal: f64, at_most: f64) -> Self {
        Self { goal: Some(goal), at_most: Some(at_most), ..self }
    }

    pub(super) fn is_goal_reached(&self) -> Option<bool> {
        self.goal.map(|goal| (goal..=self.at_most.unwrap_or(f64::INFINITY)).contains(&self.ours))
    }
}
