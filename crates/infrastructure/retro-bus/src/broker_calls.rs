//! Contains every call that changes something at the broker, with its fault label. No other module may
//! publish, create or store anything at the broker; `xtask tidy` reports such calls elsewhere.

use async_nats::client::{PublishError as CorePublishError, RequestError, RequestErrorKind};
use async_nats::header::HeaderMap;
use async_nats::jetstream::consumer::{Consumer, pull};
use async_nats::jetstream::context::{
    CreateStreamError, PublishAckFuture, PublishError, PublishErrorKind, UpdateStreamError,
};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::object_store::{ObjectInfo, ObjectStore, PutError};
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::stream::{Config, ConsumerError, ConsumerUpdateError, Info, Stream};
use async_nats::{Message, Request, Subject};
use bytes::Bytes;
use retro_fault::{Label, Side, cross_point, run_step};

use crate::Bus;
use crate::connection_loss::ConnectionWatch;

/// A published message whose acknowledgement has not yet arrived.
#[derive(Debug)]
pub(crate) struct PendingPublish {
    label: Label,
    ack: PublishAckFuture,
    connection: ConnectionWatch,
}

impl PendingPublish {
    /// Waits until the broker has stored the message. Fails as soon as the connection is lost.
    pub(crate) async fn wait_for_ack(self) -> Result<PublishAck, PublishError> {
        let ack = match self.connection.unless_lost(self.ack.into_future()).await {
            Ok(answer) => answer?,
            Err(lost) => return Err(PublishError::with_source(PublishErrorKind::Other, lost)),
        };
        cross_point(self.label, Side::After);
        Ok(ack)
    }
}

impl Bus {
    /// Publishes to a stream without waiting for the acknowledgement.
    pub(crate) async fn publish_to_stream(
        &self,
        label: Label,
        subject: &str,
        publication: PublishMessage,
    ) -> Result<PendingPublish, PublishError> {
        cross_point(label, Side::Before);
        let connection = self.losses.watch();
        let ack = self.jetstream.send_publish(subject.to_owned(), publication).await?;
        Ok(PendingPublish { label, ack, connection })
    }

    /// Sends a message and waits for the reply. The message is a publication to a stream, or an acknowledgement that
    /// the broker has to confirm. Fails as soon as the connection is lost.
    pub(crate) async fn request_answer(
        &self,
        label: Label,
        subject: Subject,
        request: Request,
    ) -> Result<Message, RequestError> {
        let connection = self.losses.watch();
        let answer = async {
            match connection.unless_lost(self.client.send_request(subject, request)).await {
                Ok(answer) => answer,
                Err(lost) => Err(RequestError::with_source(RequestErrorKind::Other, lost)),
            }
        };
        run_step(label, answer).await
    }

    /// Queues an acknowledgement or negative acknowledgement in the client for sending.
    pub(crate) async fn send_reply(
        &self,
        label: Label,
        reply: Subject,
        answer: Bytes,
    ) -> Result<(), CorePublishError> {
        run_step(label, self.client.publish(reply, answer)).await
    }

    /// Queues a message of an atomic batch in the client for sending. Only the first and the last message of
    /// a batch are acknowledged.
    pub(crate) async fn publish_core(
        &self,
        label: Label,
        subject: Subject,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<(), CorePublishError> {
        run_step(label, self.client.publish_with_headers(subject, headers, payload)).await
    }

    /// Tells the broker that a message is still being handled, which restarts its ack wait.
    pub(crate) async fn report_progress(&self, reply: Subject) -> Result<(), CorePublishError> {
        self.client.publish(reply, Bytes::from_static(b"+WPI")).await
    }

    /// Says that the outbox has messages. The broker stores nothing, so this step needs no label.
    pub(crate) async fn wake_relay(&self, subject: Subject) -> Result<(), CorePublishError> {
        self.client.publish(subject, Bytes::new()).await
    }

    /// Answers a request of an agent. The broker stores nothing, so this step needs no label.
    pub(crate) async fn answer_agent(
        &self,
        reply: Subject,
        headers: Option<HeaderMap>,
        answer: Bytes,
    ) -> Result<(), CorePublishError> {
        match headers {
            Some(headers) => self.client.publish_with_headers(reply, headers, answer).await,
            None => self.client.publish(reply, answer).await,
        }
    }

    /// Asks the processes of a service about themselves and returns the first answer. It changes nothing, so this step
    /// needs no label.
    pub(crate) async fn ask_services(&self, subject: Subject) -> Result<Message, RequestError> {
        self.client.request(subject, Bytes::new()).await
    }

    /// Requests messages of a consumer, which the broker sends to the subject `inbox`.
    pub(crate) async fn request_messages(
        &self,
        subject: Subject,
        inbox: Subject,
        request: Bytes,
    ) -> Result<(), CorePublishError> {
        self.client.publish_with_reply(subject, inbox, request).await
    }

    pub(crate) async fn add_stream(&self, wanted: Config) -> Result<Stream, CreateStreamError> {
        run_step(Label::StreamCreate, self.jetstream.create_stream(wanted)).await
    }

    pub(crate) async fn reconfigure_stream(&self, wanted: Config) -> Result<Info, UpdateStreamError> {
        run_step(Label::StreamUpdate, self.jetstream.update_stream(wanted)).await
    }
}

pub(crate) async fn create_consumer(
    stream: &Stream<()>,
    wanted: pull::Config,
) -> Result<Consumer<pull::Config>, ConsumerError> {
    run_step(Label::ConsumerCreate, stream.create_consumer(wanted)).await
}

pub(crate) async fn update_consumer(
    stream: &Stream<()>,
    wanted: pull::Config,
) -> Result<Consumer<pull::Config>, ConsumerUpdateError> {
    run_step(Label::ConsumerUpdate, stream.update_consumer(wanted)).await
}

pub(crate) async fn put_object(
    bucket: &ObjectStore,
    name: &str,
    mut bytes: &[u8],
) -> Result<ObjectInfo, PutError> {
    run_step(Label::ObjectPut, bucket.put(name, &mut bytes)).await
}
