//! Reads the workspace as plain data for the checks.

use std::fs::{read_dir, read_to_string};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use cargo_metadata::{DependencyKind, MetadataCommand};

/// Everything in the workspace that the checks read.
#[derive(Default)]
pub(crate) struct Tree {
    /// Text of the root `Cargo.toml`.
    pub(crate) manifest: String,
    /// All workspace crates.
    pub(crate) crates: Vec<Crate>,
    /// Names of all crates that the core links, directly or indirectly.
    pub(crate) core_closure: Vec<String>,
    /// File stem and text of each page in `deploy/runbooks`, one per dead-letter code.
    pub(crate) runbooks: Vec<(String, String)>,
    /// File stem and text of each page in `deploy/runbooks/alerts`.
    pub(crate) alert_pages: Vec<(String, String)>,
    /// Text of the shipped alert rules.
    pub(crate) alerts: String,
    /// Folder and file name of each file in the subfolders of `migrations`, such as `("sqlite",
    /// "0001_baseline.sql")`.
    pub(crate) migrations: Vec<(String, String)>,
    /// Statements of the migrations for SQLite in order, without comments.
    pub(crate) schema: String,
    /// All Markdown files outside hidden folders and build folders.
    pub(crate) manuals: Vec<Manual>,
}

/// Name and files of a crate in the workspace.
#[derive(Default, Clone)]
pub(crate) struct Crate {
    pub(crate) name: String,
    /// Folder of the crate, relative to the workspace root.
    pub(crate) folder: String,
    /// Text of the crate's `Cargo.toml`.
    pub(crate) manifest: String,
    /// Direct dependencies of the crate.
    pub(crate) dependencies: Vec<Dependency>,
    /// Text of the README; `None` if the crate has none.
    pub(crate) readme: Option<String>,
    pub(crate) sources: Vec<Source>,
}

/// A direct dependency of a crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `true` if only tests, examples and benches use the dependency.
    pub(crate) test_only: bool,
}

/// Path and text of a Rust source file.
#[derive(Default, Clone)]
pub(crate) struct Source {
    /// Path relative to the workspace root.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Path, text and links of a Markdown file.
#[derive(Default, Clone)]
pub(crate) struct Manual {
    /// Path relative to the workspace root.
    pub(crate) path: String,
    pub(crate) text: String,
    /// Relative links of the file, each with `true` if its target exists.
    pub(crate) links: Vec<(String, bool)>,
}

/// Line number and text of a line that is not a comment.
pub(crate) type CodeLine<'a> = (usize, &'a str);

impl Source {
    /// Returns the code lines of the program, without its tests.
    pub(crate) fn production_lines(&self) -> Vec<CodeLine<'_>> {
        let tests_from = self.tests_from();
        self.code_lines().into_iter().take_while(|(number, _)| *number < tests_from).collect()
    }

    /// Returns the code lines that are compiled only for tests, examples and benches.
    pub(crate) fn test_lines(&self) -> Vec<CodeLine<'_>> {
        let tests_from = self.tests_from();
        self.code_lines().into_iter().filter(|(number, _)| *number >= tests_from).collect()
    }

    /// Returns the lines of the program, without its tests, including comments.
    pub(crate) fn production_text(&self) -> Vec<&str> {
        self.text.lines().take(self.tests_from() - 1).collect()
    }

    /// Returns `true` for a file that is compiled only for tests, examples and benches.
    pub(crate) fn is_test(&self) -> bool {
        self.tests_from() == 1
    }

    /// Returns every line that is not a comment, with its number.
    pub(crate) fn code_lines(&self) -> Vec<CodeLine<'_>> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
            .collect()
    }

    /// Returns the 1-based number of the first line of tests, or `usize::MAX` if there are none. By
    /// convention, tests are at the end of a file or in separate files.
    fn tests_from(&self) -> usize {
        let own_file = ["/tests/", "/examples/", "/benches/"].iter().any(|folder| self.path.contains(folder))
            || self.path.ends_with("/tests.rs");
        if own_file {
            return 1;
        }
        let lines: Vec<_> = self.text.lines().collect();
        // `mod tests;` declares a separate file, so what follows is still code of the program.
        let inline = lines.windows(2).position(|pair| {
            pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
        });
        inline.map_or(usize::MAX, |index| index + 1)
    }
}

impl Tree {
    /// Reads everything that the checks need from the workspace at `root`.
    pub(crate) fn read_workspace(root: &Path) -> Result<Self> {
        let metadata = MetadataCommand::new()
            .manifest_path(root.join("Cargo.toml"))
            // A check must not change the lock file.
            .other_options(vec!["--locked".to_owned()])
            .no_deps()
            .exec()?;
        let crates = metadata.workspace_packages().into_iter().map(|package| read_crate(root, package));
        Ok(Self {
            manifest: read_text(&root.join("Cargo.toml"))?,
            crates: crates.collect::<Result<_>>()?,
            core_closure: linked_crates(root, "retro-core")?,
            migrations: read_migrations(&root.join("migrations"))?,
            schema: read_schema(&root.join("migrations/sqlite"))?,
            runbooks: read_runbooks(&root.join("deploy/runbooks"))?,
            alert_pages: read_runbooks(&root.join("deploy/runbooks/alerts"))?,
            alerts: read_text(&root.join("deploy/telemetry/alerts.yaml"))?,
            manuals: read_manuals(root, root)?,
        })
    }
}

fn read_crate(root: &Path, package: &cargo_metadata::Package) -> Result<Crate> {
    let folder = package.manifest_path.parent().context("a manifest lies in a folder")?.as_std_path();
    let dependencies = package.dependencies.iter().map(|dependency| Dependency {
        name: dependency.name.clone(),
        test_only: dependency.kind == DependencyKind::Development,
    });
    let mut sources = Vec::new();
    read_sources(root, folder, &mut sources)?;
    Ok(Crate {
        name: package.name.to_string(),
        folder: folder.strip_prefix(root)?.display().to_string(),
        manifest: read_text(package.manifest_path.as_std_path())?,
        dependencies: dependencies.collect(),
        readme: read_to_string(folder.join("README.md")).ok(),
        sources,
    })
}

fn read_sources(root: &Path, folder: &Path, into: &mut Vec<Source>) -> Result<()> {
    let mut entries: Vec<_> = read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    // The order of `read_dir` depends on the file system; the output of the checks must not.
    entries.sort();
    for path in entries {
        if path.is_dir() {
            read_sources(root, &path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let relative = path.strip_prefix(root)?.display().to_string();
            into.push(Source { path: relative, text: read_text(&path)? });
        }
    }
    Ok(())
}

fn read_migrations(folder: &Path) -> Result<Vec<(String, String)>> {
    let mut migrations = Vec::new();
    for database in read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let database = database?;
        if !database.file_type()?.is_dir() {
            continue;
        }
        for file in read_dir(database.path())? {
            let name = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
            migrations.push((name(&database), name(&file?)));
        }
    }
    migrations.sort_unstable();
    Ok(migrations)
}

fn read_schema(folder: &Path) -> Result<String> {
    let mut paths: Vec<_> = read_dir(folder)
        .with_context(|| format!("reading {}", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    paths.sort();
    let texts = paths.iter().map(|path| read_text(path)).collect::<Result<Vec<_>>>()?;
    let lines = texts.iter().flat_map(|text| text.lines());
    let lines: Vec<&str> = lines.map(|line| line.split("--").next().unwrap_or_default()).collect();
    Ok(lines.join("\n"))
}

fn read_runbooks(folder: &Path) -> Result<Vec<(String, String)>> {
    let mut pages = Vec::new();
    for entry in read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // The README is about the folder, not about one code or alert.
        if stem != "README" && !path.is_dir() {
            pages.push((stem, read_text(&path)?));
        }
    }
    pages.sort();
    Ok(pages)
}

fn read_manuals(root: &Path, folder: &Path) -> Result<Vec<Manual>> {
    let mut manuals = Vec::new();
    for entry in read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "target" {
            continue;
        }
        if path.is_dir() {
            manuals.extend(read_manuals(root, &path)?);
        } else if name.ends_with(".md") {
            let text = read_text(&path)?;
            let links = find_links(&text).map(|link| (link.to_owned(), folder.join(link).exists())).collect();
            manuals.push(Manual { path: path.strip_prefix(root)?.display().to_string(), text, links });
        }
    }
    manuals.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(manuals)
}

/// Returns the files to which a text links as `[words](file#place)`. Skips web addresses and rustdoc items.
fn find_links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let files = targets.map(|(target, _)| target.split('#').next().unwrap_or_default());
    files.filter(|file| !file.is_empty() && !file.contains(':') && !file.contains(' '))
}

/// Lists the names of all crates that `package` links, directly or indirectly. Uses `cargo tree`, because
/// `cargo metadata` merges the features that all workspace crates request.
fn linked_crates(root: &Path, package: &str) -> Result<Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["tree", "--locked", "--package", package, "--edges", "normal,build"])
        .args(["--prefix", "none", "--format", "{p}"])
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo tree --package {package} failed: {errors}");
    let listed = String::from_utf8(output.stdout)?;
    let mut names: Vec<_> =
        listed.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

fn read_text(path: &Path) -> Result<String> {
    read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_are_found_and_addresses_are_not() {
        let text = "[a](../b.md), [c](d/#e), [f](https://g.h), [i](#j), [k](crate::l)";
        assert_eq!(find_links(text).collect::<Vec<_>>(), ["../b.md", "d/"]);
    }

    #[test]
    fn tests_of_a_file_begin_where_its_test_module_does() {
        let source = Source {
            path: "src/a.rs".to_owned(),
            text: "a\n// b\n#[cfg(test)]\nmod tests {\n    c\n}\n".to_owned(),
        };
        assert_eq!(source.production_lines(), [(1, "a")]);
        assert_eq!(source.test_lines().len(), 4);
    }
}
