//! Cosines of vectors, computed with integers only.

/// Maximum number of components of a vector.
pub const COMPONENTS_MAX: usize = 4096;
/// Maximum absolute value of a component. Larger values could overflow [`cosine_similarity`].
pub const COMPONENT_MAX: i32 = 1_000_000;

/// Returns the cosine of two vectors in thousandths, computed with integers only. Returns 0 for a negative
/// cosine or an empty vector.
pub fn cosine_similarity(a: &[i32], b: &[i32]) -> u16 {
    cosine_from_products(dot_product(a, b), dot_product(a, a), dot_product(b, b))
}

/// Computes the cosine of two vectors from their dot product and the dot product of each with itself.
pub(super) fn cosine_from_products(product: i64, a: i64, b: i64) -> u16 {
    // The square of a 63-bit product needs an i128.
    let product = i128::from(product);
    let norms = i128::from(a) * i128::from(b);
    if product <= 0 || norms == 0 {
        return 0;
    }
    let square = (product * product * 1_000_000 / norms).unsigned_abs();
    u16::try_from(square.isqrt().min(1000)).expect("at most 1000")
}

/// Returns the dot product of two vectors. Cannot overflow: 4,096 products of at most 10¹² stay below 2⁶³.
pub(super) fn dot_product(a: &[i32], b: &[i32]) -> i64 {
    a.iter().zip(b).map(|(a, b)| i64::from(*a) * i64::from(*b)).sum()
}
