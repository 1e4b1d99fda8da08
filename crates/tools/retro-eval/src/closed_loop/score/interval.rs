//! Computes means over seeds with their confidence intervals.

use serde::Serialize;

/// A mean with its 95 % confidence interval over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Interval {
    pub(crate) mean: f64,
    /// Half-width of the interval.
    pub(crate) half: f64,
}

/// 0.975 quantiles of Student's t distribution for 1 to 29 degrees of freedom.
const T_QUANTILES: [f64; 29] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045,
];
/// Quantile for 30 degrees of freedom, also used for more.
const T_QUANTILE_MANY: f64 = 2.042;

impl Interval {
    /// Computes the interval from one number per seed. Returns `None` for fewer than two seeds.
    pub(crate) fn from_samples(numbers: &[f64]) -> Option<Self> {
        let count = numbers.len();
        if count < 2 {
            return None;
        }
        let mean = numbers.iter().sum::<f64>() / count as f64;
        // Divided by one less than the number of samples, because the mean comes from the same samples.
        let spread = numbers.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
        // Two samples have one degree of freedom, the first entry.
        let t = T_QUANTILES.get(count - 2).copied().unwrap_or(T_QUANTILE_MANY);
        Some(Self { mean, half: t * (spread / count as f64).sqrt() })
    }

    /// Returns `true` if the entire interval is above zero.
    pub(crate) fn is_above_zero(&self) -> bool {
        self.mean - self.half > 0.0
    }

    /// Returns `true` if the entire interval is below zero.
    pub(crate) fn is_below_zero(&self) -> bool {
        self.mean + self.half < 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_widens_with_the_spread_of_the_seeds() {
        assert_eq!(Interval::from_samples(&[1.0]), None);
        let same = Interval::from_samples(&[0.2, 0.2, 0.2]).unwrap();
        assert!((same.mean - 0.2).abs() < 1e-12 && same.half < 1e-12 && same.is_above_zero());
        // Samples 1, 2, 3: mean 2, standard error 1/√3, t(2) = 4.303.
        let wide = Interval::from_samples(&[1.0, 2.0, 3.0]).unwrap();
        assert!((wide.half - 4.303 / 3f64.sqrt()).abs() < 1e-9);
        assert!(!wide.is_above_zero() && !wide.is_below_zero());
    }
}
