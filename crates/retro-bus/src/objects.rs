//! Bodies that are too large for a message, in the broker's object store. A body is named
//! `<encoded tenant>/<sha256>`: derived from its content, so that storing it again is harmless. Whoever takes a
//! reference from outside compares its prefix with the tenant of the subject (`retro_events::subject::owner_of_body`);
//! here a name that is not one, or not of its own hash, is refused.

use std::time::Duration;

use async_nats::jetstream::object_store::{InfoErrorKind, ObjectStore};
use async_nats::jetstream::stream::DirectGetErrorKind;
use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use retro_core::canonical::sha256_hex;
use retro_core::id::Tenant;
use retro_core::run::ObjectRef;
use retro_events::subject::{body_name, owner_of_body};
use retro_events::{ObjectError, Objects};

use crate::Bus;
use crate::step::put_object;
use crate::topology::{BODIES, BODIES_BUCKET};

/// The largest body we take; the same bound as at the edges.
pub const BODY_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How long fetching or storing one body may take, chunk by chunk.
const TRANSFER_MAX: Duration = Duration::from_secs(60);

/// The broker's object store.
#[derive(Debug, Clone)]
pub struct BodyStore {
    bus: Bus,
}

impl BodyStore {
    /// The object store behind a connection.
    pub const fn new(bus: Bus) -> Self {
        Self { bus }
    }

    async fn bucket(&self) -> Result<ObjectStore, ObjectError> {
        let bucket = self.bus.jetstream.get_object_store(BODIES_BUCKET).boxed();
        let found = self.bus.ask("STREAM.INFO", BODIES, bucket).await;
        found.map_err(unavailable)?.map_err(unavailable)
    }

    async fn store(&self, name: &str, bytes: &[u8]) -> Result<(), ObjectError> {
        let bucket = self.bucket().await?;
        // Storing again would move the object under a reader's feet, for nothing: the name is the content's hash.
        match bucket.info(name).await {
            Ok(found) if !found.deleted && found.size == bytes.len() => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == InfoErrorKind::NotFound => {}
            Err(error) => return Err(unavailable(error)),
        }
        put_object(&bucket, name, bytes).await.map_err(unavailable)?;
        Ok(())
    }

    /// Reads chunk by chunk by the broker's direct get, not through the client's reader: that one waits for ever for a
    /// chunk that is gone.
    async fn fetch(&self, object: &ObjectRef) -> Result<Vec<u8>, ObjectError> {
        let bucket = self.bucket().await?;
        let info = match bucket.info(&object.name).await {
            Ok(info) if info.deleted => return Err(gone(object, "it was deleted")),
            Ok(info) => info,
            Err(error) if error.kind() == InfoErrorKind::NotFound => {
                return Err(gone(object, "there is no such object"));
            }
            Err(error) => return Err(unavailable(error)),
        };
        if info.size as u64 != object.bytes {
            return Err(gone(
                object,
                &format!("it is {} bytes long, {} were promised", info.size, object.bytes),
            ));
        }
        let stream = self.bus.jetstream.get_stream_no_info(BODIES).await.map_err(unavailable)?;
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
                    return Err(gone(object, &problem));
                }
                Err(error) => return Err(unavailable(error)),
            }
        }
        Ok(bytes)
    }
}

#[async_trait]
impl Objects for BodyStore {
    async fn put(&self, tenant: &Tenant, bytes: Bytes) -> Result<ObjectRef, ObjectError> {
        let sha256 = sha256_hex(&bytes);
        let object = ObjectRef { name: body_name(tenant, &sha256), sha256, bytes: bytes.len() as u64 };
        if object.bytes > BODY_BYTES_MAX {
            return Err(gone(
                &object,
                &format!("{} bytes are not taken; at most {BODY_BYTES_MAX} are", object.bytes),
            ));
        }
        Box::pin(within_time(self.store(&object.name, &bytes))).await?;
        Ok(object)
    }

    async fn get(&self, object: &ObjectRef) -> Result<Bytes, ObjectError> {
        if owner_of_body(object).is_none() {
            return Err(gone(object, "its name is not a tenant's prefix and its own hash"));
        }
        if object.bytes > BODY_BYTES_MAX {
            return Err(gone(
                object,
                &format!("{} bytes are not fetched; at most {BODY_BYTES_MAX} are", object.bytes),
            ));
        }
        let bytes = within_time(self.fetch(object)).await?;
        let found = sha256_hex(&bytes);
        if found != object.sha256 {
            return Err(gone(
                object,
                &format!("its bytes have the hash {found}, {} was promised", object.sha256),
            ));
        }
        Ok(bytes.into())
    }
}

async fn within_time<T>(work: impl Future<Output = Result<T, ObjectError>>) -> Result<T, ObjectError> {
    tokio::time::timeout(TRANSFER_MAX, work).await.unwrap_or_else(|_| {
        Err(ObjectError::Unavailable(format!("no answer within {} s", TRANSFER_MAX.as_secs())))
    })
}

fn gone(object: &ObjectRef, problem: &str) -> ObjectError {
    ObjectError::Gone { name: object.name.clone(), problem: problem.to_owned() }
}

fn unavailable(error: impl std::fmt::Display) -> ObjectError {
    ObjectError::Unavailable(error.to_string())
}
