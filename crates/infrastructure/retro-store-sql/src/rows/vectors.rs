//! Encodes embedding vectors as blobs of little-endian 32-bit components.

/// Encodes a vector for a blob column.
pub(crate) fn encode_vector(vector: &[i32]) -> Vec<u8> {
    vector.iter().flat_map(|component| component.to_le_bytes()).collect()
}

/// Decodes a vector from a blob column. Returns `None` if the length is not a multiple of 4 bytes.
pub(crate) fn decode_vector(bytes: &[u8]) -> Option<Vec<i32>> {
    let (components, rest) = bytes.as_chunks::<4>();
    rest.is_empty().then(|| components.iter().map(|component| i32::from_le_bytes(*component)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_survives_encoding_and_decoding() {
        let all = vec![0, 1, -1, i32::MAX, i32::MIN];
        assert_eq!(decode_vector(&encode_vector(&all)), Some(all));
        assert_eq!(decode_vector(&[]), Some(Vec::new()));
        assert_eq!(decode_vector(&[1, 2, 3, 4, 5]), None);
    }
}
