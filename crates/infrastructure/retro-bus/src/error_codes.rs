//! Classifies the broker's error codes.

use async_nats::jetstream::ErrorCode;

/// Returns `true` if the error code means that the broker has no storage left.
pub(crate) fn is_storage_full(code: ErrorCode) -> bool {
    [
        ErrorCode::STREAM_STORE_FAILED,
        ErrorCode::INSUFFICIENT_RESOURCES,
        ErrorCode::STORAGE_RESOURCES_EXCEEDED,
        ErrorCode::MEMORY_RESOURCES_EXCEEDED,
        ErrorCode::ACCOUNT_RESOURCES_EXCEEDED,
    ]
    .contains(&code)
}

/// Returns `true` if the error code means that the broker has too few servers for a stream's replicas.
pub(crate) fn is_servers_missing(code: ErrorCode) -> bool {
    [ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED, ErrorCode::CLUSTER_NO_PEERS].contains(&code)
}
