//! Reloads the pipeline at run time if one of its files has changed.
//!
//! Files are compared by content, because timestamps are unreliable: a mounted folder swaps links below the
//! file, and editors write a copy and rename it. A check reads a few small files. An invalid file is
//! reported once, and the earlier pipeline stays in force, so a mistake in a file does not stop the process.
//!
//! Processes may check at different times. That is safe because a retrospective stores the policy and the version of the
//! pipeline under which it was opened, and every process that works on it uses the stored ones.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

use retro_core::id::WorkflowKey;
use retro_core::pipeline::{CurrentPipelines, PipelineHash, PipelineName, PipelineVersion, ReviewPipelines};
use retro_core::policy::{Policies, Policy};

use crate::available_model::AvailableModel;
use crate::pipeline::Pipeline;
use crate::pipeline_files::PipelineFiles;
use crate::problem::Problems;

/// The policies of all workflows and the prompts, reloadable from the pipelines folder.
#[derive(Debug)]
pub struct PolicySource {
    /// The pipelines folder; `None` if the built-in pipeline is used.
    folder: Option<PathBuf>,
    current: RwLock<Pipeline>,
    /// Result of the last read, valid or not.
    last_read: Mutex<Result<PipelineFiles, Problems>>,
}

/// Result of checking the pipelines folder for changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadResult {
    /// No file has changed since the last check.
    Unchanged,
    /// A file has changed and is in force. Contains a description of each changed value and prompt; empty if none
    /// changed.
    Changed(Vec<String>),
    /// A file has changed but is invalid; the earlier pipeline stays in force.
    Refused(Problems),
}

impl PolicySource {
    /// Reads a pipelines folder; without a folder, the built-in pipeline applies permanently. Fails with a list of all
    /// mistakes.
    pub fn load(pipelines: Option<&Path>) -> Result<Self, Problems> {
        let files = PipelineFiles::read_folder(pipelines)?;
        let pipeline = match pipelines {
            Some(folder) => Pipeline::parse(folder, &files)?,
            None => Pipeline::default(),
        };
        let folder = pipelines.map(Path::to_owned);
        Ok(Self { folder, current: RwLock::new(pipeline), last_read: Mutex::new(Ok(files)) })
    }

    /// Compares the pipelines in force with the models of this process, as [`Pipeline::check_models`] does.
    pub fn check_models(
        &self,
        investigators: Option<AvailableModel>,
        reviewers: Option<AvailableModel>,
    ) -> Result<(), Problems> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.check_models(investigators, reviewers)
    }

    /// Returns `true` if the pipeline comes from a folder, which can change.
    pub const fn can_change(&self) -> bool {
        self.folder.is_some()
    }

    /// Reads the folder and applies its pipeline if it has changed. Blocks briefly while reading, because the
    /// files are small.
    pub fn reload_if_changed(&self) -> ReloadResult {
        let Some(folder) = &self.folder else { return ReloadResult::Unchanged };
        let found = PipelineFiles::read_folder(Some(folder));
        let mut seen = self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        // Files that change while they are read would make a version that nobody wrote: the next check reads them again.
        if *seen == found || PipelineFiles::read_folder(Some(folder)) != found {
            return ReloadResult::Unchanged;
        }
        // Stored before parsing, so an invalid file is reported once and not at every check.
        seen.clone_from(&found);
        match found.and_then(|files| Pipeline::parse(folder, &files)) {
            Ok(pipeline) => {
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                let changed = pipeline.describe_changes_since(&current);
                *current = pipeline;
                ReloadResult::Changed(changed)
            }
            Err(problems) => ReloadResult::Refused(problems),
        }
    }
}

impl Policies for PolicySource {
    fn policy_for(&self, key: &WorkflowKey) -> Policy {
        self.current.read().unwrap_or_else(PoisonError::into_inner).policy_for(key)
    }
}

impl ReviewPipelines for PolicySource {
    fn current_review_pipeline(&self) -> PipelineVersion {
        self.current.read().unwrap_or_else(PoisonError::into_inner).current_review_pipeline()
    }
}

impl CurrentPipelines for PolicySource {
    fn current_version(&self, pipeline: PipelineName) -> PipelineHash {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.version_of(pipeline).hashes().pipeline.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use retro_core::id::{Tenant, Workflow};
    use tempfile::TempDir;

    use super::*;
    use crate::policy_set::POLICY_FILE;

    fn threshold(policies: &PolicySource) -> u32 {
        let workflow = Workflow::new("release").unwrap();
        policies.policy_for(&WorkflowKey { tenant: Tenant::default_tenant(), workflow }).threshold_runs
    }

    #[test]
    fn an_edit_applies_at_the_next_check_and_an_invalid_one_keeps_the_policy() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join(POLICY_FILE);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let write = |text: &str| fs::write(&path, text).unwrap();
        write("[trigger]\nthreshold_runs = 5\n");
        let policies = PolicySource::load(Some(folder.path())).unwrap();
        assert_eq!((threshold(&policies), policies.reload_if_changed()), (5, ReloadResult::Unchanged));

        write("[trigger]\nthreshold_runs = 6\n");
        assert_eq!(threshold(&policies), 5, "nothing changes between two checks");
        assert_eq!(
            policies.reload_if_changed(),
            ReloadResult::Changed(vec!["threshold_runs 5 -> 6".to_owned()])
        );
        assert_eq!((threshold(&policies), policies.reload_if_changed()), (6, ReloadResult::Unchanged));

        write("[trigger]\nthreshold_rnus = 7\n");
        let ReloadResult::Refused(problems) = policies.reload_if_changed() else {
            panic!("the file is invalid")
        };
        assert!(
            problems
                .to_string()
                .ends_with("pipeline.toml:2: unknown key `threshold_rnus`; did you mean `threshold_runs`?")
        );
        assert_eq!(
            (threshold(&policies), policies.reload_if_changed()),
            (6, ReloadResult::Unchanged),
            "the mistake is reported once"
        );

        fs::remove_file(&path).unwrap();
        assert!(matches!(policies.reload_if_changed(), ReloadResult::Refused(_)));
        assert_eq!((threshold(&policies), policies.reload_if_changed()), (6, ReloadResult::Unchanged));

        write("[trigger]\nthreshold_runs = 6 # as before\n");
        assert_eq!(
            policies.reload_if_changed(),
            ReloadResult::Changed(Vec::new()),
            "a repaired file is reported as changed"
        );
    }

    #[test]
    fn an_invalid_file_at_start_is_an_error() {
        let folder = TempDir::new().unwrap();
        let problems = PolicySource::load(Some(folder.path())).unwrap_err();
        assert!(problems.to_string().contains("retrospective/pipeline.toml: "), "{problems}");
        assert!(!PolicySource::load(None).unwrap().can_change());
    }
}
