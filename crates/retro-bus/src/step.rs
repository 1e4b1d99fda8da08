//! What lasts at the broker, each under its label: the one place that says something, makes something or stores something
//! there. `xtask tidy` looks for the same calls elsewhere.

use async_nats::client::{PublishError as TellError, RequestError};
use async_nats::header::HeaderMap;
use async_nats::jetstream::consumer::{Consumer, pull};
use async_nats::jetstream::context::{CreateStreamError, PublishAckFuture, PublishError, UpdateStreamError};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::object_store::{ObjectInfo, ObjectStore, PutError};
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::stream::{Config, ConsumerError, ConsumerUpdateError, Info, Stream};
use async_nats::{Message, Request, Subject};
use bytes::Bytes;
use retro_fault::{Label, Side, cross, step};

use crate::Bus;

/// A publication whose acknowledgement is not there yet.
#[derive(Debug)]
pub(crate) struct Published {
    label: Label,
    ack: PublishAckFuture,
}

impl Published {
    /// Waits until the broker has it.
    pub(crate) async fn acknowledged(self) -> Result<PublishAck, PublishError> {
        let ack = self.ack.await?;
        cross(self.label, Side::After);
        Ok(ack)
    }
}

impl Bus {
    /// Publishes to a stream.
    pub(crate) async fn send(
        &self,
        label: Label,
        subject: &str,
        publication: PublishMessage,
    ) -> Result<Published, PublishError> {
        cross(label, Side::Before);
        let ack = self.jetstream.send_publish(subject.to_owned(), publication).await?;
        Ok(Published { label, ack })
    }

    /// Sends a message and waits for its answer: a publication to a stream, an acknowledgement that is confirmed.
    pub(crate) async fn call(
        &self,
        label: Label,
        subject: Subject,
        request: Request,
    ) -> Result<Message, RequestError> {
        step(label, self.client.send_request(subject, request)).await
    }

    /// Gives an acknowledgement, or what stands in its place, to the client, which sends it on.
    pub(crate) async fn answer(&self, label: Label, reply: Subject, answer: Bytes) -> Result<(), TellError> {
        step(label, self.client.publish(reply, answer)).await
    }

    /// Gives a message to the client, which sends it on: one of a batch, whose last one is answered.
    pub(crate) async fn tell(
        &self,
        label: Label,
        subject: Subject,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<(), TellError> {
        step(label, self.client.publish_with_headers(subject, headers, payload)).await
    }

    /// Says that a message is still being worked on, which lasts no longer than the broker's patience.
    pub(crate) async fn report_progress(&self, reply: Subject) -> Result<(), TellError> {
        self.client.publish(reply, Bytes::from_static(b"+WPI")).await
    }

    /// Asks a consumer for messages; they come to `inbox`.
    pub(crate) async fn pull(&self, ask: Subject, inbox: Subject, how: Bytes) -> Result<(), TellError> {
        self.client.publish_with_reply(ask, inbox, how).await
    }

    pub(crate) async fn make_stream(&self, wanted: Config) -> Result<Stream, CreateStreamError> {
        step(Label::StreamCreate, self.jetstream.create_stream(wanted)).await
    }

    pub(crate) async fn change_stream(&self, wanted: Config) -> Result<Info, UpdateStreamError> {
        step(Label::StreamUpdate, self.jetstream.update_stream(wanted)).await
    }
}

pub(crate) async fn make_consumer(
    stream: &Stream<()>,
    wanted: pull::Config,
) -> Result<Consumer<pull::Config>, ConsumerError> {
    step(Label::ConsumerCreate, stream.create_consumer(wanted)).await
}

pub(crate) async fn change_consumer(
    stream: &Stream<()>,
    wanted: pull::Config,
) -> Result<Consumer<pull::Config>, ConsumerUpdateError> {
    step(Label::ConsumerUpdate, stream.update_consumer(wanted)).await
}

pub(crate) async fn put_object(
    bucket: &ObjectStore,
    name: &str,
    mut bytes: &[u8],
) -> Result<ObjectInfo, PutError> {
    step(Label::ObjectPut, bucket.put(name, &mut bytes)).await
}
