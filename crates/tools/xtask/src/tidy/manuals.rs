//! Checks that the links in the manuals work, and that no text makes a promise that the system cannot keep.

use super::problem::Problem;
use super::tree::Tree;

// Written in two parts, so this file does not match itself.
/// Phrase that no manual and no source may contain, because no system can promise it over a network.
/// Retrospect delivers at least once and applies once.
const PROMISE: &str = concat!("exactly", " once");

/// Checks that every relative link in the manuals leads to a file or a folder.
pub(super) fn check_links(tree: &Tree) -> Vec<Problem> {
    let every = tree.manuals.iter().flat_map(|manual| manual.links.iter().map(move |link| (manual, link)));
    let broken = every.filter(|(_, (_, exists))| !exists);
    broken
        .map(|(manual, (link, _))| format!("{} links to `{link}`, which does not exist", manual.path))
        .collect()
}

/// Checks that no manual and no source contains [`PROMISE`].
pub(super) fn check_promises(tree: &Tree) -> Vec<Problem> {
    let manuals = tree.manuals.iter().map(|manual| (&manual.path, &manual.text));
    let sources =
        tree.crates.iter().flat_map(|krate| &krate.sources).map(|source| (&source.path, &source.text));
    let said = manuals.chain(sources).filter(|(_, text)| text.to_lowercase().contains(PROMISE));
    said.map(|(path, _)| format!("{path} says \"{PROMISE}\": write \"at least once, applied once\""))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::Manual;
    use super::*;

    fn tree(text: &str, links: &[(&str, bool)]) -> Tree {
        let links = links.iter().map(|(link, exists)| ((*link).to_owned(), *exists)).collect();
        let manual = Manual { path: "README.md".to_owned(), text: text.to_owned(), links };
        Tree { manuals: vec![manual], ..Tree::default() }
    }

    #[test]
    fn a_broken_link_is_found() {
        let problems = super::check_links(&tree("", &[("crates/README.md", true), ("crates/README", false)]));
        assert_eq!(problems, ["README.md links to `crates/README`, which does not exist"]);
    }

    #[test]
    fn an_impossible_promise_is_found() {
        let text = format!("Delivered Exactly{}.", &PROMISE[7..]);
        assert_eq!(check_promises(&tree(&text, &[])).len(), 1);
        assert!(check_promises(&tree("Delivered at least once, applied once.", &[])).is_empty());
    }
}
