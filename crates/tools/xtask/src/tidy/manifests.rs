//! Checks the manifests and READMEs of the crates: lints, rustdoc, and dependencies with their reasons.

use toml::{Table, Value};

use super::problem::Problem;
use super::tree::{Crate, Tree};

const DEPENDENCY_TABLES: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

/// Checks that every crate has `[lints] workspace = true`. The workspace's lints do not apply to a crate
/// without it.
pub(super) fn check_lints(tree: &Tree) -> Vec<Problem> {
    let on = |krate: &Crate| {
        let manifest = krate.manifest.parse::<Table>().unwrap_or_default();
        manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(Value::as_bool) == Some(true)
    };
    let without = tree.crates.iter().filter(|krate| !on(krate));
    without.map(|krate| format!("{}/Cargo.toml lacks `[lints] workspace = true`", krate.folder)).collect()
}

/// Checks that every crate has a README and uses it as its rustdoc, so one text also serves `cargo doc` and
/// the doctests.
pub(super) fn check_readmes(tree: &Tree) -> Vec<Problem> {
    let include = r##"#![doc = include_str!("../README.md")]"##;
    let mut problems = Vec::new();
    for krate in &tree.crates {
        let title = format!("# {}\n", krate.name);
        match &krate.readme {
            None => {
                problems.push(format!("{}/README.md is missing: say what the crate is for", krate.folder))
            }
            Some(text) if !text.starts_with(&title) => {
                problems.push(format!(
                    "{}/README.md does not begin with `{}`",
                    krate.folder,
                    title.trim_end()
                ));
            }
            Some(_) => {}
        }
        let roots = ["lib.rs", "main.rs"].map(|file| format!("{}/src/{file}", krate.folder));
        let mut roots = krate.sources.iter().filter(|source| roots.contains(&source.path));
        if !roots.any(|source| source.text.contains(include)) {
            problems.push(format!("{}/src lacks `{include}` in lib.rs or main.rs", krate.folder));
        }
    }
    problems
}

/// Checks that crates declare dependencies with `workspace = true`, so all versions and reasons are in one
/// place.
pub(super) fn check_workspace_dependencies(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for krate in &tree.crates {
        for (name, value) in list_dependencies(&krate.manifest) {
            if value.get("workspace").and_then(Value::as_bool) != Some(true) {
                problems.push(format!(
                    "{}/Cargo.toml specifies `{name}` itself: put it in the root Cargo.toml with a reason",
                    krate.folder
                ));
            }
        }
    }
    problems
}

/// Checks that every shared dependency has a reason at the end of its line and is used by a crate.
pub(super) fn check_dependency_reasons(tree: &Tree) -> Vec<Problem> {
    let used: Vec<_> = tree
        .crates
        .iter()
        .flat_map(|krate| list_dependencies(&krate.manifest))
        .map(|(name, _)| name)
        .collect();
    let mut problems = Vec::new();
    for (number, name, line) in shared_dependencies(&tree.manifest) {
        let ours = line.contains("path = ");
        let reason = line.rsplit_once(" # ").is_some_and(|(_, reason)| reason.trim().len() >= 8);
        if !ours && !reason {
            problems.push(format!(
                "Cargo.toml:{number} gives no reason for `{name}`: end the line with ` # why`"
            ));
        }
        if !used.iter().any(|taken| taken == name) {
            problems.push(format!("Cargo.toml:{number} lists `{name}`, which no crate uses: remove it"));
        }
    }
    problems
}

/// Returns the line number, name and text of each entry in `[workspace.dependencies]`.
fn shared_dependencies(manifest: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    // Read by line, because a parsed table has no comments.
    let numbered = manifest.lines().enumerate().map(|(index, line)| (index + 1, line));
    let from = numbered.skip_while(|(_, line)| *line != "[workspace.dependencies]").skip(1);
    let table = from.take_while(|(_, line)| !line.starts_with('['));
    let entries = table.filter(|(_, line)| !line.starts_with('#') && line.contains(" = "));
    entries.filter_map(|(number, line)| Some((number, line.split_once(" = ")?.0, line)))
}

fn list_dependencies(manifest: &str) -> Vec<(String, Value)> {
    let manifest = manifest.parse::<Table>().unwrap_or_default();
    let of = |table: &Table| -> Vec<(String, Value)> {
        let tables = DEPENDENCY_TABLES.iter().filter_map(|name| table.get(*name)?.as_table());
        tables.flatten().map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let targets = manifest.get("target").and_then(Value::as_table).cloned().unwrap_or_default();
    let of_targets = targets.values().filter_map(Value::as_table).flat_map(of);
    of(&manifest).into_iter().chain(of_targets).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::Source;
    use super::*;

    fn krate(manifest: &str) -> Crate {
        let (name, folder) = ("retro-x".to_owned(), "crates/retro-x".to_owned());
        Crate { name, folder, manifest: manifest.to_owned(), ..Crate::default() }
    }

    fn tree(root: &str, krate: Crate) -> Tree {
        Tree { manifest: root.to_owned(), crates: vec![krate], ..Tree::default() }
    }

    #[test]
    fn a_crate_without_the_workspaces_lints_is_found() {
        assert_eq!(check_lints(&tree("", krate("[package]\n"))).len(), 1);
        assert_eq!(check_lints(&tree("", krate("[lints.clippy]\nall = \"allow\"\n"))).len(), 1);
        assert!(check_lints(&tree("", krate("[lints]\nworkspace = true\n"))).is_empty());
    }

    #[test]
    fn a_missing_readme_and_one_that_is_not_the_rustdoc_are_found() {
        assert_eq!(check_readmes(&tree("", krate(""))).len(), 2);
        let text = r##"#![doc = include_str!("../README.md")]"##.to_owned();
        let sources = vec![Source { path: "crates/retro-x/src/lib.rs".to_owned(), text }];
        let good = Crate { readme: Some("# retro-x\n\nIt.\n".to_owned()), sources, ..krate("") };
        assert!(check_readmes(&tree("", good.clone())).is_empty());
        assert_eq!(check_readmes(&tree("", Crate { readme: Some("# other\n".to_owned()), ..good })).len(), 1);
    }

    #[test]
    fn a_dependency_with_a_version_of_its_own_is_found() {
        let own = "[dependencies]\nserde = \"1\"\n[dev-dependencies]\ninsta.workspace = true\n";
        assert_eq!(check_workspace_dependencies(&tree("", krate(own))).len(), 1);
        let target = "[target.'cfg(unix)'.dependencies]\nnix = \"1\"\n";
        assert_eq!(check_workspace_dependencies(&tree("", krate(target))).len(), 1);
    }

    #[test]
    fn a_dependency_without_a_reason_and_an_unused_one_are_found() {
        let takes = krate("[dependencies]\nserde.workspace = true\n");
        let root = "[workspace.dependencies]\nserde = \"1\"\n[other]\nx = 1\n";
        assert_eq!(check_dependency_reasons(&tree(root, takes.clone())).len(), 1);
        let root = "[workspace.dependencies]\nserde = \"1\" # every wire type\n";
        assert!(check_dependency_reasons(&tree(root, takes.clone())).is_empty());
        let root =
            "[workspace.dependencies]\nserde = \"1\" # every wire type\nleft = \"1\" # it was needed once\n";
        assert_eq!(check_dependency_reasons(&tree(root, takes)).len(), 1);
    }
}
