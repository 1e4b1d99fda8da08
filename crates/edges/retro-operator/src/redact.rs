//! Names the types of functions that redact the secrets in a string.

use std::sync::Arc;

/// A function that redacts the secrets in a string.
pub type RedactFn<'a> = &'a (dyn Fn(&str) -> String + Send + Sync);

/// A shared function that redacts the secrets in a string. Every dead letter is redacted with it before it is
/// displayed.
pub type SharedRedactFn = Arc<dyn Fn(&str) -> String + Send + Sync>;
