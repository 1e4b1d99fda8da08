//! Repositories in which something was learnt, and those whose runs are told of it.
//!
//! What was learnt in one repository stays there until two repositories have shown it, and what a private one
//! has shown never reaches a public one. So every finding names the [`RunRepository`] it was seen in, and the
//! scope of every memory has an [`Audience`].
//!
//! Silence counts against sharing in both directions: evidence is private unless its run says that the
//! repository is public, and a request is public unless it, or the newest run of its repository, says that the
//! repository is private.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

use crate::id::{NameError, Repository};

/// Who may read a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[derive(EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RepoVisibility {
    /// Everybody may read it.
    Public,
    /// Only members may read it. An internal repository is private.
    Private,
}

/// Repository on which a run works, with what is said about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunRepository {
    /// Name of the repository.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub repo: Repository,
    /// Who may read it; `None` if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<RepoVisibility>,
}

impl RunRepository {
    /// Creates the repository that an event names in any usual form. Returns `None` if the text is blank.
    pub fn of_run(repo: Option<&str>, visibility: Option<RepoVisibility>) -> Option<Self> {
        Some(Self { repo: Repository::from_emitted(repo?)?, visibility })
    }

    /// Returns `true` if the repository is said to be public.
    pub fn is_public(&self) -> bool {
        self.visibility == Some(RepoVisibility::Public)
    }

    /// Returns `true` if the repository is said to be private.
    pub fn is_known_private(&self) -> bool {
        self.visibility == Some(RepoVisibility::Private)
    }
}

/// Repositories whose runs are handed a memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Audience {
    /// Every run, also of no repository.
    #[default]
    Everyone,
    /// Runs of every repository that is known to be private.
    PrivateRepositories,
    /// Runs of one repository.
    Repository(Repository),
}

/// Written form of the audiences that name no repository. The name of a repository has a slash.
const EVERYONE: &str = "everyone";
const PRIVATE_REPOSITORIES: &str = "private";

impl Audience {
    /// Returns the audience of what one run has shown: its repository, or everyone if it names none.
    pub fn of_run(repository: Option<&RunRepository>) -> Self {
        repository.map_or(Self::Everyone, |one| Self::Repository(one.repo.clone()))
    }

    /// Returns the audience of what several repositories have shown: everyone if all of them are public.
    pub fn of_repositories<'r>(repositories: impl IntoIterator<Item = &'r RunRepository>) -> Self {
        let all_public = repositories.into_iter().all(RunRepository::is_public);
        if all_public { Self::Everyone } else { Self::PrivateRepositories }
    }

    /// Returns every audience to which a run belongs, the narrowest first.
    pub fn all_of_run(repository: Option<&RunRepository>) -> Vec<Self> {
        let own = repository.map(|one| Self::Repository(one.repo.clone()));
        let private = repository.is_some_and(RunRepository::is_known_private);
        own.into_iter().chain(private.then_some(Self::PrivateRepositories)).chain([Self::Everyone]).collect()
    }

    /// Returns `true` if a run belongs to the audience.
    pub fn includes(&self, repository: Option<&RunRepository>) -> bool {
        match self {
            Self::Everyone => true,
            Self::PrivateRepositories => repository.is_some_and(RunRepository::is_known_private),
            Self::Repository(own) => repository.is_some_and(|one| one.repo == *own),
        }
    }

    /// Returns `true` if the audience may read what a run of the repository has shown.
    pub fn may_read(&self, source: Option<&RunRepository>) -> bool {
        match (self, source) {
            (_, None) | (Self::PrivateRepositories, _) => true,
            (Self::Everyone, Some(source)) => source.is_public(),
            (Self::Repository(own), Some(source)) => source.repo == *own,
        }
    }

    /// Returns `true` for the audience that old scopes have, which none names.
    pub fn is_everyone(&self) -> bool {
        *self == Self::Everyone
    }
}

impl TryFrom<String> for Audience {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.as_str() {
            EVERYONE => Ok(Self::Everyone),
            PRIVATE_REPOSITORIES => Ok(Self::PrivateRepositories),
            _ => Repository::new(&text).map(Self::Repository),
        }
    }
}

impl From<Audience> for String {
    fn from(audience: Audience) -> Self {
        match audience {
            Audience::Everyone => EVERYONE.to_owned(),
            Audience::PrivateRepositories => PRIVATE_REPOSITORIES.to_owned(),
            Audience::Repository(repo) => repo.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(name: &str, visibility: Option<RepoVisibility>) -> RunRepository {
        RunRepository { repo: Repository::new(name).unwrap(), visibility }
    }

    #[test]
    fn a_run_is_told_what_its_repository_and_no_other_has_shown() {
        let [shop, blog] = ["acme/shop", "acme/blog"].map(|name| repository(name, None));
        let learnt = Audience::of_run(Some(&shop));
        assert!(learnt.includes(Some(&shop)));
        assert!(!learnt.includes(Some(&blog)));
        assert!(!learnt.includes(None));
        assert!(Audience::of_run(None).includes(Some(&shop)), "no repository: everyone's");
        assert!(!learnt.may_read(Some(&blog)));
    }

    #[test]
    fn what_a_private_repository_has_shown_reaches_known_private_ones_only() {
        let public = repository("acme/open", Some(RepoVisibility::Public));
        let private = repository("acme/closed", Some(RepoVisibility::Private));
        let unsaid = repository("acme/unsaid", None);
        assert_eq!(Audience::of_repositories([&public, &public]), Audience::Everyone);
        for silent in [&private, &unsaid] {
            let shared = Audience::of_repositories([&public, silent]);
            assert!(shared.includes(Some(&private)));
            assert!(!shared.includes(Some(&public)));
            assert!(!shared.includes(Some(&unsaid)), "a request is public unless it says otherwise");
            assert!(!shared.includes(None));
            assert!(!Audience::Everyone.may_read(Some(silent)));
        }
    }

    #[test]
    fn every_audience_of_a_run_includes_it() {
        for visibility in [None, Some(RepoVisibility::Public), Some(RepoVisibility::Private)] {
            let one = repository("acme/shop", visibility);
            for reader in [None, Some(&one)] {
                let all = Audience::all_of_run(reader);
                assert!(all.iter().all(|audience| audience.includes(reader)));
                assert!(all.contains(&Audience::of_run(reader)));
            }
        }
    }

    #[test]
    fn an_audience_is_one_word() {
        for (audience, word) in [
            (Audience::Everyone, "everyone"),
            (Audience::PrivateRepositories, "private"),
            (Audience::Repository(Repository::new("Acme/Shop").unwrap()), "acme/shop"),
        ] {
            assert_eq!(String::from(audience.clone()), word);
            assert_eq!(Audience::try_from(word.to_owned()).unwrap(), audience);
        }
        assert!(Audience::try_from("nobody".to_owned()).is_err());
    }
}
