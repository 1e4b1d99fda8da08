//! Names a generated file.

/// Path and content of a generated file.
pub(super) struct GeneratedFile {
    /// Path relative to the workspace root.
    pub(super) path: &'static str,
    pub(super) text: String,
}
