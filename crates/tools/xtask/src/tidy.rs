//! Checks the layout of the workspace.
//!
//! Each check is a pure function from a [`Tree`] to the problems in it, so tests can pass it a small invalid
//! tree.

mod circles;
mod layering;
mod manifests;
mod manuals;
mod migrations;
pub(crate) mod problem;
mod runbooks;
mod sources;
mod steps;
pub(crate) mod tree;
mod unread;
mod words;

use std::path::Path;

use anyhow::{Result, ensure};

use crate::language;
use problem::Problem;
use tree::Tree;

/// A check function with the rule that it checks.
struct Check {
    name: &'static str,
    find: fn(&Tree) -> Vec<Problem>,
}

const CHECKS: &[Check] = &[
    Check { name: "every crate has a layer and depends only on lower ones", find: layering::check_layers },
    Check { name: "every crate lies in the folder of its layer", find: layering::check_folders },
    Check { name: "the core links no I/O, clock or randomness", find: layering::check_core_links },
    Check {
        name: "only the listed crates use sqlx, async-nats and the like",
        find: layering::check_confined,
    },
    Check { name: "the closed loop names no crate of the workspace", find: layering::check_closed_loop },
    Check { name: "only the writer may write memory", find: sources::check_writing_right },
    Check {
        name: "the core's source uses neither the clock nor the machine",
        find: sources::check_core_sources,
    },
    Check { name: "no files of a crate import each other in a circle", find: circles::check_circles },
    Check { name: "only the program exports telemetry", find: sources::check_telemetry_export },
    Check { name: "no test is ignored", find: sources::check_no_ignored_test },
    Check { name: "no test sleeps", find: sources::check_no_sleeping_test },
    Check { name: "files are short", find: sources::check_file_lengths },
    Check { name: "every commit, publication and acknowledgement has a label", find: steps::check_wrappers },
    Check {
        name: "no writing statement runs outside a transaction",
        find: steps::check_writes_in_transaction,
    },
    Check { name: "every label is used in one place", find: steps::check_labels },
    Check { name: "every crate has the workspace's lints", find: manifests::check_lints },
    Check { name: "every crate has a README that is its rustdoc", find: manifests::check_readmes },
    Check { name: "dependencies come from the workspace", find: manifests::check_workspace_dependencies },
    Check { name: "every dependency has a reason and is used", find: manifests::check_dependency_reasons },
    Check { name: "both databases have the same migrations", find: migrations::check_same_names },
    Check { name: "every stored column is read", find: unread::check_columns },
    Check { name: "a stage handles everything that is published", find: unread::check_events },
    Check { name: "every dead-letter code has a runbook page", find: runbooks::check_code_pages },
    Check { name: "every alert has a runbook page", find: runbooks::check_alert_pages },
    Check { name: "every relative link in a manual has a target", find: manuals::check_links },
    Check { name: "no text makes an impossible delivery promise", find: manuals::check_promises },
    Check { name: "the glossary's retired words stay retired", find: words::find_retired_words },
    Check {
        name: "names and comments meet the goals of `cargo xtask language`",
        find: language::check_goals,
    },
];

/// Runs every check on the workspace at `root`. Prints all problems, and fails if there are any.
pub(crate) fn run(root: &Path) -> Result<()> {
    let tree = Tree::read_workspace(root)?;
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
    ensure!(found == 0, "{found} problems; each line above says where and what to do");
    println!("tidy: {} checks hold over {} crates", CHECKS.len(), tree.crates.len());
    Ok(())
}
