//! Converts the vectors of an embedder to integers.

/// Factor by which the components of a unit vector are multiplied before rounding.
const UNIT: f64 = 10_000.0;

/// Scales a vector to length 1, multiplies its components by [`UNIT`] and rounds them to integers. The zero
/// vector stays zero. Returns `None` if a component is not finite.
pub(crate) fn to_integers(vector: &[f64]) -> Option<Vec<i32>> {
    if !vector.iter().all(|x| x.is_finite()) {
        return None;
    }
    let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    // The cast is safe, because no component of a unit vector exceeds 1.
    let scaled = |x: &f64| if length > 0.0 { (x / length * UNIT).round() as i32 } else { 0 };
    Some(vector.iter().map(scaled).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_become_integers_of_one_length() {
        assert_eq!(to_integers(&[3.0, -4.0]), Some(vec![6000, -8000]));
        assert_eq!(to_integers(&[30.0, -40.0]), to_integers(&[3.0, -4.0]), "only the direction counts");
        assert_eq!(to_integers(&[0.0, 0.0]), Some(vec![0, 0]));
        assert_eq!(to_integers(&[1.0, f64::NAN]), None);
        assert_eq!(to_integers(&[1.0, f64::INFINITY]), None);
    }
}
