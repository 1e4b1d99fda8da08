//! What the stages of a policy mean, and which of them cannot work.

use super::{InvestigationStage, Policy};

impl Policy {
    /// Returns `true` if the stage takes part in an investigation.
    pub fn has_stage(&self, stage: InvestigationStage) -> bool {
        self.stages.contains(&stage)
    }

    /// Returns `true` if a language model is told what the heuristics found in the run: they are listed, and before it.
    pub fn tells_model_findings(&self) -> bool {
        let place = |stage| self.stages.iter().position(|one| *one == stage);
        let heuristics = place(InvestigationStage::Heuristics);
        heuristics.is_some() && heuristics < place(InvestigationStage::Model)
    }

    /// Says why the stages cannot work, in one sentence; `None` if they can.
    pub(super) fn find_stage_problem(&self) -> Option<String> {
        if self.stages.is_empty() {
            return Some(
                "is empty, so nobody would investigate a run; list \"heuristics\" or \"model\"".to_owned(),
            );
        }
        let repeated = InvestigationStage::ALL
            .iter()
            .find(|stage| self.stages.iter().filter(|one| one == stage).count() > 1)?;
        Some(format!(
            "lists \"{}\" twice; each investigates a run once, and the attempts are `investigation_attempts_max`",
            repeated.as_str()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::InvestigationStage::{Heuristics, Model};
    use super::*;

    fn policy_of(stages: &[InvestigationStage]) -> Policy {
        Policy { stages: stages.to_vec(), ..Policy::default() }
    }

    #[test]
    fn a_model_is_told_what_stages_before_it_found() {
        for (stages, told) in [
            (&[Heuristics, Model][..], true),
            (&[Model, Heuristics], false),
            (&[Model], false),
            (&[Heuristics], false),
        ] {
            let policy = policy_of(stages);
            assert_eq!(policy.validate(), Ok(()), "{stages:?}");
            let both = policy.has_stage(Model) && policy.tells_model_findings();
            assert_eq!(both, told, "{stages:?}");
        }
    }

    #[test]
    fn stages_that_cannot_work_are_refused_with_a_reason() {
        for (stages, reason) in [
            (&[][..], "`stages` is empty, so nobody would investigate a run"),
            (&[Model, Heuristics, Model], "`stages` lists \"model\" twice"),
        ] {
            let problems = policy_of(stages).validate().unwrap_err();
            assert!(problems[0].to_string().starts_with(reason), "{problems:?}");
        }
    }

    #[test]
    fn stages_of_their_default_are_not_stored() {
        let stored = |policy: &Policy| policy.stored_value().get("stages").cloned();
        assert_eq!(stored(&Policy::default()), None);
        assert_eq!(stored(&policy_of(&[Model])), Some(serde_json::json!(["model"])));
    }
}
