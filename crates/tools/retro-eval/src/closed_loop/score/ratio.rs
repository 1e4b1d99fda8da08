//! Divides figures, of which the whole may be 0.

/// Returns `part` divided by `whole`, or `None` if `whole` is 0.
pub(crate) fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}
