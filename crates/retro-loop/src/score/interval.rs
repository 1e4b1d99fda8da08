//! The mean of a few seeds and how far it may be off.

use serde::Serialize;

/// A mean with its 95 % interval over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Interval {
    pub(crate) mean: f64,
    /// Half its width.
    pub(crate) half: f64,
}

/// The 0.975 quantiles of Student's t for 1, 2, … degrees of freedom; from any table of it.
const T: [f64; 29] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045,
];
/// The same for more.
const T_MANY: f64 = 2.042;

impl Interval {
    /// Of one number a seed; `None` for fewer than two seeds.
    pub(crate) fn over(numbers: &[f64]) -> Option<Self> {
        let count = numbers.len();
        if count < 2 {
            return None;
        }
        let mean = numbers.iter().sum::<f64>() / count as f64;
        let spread = numbers.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
        let t = T.get(count - 2).copied().unwrap_or(T_MANY);
        Some(Self { mean, half: t * (spread / count as f64).sqrt() })
    }

    /// Whether all of it lies above nothing.
    pub(crate) fn above_zero(&self) -> bool {
        self.mean - self.half > 0.0
    }

    /// Whether all of it lies below nothing.
    pub(crate) fn below_zero(&self) -> bool {
        self.mean + self.half < 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_wide_as_the_seeds_differ() {
        assert_eq!(Interval::over(&[1.0]), None);
        let same = Interval::over(&[0.2, 0.2, 0.2]).unwrap();
        assert!((same.mean - 0.2).abs() < 1e-12 && same.half < 1e-12 && same.above_zero());
        // 1, 2, 3: mean 2, standard error 1/√3, t(2) = 4.303.
        let wide = Interval::over(&[1.0, 2.0, 3.0]).unwrap();
        assert!((wide.half - 4.303 / 3f64.sqrt()).abs() < 1e-9);
        assert!(!wide.above_zero() && !wide.below_zero());
    }
}
