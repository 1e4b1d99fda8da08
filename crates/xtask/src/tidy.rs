//! Proves the layout. A check is a plain function from a [`Tree`] to the problems in it, so that a test can show it a
//! bad tree of three lines.

mod arrows;
mod manifests;
mod manuals;
mod migrations;
mod runbooks;
mod sources;
mod steps;
pub(crate) mod tree;

use std::path::Path;

use anyhow::{Result, ensure};

use tree::Tree;

/// What is wrong, where, and what to do: one sentence a person can act on.
pub(crate) type Problem = String;

/// A check and the words it goes by.
struct Check {
    name: &'static str,
    find: fn(&Tree) -> Vec<Problem>,
}

const CHECKS: &[Check] = &[
    Check { name: "every crate stands in a layer and names only what lies below", find: arrows::layers },
    Check { name: "the core reaches no I/O, clock or chance", find: arrows::core_is_pure },
    Check { name: "sqlx, async-nats and their like stay in their crates", find: arrows::confined },
    Check { name: "only the writer may write memory", find: sources::writing_right },
    Check { name: "the core's own source asks no clock and no machine", find: sources::core_is_pure },
    Check { name: "no test is ignored", find: sources::no_ignored_test },
    Check { name: "no test sleeps", find: sources::no_sleeping_test },
    Check { name: "files are short", find: sources::short_files },
    Check {
        name: "who commits, publishes or acknowledges says which step it is",
        find: steps::through_wrappers,
    },
    Check { name: "no statement commits by itself", find: steps::writes_commit },
    Check { name: "every step that has a name is taken in one place", find: steps::labels_are_crossed },
    Check { name: "the workspace's lints hold in every crate", find: manifests::lints },
    Check { name: "every crate has a README that is its rustdoc", find: manifests::readme },
    Check { name: "dependencies come from the workspace", find: manifests::from_workspace },
    Check { name: "every dependency has its reason and is used", find: manifests::reasons },
    Check { name: "both databases have the same migrations", find: migrations::same_names },
    Check { name: "every dead-letter code has its page", find: runbooks::one_page_a_code },
    Check { name: "every alert has its page", find: runbooks::one_page_an_alert },
    Check { name: "every link in a manual leads somewhere", find: manuals::links },
    Check { name: "nothing promises what nobody can keep", find: manuals::promises },
];

/// Runs every check over the workspace at `root`; fails with all problems found.
pub(crate) fn run(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    let mut found = 0;
    for check in CHECKS {
        let problems = (check.find)(&tree);
        if !problems.is_empty() {
            println!("tidy: \"{}\" does not hold:", check.name);
        }
        for problem in &problems {
            println!("  {problem}");
        }
        found += problems.len();
    }
    ensure!(found == 0, "{found} untidy; each line above says where, and what to do");
    println!("tidy: {} checks hold over {} crates", CHECKS.len(), tree.crates.len());
    Ok(())
}
