//! Defines the body of a run, as its event gives it.

use retro_core::run::{GithubLogRef, HttpsRef, ObjectRef};
use retro_core::trajectory::Trajectory;

/// The trajectory of a run, or a reference to it.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// The event has no trajectory.
    None,
    /// The event contains the trajectory.
    Inline(Trajectory),
    /// The event refers to an object with the tenant's own prefix.
    Object(ObjectRef),
    /// The event refers to an address at an allowed HTTPS host.
    Https(HttpsRef),
    /// The event refers to the log of a GitHub Actions workflow.
    GithubLog(GithubLogRef),
}
