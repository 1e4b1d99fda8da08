//! Reasons why webhooks are ignored.

/// Reason why a webhook is ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    /// Events with this name are not used.
    #[error("events of this kind are not used")]
    UnusedEvent,
    /// Events with this name are used, but not for this action.
    #[error("this action is not used")]
    UnusedAction,
    /// The event refers to an object that is not used, such as a comment on an issue that is not a pull
    /// request.
    #[error("{0}")]
    NotRelevant(&'static str),
    /// A required field is missing.
    #[error("{0} is missing")]
    Incomplete(&'static str),
    /// A field does not have the type that GitHub documents. Contains the path of the field, never its value.
    #[error("`{0}` has another shape than GitHub documents")]
    UnexpectedShape(String),
}
