//! Summarises repeated measurements.

use std::fmt;

/// Minimum, median and maximum of a repeated measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MedianRange {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl MedianRange {
    /// Summarises the values. Returns `None` if there are none.
    pub(crate) fn from_values(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self { min, median: sorted[sorted.len() / 2], max })
    }
}

impl fmt::Display for MedianRange {
    /// Formats as `min / median / max`, with as many decimals as the precision says (none by default).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = f.precision().unwrap_or(0);
        write!(f, "{:.decimals$} / {:.decimals$} / {:.decimals$}", self.min, self.median, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_middle_of_the_sorted_values() {
        let spread = MedianRange::from_values([3.0, 1.0, 2.0]).expect("values");
        assert_eq!(format!("{spread:.1}"), "1.0 / 2.0 / 3.0");
        assert!(MedianRange::from_values([]).is_none());
    }
}
