//! Law 15: what was learnt in one repository is not handed to another until two have shown it, and what a private one
//! has shown is not handed to a public one.

use std::collections::BTreeSet;

use proptest::prelude::*;
use retro_core::audience::Audience;
use retro_core::memory::{ChangeEffect, Evidence, MemoryScope};

use crate::story::stories;
use crate::{CASES, cases};

/// Checks that readers of the scope may read the evidence.
fn is_readable(scope: &MemoryScope, evidence: &Evidence) -> bool {
    scope.audience().is_some_and(|audience| audience.may_read(evidence.origin.repository.as_ref()))
}

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn evidence_is_readable_by_everyone_who_is_handed_the_memory(story in stories()) {
        let world = story.play(|_, _, applied, after| {
            for change in &applied.changes {
                let evidence = match &change.effect {
                    ChangeEffect::Created { evidence, .. } => evidence.as_ref(),
                    ChangeEffect::Promoted { evidence, .. }
                    | ChangeEffect::Observed { evidence }
                    | ChangeEffect::Revived { evidence } => Some(evidence),
                    _ => None,
                };
                let scope = &after.memories.get(&change.memory).map(|memory| &memory.scope);
                if let Some((scope, evidence)) = scope.zip(evidence) {
                    assert!(is_readable(scope, evidence), "{change:?}");
                }
            }
        });
        for memory in world.memories.values() {
            prop_assert!(memory.evidence.iter().all(|evidence| is_readable(&memory.scope, evidence)));
            let seen: BTreeSet<_> =
                memory.evidence.iter().filter_map(|one| one.origin.repository.as_ref()).map(|one| &one.repo).collect();
            if memory.scope.audience() == Some(&Audience::PrivateRepositories) {
                prop_assert!(seen.len() > 1, "only two repositories make a memory of private ones: {memory:?}");
            }
        }
    }
}
