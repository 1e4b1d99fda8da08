//! The policy book that is read again when its file changes, so that nobody has to restart anything.
//!
//! The file is compared by its content: a mounted folder swaps links below it, editors write aside and rename, and
//! time stamps tell neither. A look is one read of a small file. A file that cannot be used leaves the edition as it was, so a
//! slip of the pen stops nothing, and is told once.
//!
//! Processes look at different moments. That is as it should be: a retrospective is opened under the policy that the
//! opening process has read, keeps it in the store, and whoever works on it takes it from there.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

use retro_core::id::WorkflowKey;
use retro_core::policy::{Policies, Policy};

use crate::document;
use crate::edition::{Edition, FILE};
use crate::problem::Problems;

/// The policy of every workflow as the file says it now.
#[derive(Debug)]
pub struct PolicyBook {
    /// None when the built-in policy holds.
    path: Option<PathBuf>,
    edition: RwLock<Edition>,
    /// What the file held at the last look, usable or not.
    seen: Mutex<Result<String, Problems>>,
}

/// What a look at the file found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Looked {
    /// What was there before.
    Same,
    /// Another policy is in force; what differs, or nothing when only the words did.
    Changed(Vec<String>),
    /// It cannot be used, and the earlier policy stays in force.
    Refused(Problems),
}

impl PolicyBook {
    /// Reads the pipelines folder; without one the built-in policy holds for good. Fails with every mistake.
    pub fn load(pipelines: Option<&Path>) -> Result<Self, Problems> {
        let path = pipelines.map(|folder| folder.join(FILE));
        let text = path.as_deref().map_or(Ok(String::new()), document::read)?;
        let edition = match &path {
            Some(path) => Edition::parse(path, &text)?,
            None => Edition::default(),
        };
        Ok(Self { path, edition: RwLock::new(edition), seen: Mutex::new(Ok(text)) })
    }

    /// Whether there is a file that could change.
    pub fn can_change(&self) -> bool {
        self.path.is_some()
    }

    /// Looks at the file, and takes up what it says. Blocks for the read of a small file.
    pub fn look(&self) -> Looked {
        let Some(path) = &self.path else { return Looked::Same };
        let found = document::read(path);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == found {
            return Looked::Same;
        }
        seen.clone_from(&found);
        match found.and_then(|text| Edition::parse(path, &text)) {
            Ok(edition) => {
                let mut current = self.edition.write().unwrap_or_else(PoisonError::into_inner);
                let changed = edition.changed_since(&current);
                *current = edition;
                Looked::Changed(changed)
            }
            Err(problems) => Looked::Refused(problems),
        }
    }
}

impl Policies for PolicyBook {
    fn of(&self, key: &WorkflowKey) -> Policy {
        self.edition.read().unwrap_or_else(PoisonError::into_inner).of(key)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use retro_core::id::{Tenant, Workflow};
    use tempfile::TempDir;

    use super::*;

    fn threshold(policies: &PolicyBook) -> u32 {
        let workflow = Workflow::new("release").unwrap();
        policies.of(&WorkflowKey { tenant: Tenant::default_tenant(), workflow }).threshold_runs
    }

    #[test]
    fn an_edit_is_taken_up_at_the_next_look_and_a_broken_one_leaves_the_policy_as_it_was() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join(FILE);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let write = |text: &str| fs::write(&path, text).unwrap();
        write("[policy]\nthreshold_runs = 5\n");
        let policies = PolicyBook::load(Some(folder.path())).unwrap();
        assert_eq!((threshold(&policies), policies.look()), (5, Looked::Same));

        write("[policy]\nthreshold_runs = 6\n");
        assert_eq!(threshold(&policies), 5, "nothing changes between two looks");
        assert_eq!(policies.look(), Looked::Changed(vec!["threshold_runs 5 -> 6".to_owned()]));
        assert_eq!((threshold(&policies), policies.look()), (6, Looked::Same));

        write("[policy]\nthreshold_rnus = 7\n");
        let Looked::Refused(problems) = policies.look() else { panic!("it is broken") };
        assert!(
            problems
                .to_string()
                .ends_with("pipeline.toml:2: unknown key `threshold_rnus`; did you mean `threshold_runs`?")
        );
        assert_eq!((threshold(&policies), policies.look()), (6, Looked::Same), "it is told once");

        fs::remove_file(&path).unwrap();
        assert!(matches!(policies.look(), Looked::Refused(_)));
        assert_eq!((threshold(&policies), policies.look()), (6, Looked::Same));

        write("[policy]\nthreshold_runs = 6 # as before\n");
        assert_eq!(policies.look(), Looked::Changed(Vec::new()), "whoever mended it sees that it is mended");
    }

    #[test]
    fn a_file_that_cannot_be_used_at_the_start_is_an_error() {
        let folder = TempDir::new().unwrap();
        let problems = PolicyBook::load(Some(folder.path())).unwrap_err();
        assert!(problems.to_string().contains("retrospective/pipeline.toml: "), "{problems}");
        assert!(!PolicyBook::load(None).unwrap().can_change());
    }
}
