//! How much is read in at once. Whoever sends is not known before the last byte, so a body takes room as it arrives and not as it
//! is announced: to say much and send nothing keeps nobody out.

use std::sync::Arc;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What is counted in, bytes; each request takes one at least, so that many small ones are bounded too.
const UNIT_BYTES: usize = 64 * 1024;

/// Room for bodies. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<Semaphore>);

/// A body that was read in, whose room is free once this is dropped.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) body: Bytes,
    _place: OwnedSemaphorePermit,
}

/// Why a body was not read in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outside {
    /// There is no room now.
    Full,
    /// It is larger than any that is taken.
    TooLarge,
    /// It did not arrive whole.
    Broken(String),
}

impl Room {
    /// Room for so many bytes of bodies.
    pub(crate) fn new(bytes: u64) -> Self {
        let units = usize::try_from(bytes).unwrap_or(usize::MAX) / UNIT_BYTES;
        Self(Arc::new(Semaphore::new(units.min(Semaphore::MAX_PERMITS))))
    }

    /// Reads a body of at most so many bytes.
    pub(crate) async fn read(&self, body: Body, bytes_max: usize) -> Result<Inside, Outside> {
        let mut place = self.enter(1)?;
        let mut whole = BytesMut::new();
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| Outside::Broken(error.to_string()))?;
            if whole.len() + chunk.len() > bytes_max {
                return Err(Outside::TooLarge);
            }
            whole.extend_from_slice(&chunk);
            let units = whole.len().div_ceil(UNIT_BYTES);
            if units > place.num_permits() {
                place.merge(self.enter(units - place.num_permits())?);
            }
        }
        Ok(Inside { body: whole.freeze(), _place: place })
    }

    fn enter(&self, units: usize) -> Result<OwnedSemaphorePermit, Outside> {
        let units = u32::try_from(units).map_err(|_| Outside::TooLarge)?;
        self.0.clone().try_acquire_many_owned(units).map_err(|_| Outside::Full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(bytes: usize) -> Body {
        let chunks = (0..bytes / 1000).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 1000])));
        Body::from_stream(futures::stream::iter(chunks))
    }

    #[tokio::test]
    async fn bodies_have_the_room_that_they_fill_and_leave_it() {
        let room = Room::new(3 * UNIT_BYTES as u64);
        let first = room.read(body(100_000), 200_000).await.unwrap();
        assert_eq!(first.body.len(), 100_000);
        let second = room.read(body(0), 200_000).await.unwrap();
        assert_eq!(room.read(body(0), 200_000).await.unwrap_err(), Outside::Full);
        drop(first);
        assert_eq!(
            room.read(body(150_000), 200_000).await.unwrap_err(),
            Outside::Full,
            "two of three units are free"
        );
        drop(second);
        let third = room.read(body(150_000), 200_000).await.unwrap();
        assert_eq!(third.body.len(), 150_000);
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_or_breaks_off_leaves_its_room() {
        let room = Room::new(2 * UNIT_BYTES as u64);
        assert_eq!(room.read(body(2000), 1999).await.unwrap_err(), Outside::TooLarge);
        let broken = vec![Ok(Bytes::from_static(b"x")), Err(std::io::Error::other("hung up"))];
        let broken = Body::from_stream(futures::stream::iter(broken));
        let Err(Outside::Broken(told)) = room.read(broken, 1999).await else { panic!("it broke off") };
        assert!(told.contains("hung up"), "{told}");
        assert_eq!(room.0.available_permits(), 2);
    }
}
