//! Defines the kinds of danger and what is found of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};

/// Kind of action that a memory may lead to and that the policy can hold for a person.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    IntoStaticStr,
    VariantArray,
    EnumString,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Danger {
    /// Content of an address is run by an interpreter.
    RemoteContent,
    /// A package is installed from an explicit address.
    PackageAddress,
    /// Verification or signing is turned off.
    VerificationOff,
    /// A secret is written where it is kept or seen.
    SecretKept,
    /// Hooks, reviews or tests are switched off.
    ChecksOff,
    /// Something is deleted that the run did not make.
    ForeignDelete,
    /// A statement of a tool's answer is handed on as a rule. No pattern finds it: the lesson says so.
    DocumentedRule,
    /// A package is installed by its name. Not held by default.
    PackageInstall,
    /// A command gets the rights of an administrator. Not held by default.
    Privilege,
    /// A command is forced. Not held by default.
    Force,
}

impl Danger {
    /// All dangers, in the order of declaration.
    pub const ALL: &'static [Self] = <Self as VariantArray>::VARIANTS;

    /// Dangers that the default policy holds for a person.
    pub const HELD_BY_DEFAULT: &'static [Self] = &[
        Self::RemoteContent,
        Self::PackageAddress,
        Self::VerificationOff,
        Self::SecretKept,
        Self::ChecksOff,
        Self::ForeignDelete,
        Self::DocumentedRule,
    ];

    /// Returns the danger as stored and shown, such as `remote-content`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Describes the danger in one sentence for people.
    pub const fn description(self) -> &'static str {
        match self {
            Self::RemoteContent => "Runs content of an address.",
            Self::PackageAddress => "Installs a package from an explicit address.",
            Self::VerificationOff => "Turns verification or signing off.",
            Self::SecretKept => "Writes a secret where it is kept or seen.",
            Self::ChecksOff => "Switches hooks, reviews or tests off.",
            Self::ForeignDelete => "Deletes something that the run did not make.",
            Self::DocumentedRule => "Hands on what a tool's answer states.",
            Self::PackageInstall => "Installs a package by its name.",
            Self::Privilege => "Gives a command the rights of an administrator.",
            Self::Force => "Forces a command.",
        }
    }
}

/// A dangerous action in a text, with an excerpt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DangerSign {
    /// Kind of the action.
    pub danger: Danger,
    /// Text of the action on one line, shortened, without invisible characters.
    pub excerpt: String,
}

/// A dangerous action in a folded text: its first and last word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) danger: Danger,
    pub(super) first: usize,
    pub(super) last: usize,
}
