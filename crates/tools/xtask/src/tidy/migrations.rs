//! Checks that both databases have migrations with the same names.

use std::collections::BTreeSet;

use super::problem::Problem;
use super::tree::Tree;

/// Names of the folders that contain each database's migrations.
const DATABASES: [&str; 2] = ["postgres", "sqlite"];
/// Name of the folder that contains the sample rows.
const SAMPLES: &str = "samples";

/// Checks that each migration exists for both databases, that no number is used twice, and that each sample
/// belongs to a migration.
pub(super) fn check_same_names(tree: &Tree) -> Vec<Problem> {
    let all: BTreeSet<&str> = DATABASES.iter().flat_map(|database| migration_names(tree, database)).collect();
    let mut problems = Vec::new();
    for database in DATABASES {
        let own: BTreeSet<&str> = migration_names(tree, database).collect();
        let missing = all.difference(&own);
        problems.extend(
            missing.map(|name| format!("migrations/{database}/{name} is missing: the other database has it")),
        );
    }
    let lonely = migration_names(tree, SAMPLES).filter(|name| !all.contains(name));
    problems.extend(lonely.map(|name| format!("migrations/{SAMPLES}/{name} belongs to no migration")));
    let numbers: Vec<&str> = all.iter().filter_map(|name| name.get(..4)).collect();
    // The names are sorted, so equal numbers are neighbours.
    let twice = numbers.windows(2).filter(|pair| pair[0] == pair[1]);
    problems.extend(twice.map(|pair| format!("migrations: number {} is used twice", pair[0])));
    problems
}

fn migration_names<'a>(tree: &'a Tree, folder: &str) -> impl Iterator<Item = &'a str> {
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
    fn a_missing_migration_and_a_repeated_number_are_found() {
        let both = [("postgres", "0001_a.sql"), ("sqlite", "0001_a.sql"), ("samples", "0001_a.sql")];
        assert!(check_same_names(&tree(&both)).is_empty());
        assert_eq!(
            check_same_names(&tree(&both[1..])),
            ["migrations/postgres/0001_a.sql is missing: the other database has it"]
        );
        let other = [("sqlite", "0001_b.sql"), ("postgres", "0001_b.sql")];
        assert_eq!(
            check_same_names(&tree(&[&both[..], &other].concat())),
            ["migrations: number 0001 is used twice"]
        );
        let lonely = [("samples", "0002_c.sql")];
        assert_eq!(
            check_same_names(&tree(&[&both[..], &lonely].concat())),
            ["migrations/samples/0002_c.sql belongs to no migration"]
        );
    }
}
