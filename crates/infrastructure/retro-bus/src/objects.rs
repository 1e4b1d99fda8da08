//! Stores bodies that are too large for a message in the broker's object store. A body is named `<encoded
//! tenant>/<sha256>`; the name is derived from its content, so storing it again is harmless. Code that
//! accepts the name of a body from outside must compare its prefix with the tenant of the subject
//! (`retro_events::subject::body_owner`). This module rejects a name that does not have this form or does not
//! match the hash.

use std::time::Duration;

use async_nats::jetstream::object_store::{InfoErrorKind, ObjectStore};
use async_nats::jetstream::stream::DirectGetErrorKind;
use async_trait::async_trait;
use backon::{ConstantBuilder, Retryable as _};
use bytes::Bytes;
use futures::FutureExt;
use retro_core::canonical::sha256_hex;
use retro_core::id::Tenant;
use retro_core::run::ObjectRef;
use retro_events::subject::{body_name, body_owner};
use retro_events::{ObjectError, ObjectStorage};

use crate::Bus;
use crate::broker_calls::put_object;
use crate::topology::{BODIES, BODIES_BUCKET};

/// Maximum size of a body, in bytes. The gateway and `retro emit` have the same limit.
pub const BODY_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Timeout for fetching or storing one body with all its chunks.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);

/// Number of further reads before a body counts as gone. In a cluster every replica answers direct gets, and one that lags
/// behind does not have what was just stored.
const LAGGING_READS_MAX: usize = 2;
/// Wait before such a read. Replicas lag by milliseconds.
const LAG_WAIT: Duration = Duration::from_millis(250);

/// Object store at the broker for run bodies.
#[derive(Debug, Clone)]
pub struct BodyStore {
    bus: Bus,
}

impl BodyStore {
    /// Creates a store that uses the given connection.
    pub const fn new(bus: Bus) -> Self {
        Self { bus }
    }

    async fn open_bucket(&self) -> Result<ObjectStore, ObjectError> {
        let bucket = self.bus.jetstream.get_object_store(BODIES_BUCKET).boxed();
        let found = self.bus.request_jetstream("STREAM.INFO", BODIES, bucket).await;
        found.map_err(unavailable_error)?.map_err(unavailable_error)
    }

    async fn store_if_missing(&self, name: &str, bytes: &[u8]) -> Result<(), ObjectError> {
        let bucket = self.open_bucket().await?;
        // The name is the hash of the content: storing it again would needlessly replace the chunks while
        // someone reads them.
        match bucket.info(name).await {
            Ok(found) if !found.deleted && found.size == bytes.len() => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == InfoErrorKind::NotFound => {}
            Err(error) => return Err(unavailable_error(error)),
        }
        put_object(&bucket, name, bytes).await.map_err(unavailable_error)?;
        Ok(())
    }

    /// Reads a body chunk by chunk with direct gets. The client's own reader would wait forever for a missing
    /// chunk.
    async fn fetch_chunks(&self, object: &ObjectRef) -> Result<Vec<u8>, ObjectError> {
        let bucket = self.open_bucket().await?;
        let info = match bucket.info(&object.name).await {
            Ok(info) if info.deleted => return Err(gone_error(object, "it was deleted")),
            Ok(info) => info,
            Err(error) if error.kind() == InfoErrorKind::NotFound => {
                return Err(gone_error(object, "there is no such object"));
            }
            Err(error) => return Err(unavailable_error(error)),
        };
        if info.size as u64 != object.bytes {
            return Err(gone_error(
                object,
                &format!("it is {} bytes long, {} were promised", info.size, object.bytes),
            ));
        }
        let stream = self.bus.jetstream.get_stream_no_info(BODIES).await.map_err(unavailable_error)?;
        let subject = format!("$O.{BODIES_BUCKET}.C.{}", info.nuid);
        let mut bytes = Vec::with_capacity(info.size);
        let mut after = 0;
        while bytes.len() < info.size {
            match stream.direct_get_next_for_subject(subject.as_str(), Some(after + 1)).await {
                Ok(chunk) => {
                    bytes.extend_from_slice(&chunk.payload);
                    after = chunk.sequence;
                }
                Err(error) if error.kind() == DirectGetErrorKind::NotFound => {
                    let problem = format!("only {} of its {} bytes are there", bytes.len(), info.size);
                    return Err(gone_error(object, &problem));
                }
                Err(error) => return Err(unavailable_error(error)),
            }
        }
        Ok(bytes)
    }
}

#[async_trait]
impl ObjectStorage for BodyStore {
    async fn put(&self, tenant: &Tenant, bytes: Bytes) -> Result<ObjectRef, ObjectError> {
        let sha256 = sha256_hex(&bytes);
        let object = ObjectRef { name: body_name(tenant, &sha256), sha256, bytes: bytes.len() as u64 };
        if object.bytes > BODY_BYTES_MAX {
            return Err(gone_error(
                &object,
                &format!("{} bytes are too many; at most {BODY_BYTES_MAX} are stored", object.bytes),
            ));
        }
        Box::pin(with_timeout(self.store_if_missing(&object.name, &bytes))).await?;
        Ok(object)
    }

    async fn get(&self, object: &ObjectRef) -> Result<Bytes, ObjectError> {
        if body_owner(object).is_none() {
            return Err(gone_error(object, "its name is not a tenant's prefix and its own hash"));
        }
        if object.bytes > BODY_BYTES_MAX {
            return Err(gone_error(
                object,
                &format!("{} bytes are too many; at most {BODY_BYTES_MAX} are fetched", object.bytes),
            ));
        }
        let waits = ConstantBuilder::default().with_delay(LAG_WAIT).with_max_times(LAGGING_READS_MAX);
        let read = (|| self.fetch_chunks(object)).retry(waits);
        let bytes =
            with_timeout(async { read.when(|error| matches!(error, ObjectError::Gone { .. })).await })
                .await?;
        let found = sha256_hex(&bytes);
        if found != object.sha256 {
            return Err(gone_error(
                object,
                &format!("its bytes have the hash {found}, {} was promised", object.sha256),
            ));
        }
        Ok(bytes.into())
    }
}

async fn with_timeout<T>(work: impl Future<Output = Result<T, ObjectError>>) -> Result<T, ObjectError> {
    tokio::time::timeout(TRANSFER_TIMEOUT, work).await.unwrap_or_else(|_| {
        Err(ObjectError::Unavailable(format!("no answer within {} s", TRANSFER_TIMEOUT.as_secs())))
    })
}

fn gone_error(object: &ObjectRef, problem: &str) -> ObjectError {
    ObjectError::Gone { name: object.name.clone(), problem: problem.to_owned() }
}

fn unavailable_error(error: impl std::fmt::Display) -> ObjectError {
    ObjectError::Unavailable(error.to_string())
}
