//! No durable step without its name: who commits, publishes or acknowledges goes through the wrapper that takes a
//! `retro_fault::Label`, and each label is crossed where it says.

use std::collections::BTreeMap;

use super::Problem;
use super::tree::{Crate, Source, Tree};

/// What lasts, by the dependency that offers it: the calls, the files that may make them, and what to call instead.
struct Raw {
    dependency: &'static str,
    calls: &'static [&'static str],
    wrappers: &'static [&'static str],
    instead: &'static str,
}

const RAW: &[Raw] = &[
    Raw {
        dependency: "sqlx",
        calls: &[".commit()", "\"COMMIT", ".execute(self.reader())"],
        wrappers: &["crates/retro-store-postgres/src/open.rs", "crates/retro-store-sqlite/src/open.rs"],
        instead: "begin with `write()` and end with `open::commit`, which takes a label",
    },
    Raw {
        dependency: "async-nats",
        calls: &[
            ".publish(",
            ".publish_with_",
            ".send_publish(",
            ".request(",
            ".request_with_",
            ".send_request(",
            ".ack()",
            ".ack_with(",
            ".double_ack(",
            ".double_ack_with(",
            ".create_",
            ".get_or_create_",
            ".update_stream(",
            ".update_consumer(",
            ".delete_",
            ".purge(",
            ".put(",
        ],
        wrappers: &["crates/retro-bus/src/step.rs"],
        instead: "add what is missing to that crate's `step.rs`, under a label",
    },
];

/// Where the labels are.
const LABELS: &str = "crates/retro-fault/src/lib.rs";
/// The crates that each do what a database does, and the one that they share.
const DATABASES: [&str; 2] = ["retro-store-postgres", "retro-store-sqlite"];
const SHARED: &str = "retro-store-sql";

/// Nobody commits, publishes or acknowledges but the wrappers.
pub(super) fn through_wrappers(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for raw in RAW {
        let links = |krate: &&Crate| {
            krate.dependencies.iter().any(|one| one.name == raw.dependency && !one.only_tests)
        };
        for source in tree.crates.iter().filter(links).flat_map(|krate| &krate.sources) {
            if !raw.wrappers.contains(&source.path.as_str()) {
                problems.extend(raw_calls(raw, source));
            }
        }
    }
    problems
}

fn raw_calls(raw: &Raw, source: &Source) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in source.production() {
        // Our own port, behind which a wrapper stands.
        let line = line.replace("publisher.publish(", "");
        for call in raw.calls.iter().filter(|call| line.contains(**call)) {
            problems.push(format!("{}:{number} has `{call}`: {}", source.path, raw.instead));
        }
    }
    problems
}

/// A statement that writes is not run on the connections for questions, where it would commit by itself.
pub(super) fn writes_commit(tree: &Tree) -> Vec<Problem> {
    let stores = [&DATABASES[..], &[SHARED]].concat();
    let stores = tree.crates.iter().filter(|krate| stores.contains(&krate.name.as_str()));
    stores.flat_map(|krate| krate.sources.iter().flat_map(writes_alone)).collect()
}

fn writes_alone(source: &Source) -> Vec<Problem> {
    let lines = source.production();
    let asked = lines.iter().filter(|(_, line)| line.contains("self.reader()"));
    let mut problems = Vec::new();
    for (number, _) in asked {
        let before: Vec<&str> =
            lines.iter().take_while(|(other, _)| other <= number).map(|(_, line)| *line).collect();
        let before = before.join("\n");
        if let Some(name) = queried(&before).filter(|name| writes(&before, name)) {
            problems.push(format!(
                "{}:{number} writes with `{name}` and no transaction: begin with `write()` and end with `open::commit`",
                source.path
            ));
        }
    }
    problems
}

/// The constant that the last query before the end of `text` runs.
fn queried(text: &str) -> Option<&str> {
    let query = &text[text.rfind("sqlx::query")?..];
    let name = &query[query.find('(')? + 1..];
    Some(&name[..name.find(')')?])
}

/// Whether the last constant of this name in `text` is a statement that writes.
fn writes(text: &str, name: &str) -> bool {
    let Some(from) = text.rfind(&format!("const {name}:")) else { return false };
    let statement = text[from..].split_once(';').map_or(&text[from..], |(one, _)| one);
    ["INSERT INTO ", "UPDATE ", "DELETE FROM "].iter().any(|verb| statement.contains(verb))
}

/// Every label is crossed, and in one place: a commit in each database, or where both share it; anything else once.
pub(super) fn labels_are_crossed(tree: &Tree) -> Vec<Problem> {
    let crossed = crossings(tree);
    labels(tree).iter().filter_map(|label| misplaced(&crossed, label)).collect()
}

/// How often each crate crosses a label, by label.
type Crossings<'t> = BTreeMap<&'t str, BTreeMap<&'t str, usize>>;

/// In one walk over the sources: there are more labels than crates.
fn crossings(tree: &Tree) -> Crossings<'_> {
    let mut crossed = Crossings::new();
    for (krate, source) in
        tree.crates.iter().flat_map(|krate| krate.sources.iter().map(move |one| (krate, one)))
    {
        if !source.text.contains(CROSSED) {
            continue;
        }
        for (_, line) in source.production() {
            for label in line.split(CROSSED).skip(1) {
                let end =
                    label.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(label.len());
                *crossed.entry(&label[..end]).or_default().entry(&krate.name).or_default() += 1;
            }
        }
    }
    crossed
}

/// How a label is named where it is crossed.
const CROSSED: &str = "Label::";

fn labels(tree: &Tree) -> Vec<String> {
    let sources = tree.crates.iter().flat_map(|krate| &krate.sources);
    let Some(source) = sources.into_iter().find(|source| source.path == LABELS) else { return Vec::new() };
    let lines = source.production().into_iter().map(|(_, line)| line.trim());
    let listed = lines.skip_while(|line| *line != "pub enum Label {").skip(1).take_while(|line| *line != "}");
    listed.filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())).collect()
}

fn misplaced(crossed: &Crossings<'_>, label: &str) -> Option<Problem> {
    let places: Vec<(&str, usize)> =
        crossed.get(label).into_iter().flatten().map(|(krate, times)| (*krate, *times)).collect();
    let in_each = DATABASES.map(|database| (database, 1));
    let right = if label.ends_with("Commit") {
        places == in_each || places == [(SHARED, 1)]
    } else {
        places.len() == 1 && places[0].1 == 1
    };
    if right {
        return None;
    }
    let found: Vec<String> = places.iter().map(|(name, times)| format!("{times} in {name}")).collect();
    let found = if found.is_empty() { "nowhere".to_owned() } else { found.join(", ") };
    Some(format!(
        "{LABELS}: `Label::{label}` is crossed {found}; a commit is crossed once in each database, anything else once: give \
         each step a name of its own, and take out a name that no step has"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tree::Dependency;
    use super::*;

    fn krate(name: &str, links: &str, path: &str, text: &str) -> Crate {
        let dependencies = vec![Dependency { name: links.to_owned(), only_tests: false }];
        let sources = vec![Source { path: path.to_owned(), text: text.to_owned() }];
        Crate { name: name.to_owned(), dependencies, sources, ..Crate::default() }
    }

    fn tree(crates: &[Crate]) -> Tree {
        Tree { crates: crates.to_vec(), ..Tree::default() }
    }

    #[test]
    fn a_commit_beside_the_wrapper_is_found_and_the_wrappers_own_is_not() {
        let raw = "transaction.commit().await?;\n";
        let beside = krate("retro-store-sqlite", "sqlx", "crates/retro-store-sqlite/src/keep.rs", raw);
        let wrapper = krate("retro-store-sqlite", "sqlx", "crates/retro-store-sqlite/src/open.rs", raw);
        let other = krate("retro-adapters", "serde", "crates/retro-adapters/src/a.rs", raw);
        let problems = through_wrappers(&tree(&[beside, wrapper, other]));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("crates/retro-store-sqlite/src/keep.rs:1 has `.commit()`"));
    }

    #[test]
    fn a_publication_past_the_wrapper_is_found_and_our_own_port_is_not() {
        let text = "publisher.publish(&messages).await?;\nbus.client.publish(reply, ack).await?;\n";
        let relay = krate("retro-bus", "async-nats", "crates/retro-bus/src/relay.rs", text);
        let problems = through_wrappers(&tree(&[relay]));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("relay.rs:2 has `.publish(`"));
    }

    #[test]
    fn a_statement_that_writes_and_commits_by_itself_is_found_and_a_question_is_not() {
        let text = "const A: &str = \"SELECT 1\";\nconst B: &str = \"UPDATE x SET y = 1 RETURNING y\";\n\
                    sqlx::query(A)\n.fetch_one(self.reader());\nsqlx::query_scalar(B)\n.fetch_one(self.reader());\n";
        let store = krate("retro-store-postgres", "sqlx", "crates/retro-store-postgres/src/a.rs", text);
        let problems = writes_commit(&tree(&[store]));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("a.rs:6 writes with `B`"));
    }

    #[test]
    fn a_label_that_is_crossed_nowhere_or_twice_or_in_one_database_alone_is_found() {
        let labels = "pub enum Label {\n    A = \"a\",\n    B = \"b\",\n    BCommit = \"b.commit\",\n    CCommit = \"c.commit\",\n}\n";
        let fault = krate("retro-fault", "nix", LABELS, labels);
        let bus = krate("retro-bus", "x", "crates/retro-bus/src/a.rs", "f(Label::B); g(Label::B);\n");
        let both = "commit(t, Label::BCommit);\n";
        let sqlite = krate(DATABASES[1], "x", "a", &format!("{both}commit(t, Label::CCommit);\n"));
        let postgres = krate(DATABASES[0], "x", "a", both);
        let problems = labels_are_crossed(&tree(&[fault, bus, sqlite, postgres]));
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].contains("`Label::A` is crossed nowhere"));
        assert!(problems[1].contains("`Label::B` is crossed 2 in retro-bus"));
        assert!(problems[2].contains("`Label::CCommit` is crossed 1 in retro-store-sqlite;"));
    }
}
