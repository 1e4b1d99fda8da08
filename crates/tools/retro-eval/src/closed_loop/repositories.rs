//! Spreads the runs of a workflow over repositories, and checks which memories their runs are handed.

use serde_json::{Value, json};

use crate::closed_loop::seeded_rng::SeededRng;

/// Repository of a simulated run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SimulatedRepository {
    name: String,
    /// `public` or `private`.
    visibility: &'static str,
}

impl SimulatedRepository {
    /// Draws the repository of a run among `count`, of which every second one is private. Returns `None` for 0.
    pub(crate) fn draw(count: u32, run: &[&str]) -> Option<Self> {
        if count == 0 {
            return None;
        }
        let nth = SeededRng::from_parts(&[&["repository"], run].concat()).random_below(count as usize);
        let visibility = if nth.is_multiple_of(2) { "public" } else { "private" };
        Some(Self { name: format!("acme/repo-{nth}"), visibility })
    }

    /// Adds the repository to a request or to the data of an event.
    pub(crate) fn add_to(&self, fields: &mut Value) {
        fields["repo"] = json!(self.name);
        fields["repo_visibility"] = json!(self.visibility);
    }
}

/// Returns `true` if a run of the repository may be handed a memory of this audience, as the program writes it. Null is
/// everyone.
pub(crate) fn may_be_handed(audience: &str, repository: Option<&SimulatedRepository>) -> bool {
    match audience {
        "" => true,
        "private" => repository.is_some_and(|one| one.visibility == "private"),
        name => repository.is_some_and(|one| one.name == name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_spread_over_public_and_private_repositories() {
        assert_eq!(SimulatedRepository::draw(0, &["w", "1"]), None);
        let drawn: Vec<_> =
            (0..200).map(|run| SimulatedRepository::draw(20, &["w", &run.to_string()]).unwrap()).collect();
        let names: std::collections::BTreeSet<_> = drawn.iter().map(|one| &one.name).collect();
        assert_eq!(names.len(), 20);
        let public = drawn.iter().find(|one| one.visibility == "public");
        let private = drawn.iter().find(|one| one.visibility == "private");
        for (audience, of_public, of_private) in
            [("", true, true), ("private", false, true), ("a/b", false, false)]
        {
            assert_eq!(may_be_handed(audience, public), of_public, "{audience}");
            assert_eq!(may_be_handed(audience, private), of_private, "{audience}");
        }
        assert!(may_be_handed(&public.unwrap().name, public));
        assert!(!may_be_handed("private", None));
    }
}
