//! Checks that every durable step has a name. Commits, publications and acknowledgements must go through a
//! wrapper that takes a `retro_fault::Label`, and each label must be used in one place.

use std::collections::BTreeMap;

use super::problem::Problem;
use super::tree::{Crate, Source, Tree};

/// Calls of one dependency that have durable effects, the files that may make these calls, and the advice for
/// all other files.
struct RawCalls {
    dependency: &'static str,
    calls: &'static [&'static str],
    wrappers: &'static [&'static str],
    advice: &'static str,
}

const RAW_CALLS: &[RawCalls] = &[
    RawCalls {
        dependency: "sqlx",
        calls: &[".commit()", "\"COMMIT", ".execute(self.reader())"],
        wrappers: &[
            "crates/infrastructure/retro-store-sql/src/postgres/open.rs",
            "crates/infrastructure/retro-store-sql/src/sqlite/open.rs",
        ],
        advice: "start with `begin_write()` and end with `open::commit`, which takes a label",
    },
    RawCalls {
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
        wrappers: &["crates/infrastructure/retro-bus/src/broker_calls.rs"],
        advice: "add the call to that crate's `broker_calls.rs`, with a label",
    },
];

/// Crate whose calls need no label, because no test kills it: it measures the program from outside.
const BENCHMARK: &str = "retro-bench";
/// Path of the file that defines the labels.
const LABELS: &str = "crates/foundation/retro-fault/src/label.rs";
/// Crate that implements the ports on both databases.
const STORE: &str = "retro-store-sql";
/// Folders of that crate with the code of one database.
const DATABASES: [&str; 2] = [
    "crates/infrastructure/retro-store-sql/src/postgres/",
    "crates/infrastructure/retro-store-sql/src/sqlite/",
];

/// Checks that only the wrappers commit, publish or acknowledge.
pub(super) fn check_wrappers(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for raw in RAW_CALLS {
        let links = |krate: &&Crate| {
            krate.name != BENCHMARK
                && krate.dependencies.iter().any(|one| one.name == raw.dependency && !one.test_only)
        };
        for source in tree.crates.iter().filter(links).flat_map(|krate| &krate.sources) {
            if !raw.wrappers.contains(&source.path.as_str()) {
                problems.extend(find_raw_calls(raw, source));
            }
        }
    }
    problems
}

fn find_raw_calls(raw: &RawCalls, source: &Source) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in source.production_lines() {
        // Calls of our own port are permitted, because its implementation uses a wrapper.
        let line = line.replace("publisher.publish(", "");
        for call in raw.calls.iter().filter(|call| line.contains(**call)) {
            problems.push(format!("{}:{number} has `{call}`: {}", source.path, raw.advice));
        }
    }
    problems
}

/// Checks that no writing statement runs on a reading connection, which would commit it without a label.
pub(super) fn check_writes_in_transaction(tree: &Tree) -> Vec<Problem> {
    let store = tree.crates.iter().filter(|krate| krate.name == STORE);
    store.flat_map(|krate| krate.sources.iter().flat_map(find_direct_writes)).collect()
}

fn find_direct_writes(source: &Source) -> Vec<Problem> {
    let lines = source.production_lines();
    let readers = lines.iter().filter(|(_, line)| line.contains("self.reader()"));
    let mut problems = Vec::new();
    for (number, _) in readers {
        let before: Vec<&str> =
            lines.iter().take_while(|(other, _)| other <= number).map(|(_, line)| *line).collect();
        let before = before.join("\n");
        // A query precedes the connection on which it runs, so the last query before the line is the one to
        // check.
        if let Some(name) = last_queried_constant(&before).filter(|name| is_writing_statement(&before, name))
        {
            problems.push(format!(
                "{}:{number} writes with `{name}` outside a transaction: start with `begin_write()` and end with `open::commit`",
                source.path
            ));
        }
    }
    problems
}

/// Returns the name of the constant that the last query in `text` uses, or `None` if there is no query.
fn last_queried_constant(text: &str) -> Option<&str> {
    let query = &text[text.rfind("sqlx::query")?..];
    let name = &query[query.find('(')? + 1..];
    Some(&name[..name.find(')')?])
}

/// Returns `true` if the last constant with this name in `text` contains a writing statement.
fn is_writing_statement(text: &str, name: &str) -> bool {
    let Some(from) = text.rfind(&format!("const {name}:")) else { return false };
    let statement = text[from..].split_once(';').map_or(&text[from..], |(one, _)| one);
    ["INSERT INTO ", "UPDATE ", "DELETE FROM "].iter().any(|verb| statement.contains(verb))
}

/// Checks that every label is used in one place. A commit label may be used once in the code of each database
/// instead.
pub(super) fn check_labels(tree: &Tree) -> Vec<Problem> {
    let crossed = count_label_uses(tree);
    list_labels(tree).iter().filter_map(|label| describe_misplaced(&crossed, label)).collect()
}

/// Number of uses of each label, by label and then by place: the folder of a database, or the crate's name.
type LabelUses<'t> = BTreeMap<&'t str, BTreeMap<&'t str, usize>>;

/// Counts the uses of all labels in one pass over the sources.
fn count_label_uses(tree: &Tree) -> LabelUses<'_> {
    let mut crossed = LabelUses::new();
    for (krate, source) in
        tree.crates.iter().flat_map(|krate| krate.sources.iter().map(move |one| (krate, one)))
    {
        // Most sources use no label, and splitting all of them into lines is slow.
        if !source.text.contains(LABEL_PREFIX) {
            continue;
        }
        let database = DATABASES.iter().find(|folder| source.path.starts_with(**folder));
        let place = database.map_or(krate.name.as_str(), |folder| folder);
        for (_, line) in source.production_lines() {
            for label in line.split(LABEL_PREFIX).skip(1) {
                let end =
                    label.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(label.len());
                *crossed.entry(&label[..end]).or_default().entry(place).or_default() += 1;
            }
        }
    }
    crossed
}

/// Text before the name of a label in code.
const LABEL_PREFIX: &str = "Label::";

fn list_labels(tree: &Tree) -> Vec<String> {
    let sources = tree.crates.iter().flat_map(|krate| &krate.sources);
    let Some(source) = sources.into_iter().find(|source| source.path == LABELS) else { return Vec::new() };
    let lines = source.production_lines().into_iter().map(|(_, line)| line.trim());
    let listed = lines.skip_while(|line| *line != "pub enum Label {").skip(1).take_while(|line| *line != "}");
    listed.filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())).collect()
}

fn describe_misplaced(crossed: &LabelUses<'_>, label: &str) -> Option<Problem> {
    let places: Vec<(&str, usize)> =
        crossed.get(label).into_iter().flatten().map(|(place, times)| (*place, *times)).collect();
    let is_commit = label.ends_with("Commit");
    let once = match places[..] {
        // A commit of one database alone would be a step that the other one does not have.
        [(place, 1)] => !is_commit || !DATABASES.contains(&place),
        _ => is_commit && places == DATABASES.map(|database| (database, 1)),
    };
    if once {
        return None;
    }
    let found: Vec<String> = places.iter().map(|(name, times)| format!("{times} in {name}")).collect();
    let found = if found.is_empty() { "nowhere".to_owned() } else { found.join(", ") };
    Some(format!(
        "{LABELS}: `Label::{label}` is used {found}; every label is used once, or a commit label once in each database: give \
         each step a name of its own, and take out a name that no step has"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tree::Dependency;
    use super::*;

    fn krate(name: &str, links: &str, path: &str, text: &str) -> Crate {
        let dependencies = vec![Dependency { name: links.to_owned(), test_only: false }];
        let sources = vec![Source { path: path.to_owned(), text: text.to_owned() }];
        Crate { name: name.to_owned(), dependencies, sources, ..Crate::default() }
    }

    fn tree(crates: &[Crate]) -> Tree {
        Tree { crates: crates.to_vec(), ..Tree::default() }
    }

    #[test]
    fn a_commit_outside_the_wrapper_is_found() {
        let raw = "transaction.commit().await?;\n";
        let beside = krate(STORE, "sqlx", "crates/infrastructure/retro-store-sql/src/ports/keep.rs", raw);
        let wrapper = krate(STORE, "sqlx", "crates/infrastructure/retro-store-sql/src/sqlite/open.rs", raw);
        let other = krate("retro-adapters", "serde", "crates/infrastructure/retro-adapters/src/a.rs", raw);
        let problems = check_wrappers(&tree(&[beside, wrapper, other]));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(
            problems[0]
                .starts_with("crates/infrastructure/retro-store-sql/src/ports/keep.rs:1 has `.commit()`")
        );
    }

    #[test]
    fn a_publication_outside_the_wrapper_is_found_and_our_own_port_is_not() {
        let text = "publisher.publish(&messages).await?;\nbus.client.publish(reply, ack).await?;\n";
        let relay = krate("retro-bus", "async-nats", "crates/infrastructure/retro-bus/src/relay.rs", text);
        let problems = check_wrappers(&tree(&[relay]));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("relay.rs:2 has `.publish(`"));
    }

    #[test]
    fn a_writing_statement_outside_a_transaction_is_found_and_a_query_is_not() {
        let text = "const A: &str = \"SELECT 1\";\nconst B: &str = \"UPDATE x SET y = 1 RETURNING y\";\n\
                    sqlx::query(A)\n.fetch_one(self.reader());\nsqlx::query_scalar(B)\n.fetch_one(self.reader());\n";
        let store = krate(STORE, "sqlx", "crates/infrastructure/retro-store-sql/src/ports/a.rs", text);
        let problems = check_writes_in_transaction(&tree(&[store]));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("a.rs:6 writes with `B`"));
    }

    #[test]
    fn a_label_used_nowhere_or_twice_or_in_one_database_alone_is_found() {
        let labels = "pub enum Label {\n    A = \"a\",\n    B = \"b\",\n    BCommit = \"b.commit\",\n    CCommit = \"c.commit\",\n}\n";
        let fault = krate("retro-fault", "nix", LABELS, labels);
        let bus = krate(
            "retro-bus",
            "x",
            "crates/infrastructure/retro-bus/src/a.rs",
            "f(Label::B); g(Label::B);\n",
        );
        let both = "commit(t, Label::BCommit);\n";
        let postgres = krate(STORE, "x", "crates/infrastructure/retro-store-sql/src/postgres/open.rs", both);
        let both_and_more = format!("{both}commit(t, Label::CCommit);\n");
        let sqlite =
            krate(STORE, "x", "crates/infrastructure/retro-store-sql/src/sqlite/open.rs", &both_and_more);
        let problems = check_labels(&tree(&[fault, bus, sqlite, postgres]));
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].contains("`Label::A` is used nowhere"));
        assert!(problems[1].contains("`Label::B` is used 2 in retro-bus"));
        assert!(
            problems[2]
                .contains("`Label::CCommit` is used 1 in crates/infrastructure/retro-store-sql/src/sqlite/;")
        );
    }
}
