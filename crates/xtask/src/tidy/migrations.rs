//! Both databases are brought to the same point by migrations of the same names.

use std::collections::BTreeSet;

use super::Problem;
use super::tree::Tree;

/// The folders of the databases.
const DATABASES: [&str; 2] = ["postgres", "sqlite"];
/// The folder of the rows that a live system would have.
const SAMPLES: &str = "samples";

/// A migration of one database has its like in the other, no number is given twice, and samples belong to a migration.
pub(super) fn same_names(tree: &Tree) -> Vec<Problem> {
    let all: BTreeSet<&str> = DATABASES.iter().flat_map(|database| names(tree, database)).collect();
    let mut problems = Vec::new();
    for database in DATABASES {
        let own: BTreeSet<&str> = names(tree, database).collect();
        let missing = all.difference(&own);
        problems
            .extend(missing.map(|name| format!("migrations/{database}/{name} is missing: the other has it")));
    }
    let lonely = names(tree, SAMPLES).filter(|name| !all.contains(name));
    problems.extend(lonely.map(|name| format!("migrations/{SAMPLES}/{name} is of no migration")));
    let numbers: Vec<&str> = all.iter().filter_map(|name| name.get(..4)).collect();
    let twice = numbers.windows(2).filter(|pair| pair[0] == pair[1]);
    problems.extend(twice.map(|pair| format!("migrations: two are numbered {}", pair[0])));
    problems
}

fn names<'a>(tree: &'a Tree, folder: &str) -> impl Iterator<Item = &'a str> {
    tree.migrations.iter().filter(move |(home, _)| home == folder).map(|(_, name)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let owned = files.iter().map(|(folder, name)| ((*folder).to_owned(), (*name).to_owned()));
        Tree { migrations: owned.collect(), ..Tree::default() }
    }

    #[test]
    fn a_migration_without_its_like_and_a_number_given_twice_are_found() {
        let both = [("postgres", "0001_a.sql"), ("sqlite", "0001_a.sql"), ("samples", "0001_a.sql")];
        assert!(same_names(&tree(&both)).is_empty());
        assert_eq!(
            same_names(&tree(&both[1..])),
            ["migrations/postgres/0001_a.sql is missing: the other has it"]
        );
        let other = [("sqlite", "0001_b.sql"), ("postgres", "0001_b.sql")];
        assert_eq!(same_names(&tree(&[&both[..], &other].concat())), ["migrations: two are numbered 0001"]);
        let lonely = [("samples", "0002_c.sql")];
        assert_eq!(
            same_names(&tree(&[&both[..], &lonely].concat())),
            ["migrations/samples/0002_c.sql is of no migration"]
        );
    }
}
