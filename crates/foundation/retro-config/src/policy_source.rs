//! Reloads the policies at run time if their file has changed.
//!
//! The file is compared by content, because timestamps are unreliable: a mounted folder swaps links below the
//! file, and editors write a copy and rename it. A check is a single read of a small file. An invalid file is
//! reported once, and the earlier policies stay in force, so a mistake in the file does not stop the process.
//!
//! Processes may check at different times. That is safe because a retrospective stores the policy under which
//! it was opened, and every process that works on it uses the stored one.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

use retro_core::id::WorkflowKey;
use retro_core::policy::{Policies, Policy};

use crate::document;
use crate::policy_set::{POLICY_FILE, PolicySet};
use crate::problem::Problems;

/// The policies of all workflows, reloadable from the policy file.
#[derive(Debug)]
pub struct PolicySource {
    /// Path of the policy file; `None` if the built-in policy is used.
    path: Option<PathBuf>,
    current: RwLock<PolicySet>,
    /// Result of the last read, valid or not.
    last_read: Mutex<Result<String, Problems>>,
}

/// Result of checking the policy file for changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadResult {
    /// The file has not changed since the last check.
    Unchanged,
    /// The file has changed and is in force. Contains a description of each changed value; empty if no value
    /// changed.
    Changed(Vec<String>),
    /// The file has changed but is invalid; the earlier policies stay in force.
    Refused(Problems),
}

impl PolicySource {
    /// Reads the policy file in a pipelines folder; without a folder, the built-in policy applies
    /// permanently. Fails with a list of all mistakes.
    pub fn load(pipelines: Option<&Path>) -> Result<Self, Problems> {
        let path = pipelines.map(|folder| folder.join(POLICY_FILE));
        let text = path.as_deref().map_or(Ok(String::new()), document::read_document)?;
        let policy_set = match &path {
            Some(path) => PolicySet::parse(path, &text)?,
            None => PolicySet::default(),
        };
        Ok(Self { path, current: RwLock::new(policy_set), last_read: Mutex::new(Ok(text)) })
    }

    /// Returns `true` if the policies come from a file, which can change.
    pub fn can_change(&self) -> bool {
        self.path.is_some()
    }

    /// Reads the file and applies its policies if it has changed. Blocks briefly while reading, because the
    /// file is small.
    pub fn reload_if_changed(&self) -> ReloadResult {
        let Some(path) = &self.path else { return ReloadResult::Unchanged };
        let found = document::read_document(path);
        let mut seen = self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == found {
            return ReloadResult::Unchanged;
        }
        // Stored before parsing, so an invalid file is reported once and not at every check.
        seen.clone_from(&found);
        match found.and_then(|text| PolicySet::parse(path, &text)) {
            Ok(policy_set) => {
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                let changed = policy_set.describe_changes_since(&current);
                *current = policy_set;
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

#[cfg(test)]
mod tests {
    use std::fs;

    use retro_core::id::{Tenant, Workflow};
    use tempfile::TempDir;

    use super::*;

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
        write("[policy]\nthreshold_runs = 5\n");
        let policies = PolicySource::load(Some(folder.path())).unwrap();
        assert_eq!((threshold(&policies), policies.reload_if_changed()), (5, ReloadResult::Unchanged));

        write("[policy]\nthreshold_runs = 6\n");
        assert_eq!(threshold(&policies), 5, "nothing changes between two checks");
        assert_eq!(
            policies.reload_if_changed(),
            ReloadResult::Changed(vec!["threshold_runs 5 -> 6".to_owned()])
        );
        assert_eq!((threshold(&policies), policies.reload_if_changed()), (6, ReloadResult::Unchanged));

        write("[policy]\nthreshold_rnus = 7\n");
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

        write("[policy]\nthreshold_runs = 6 # as before\n");
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
