use std::sync::Arc;

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::stream::{self, StorageType};
use retro_bus::{ACK_WAIT, Bus, BusConfig, BusError, StreamSizes, topology};
use retro_consumer::HandlerOutcome;
use retro_testkit::TestNats;

use crate::world::{RunningConsumer, ScriptedConsumer, connect_directly, publish_events};

#[tokio::test]
async fn ensuring_the_topology_twice_changes_nothing() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    let jetstream = connect_directly(nats.url()).await;
    let mut before = Vec::new();
    for name in
        [topology::INTAKE, topology::GITHUB, topology::WORK, topology::ANNOUNCEMENTS, "OBJ_retro-bodies"]
    {
        let stream = jetstream.get_stream(name).await.unwrap();
        let config = &stream.cached_info().config;
        assert_eq!(config.storage, StorageType::File, "{name}");
        assert_eq!(config.discard, stream::DiscardPolicy::New, "{name}");
        assert!(config.max_bytes > 0 && config.max_age.as_secs() >= 14 * 86400, "{name}");
        before.push(config.clone());
    }
    topology::ensure_topology(&bus, ACK_WAIT).await.unwrap();
    for config in before {
        assert_eq!(jetstream.get_stream(&config.name).await.unwrap().cached_info().config, config);
    }
}

#[tokio::test]
async fn a_changed_stream_is_updated_and_keeps_messages_and_operator_settings() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    publish_events(&bus, ["kept".to_owned()]).await;
    let jetstream = connect_directly(nats.url()).await;
    let mut config = jetstream.get_stream(topology::INTAKE).await.unwrap().cached_info().config.clone();
    config.max_message_size = 1_000_000;
    config.discard = stream::DiscardPolicy::Old;
    jetstream.update_stream(config).await.unwrap();

    let sizes = StreamSizes { intake_bytes: 32 * 1024 * 1024, ..nats.bus_config("test").sizes };
    let bus = Bus::connect(BusConfig { sizes, ..nats.bus_config("test") }).await.unwrap();
    topology::ensure_topology(&bus, ACK_WAIT).await.unwrap();
    let stream = jetstream.get_stream(topology::INTAKE).await.unwrap();
    let info = stream.cached_info();
    assert_eq!(info.config.max_bytes, 32 * 1024 * 1024);
    assert_eq!(info.config.discard, stream::DiscardPolicy::New);
    assert_eq!(info.config.max_message_size, 1_000_000);
    assert_eq!(info.state.messages, 1);
}

#[tokio::test]
async fn a_stream_is_not_made_smaller_than_what_it_holds() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    publish_events(&bus, ["kept".to_owned()]).await;
    let jetstream = connect_directly(nats.url()).await;
    let load = async || jetstream.get_stream(topology::INTAKE).await.unwrap().cached_info().clone();
    let limited = load().await.config;
    let sizes = StreamSizes { intake_bytes: 16, ..nats.bus_config("test").sizes };
    let bus = Bus::connect(BusConfig { sizes, ..nats.bus_config("test") }).await.unwrap();
    for before in [limited.clone(), stream::Config { max_bytes: -1, ..limited }] {
        jetstream.update_stream(before.clone()).await.unwrap();
        let error = topology::ensure_topology(&bus, ACK_WAIT).await.unwrap_err();
        assert!(matches!(error, BusError::Unusable { .. }), "{error}");
        assert!(error.to_string().contains("set a larger `streams_mib`"), "{error}");
        let info = load().await;
        assert_eq!((info.config.max_bytes, info.state.messages), (before.max_bytes, 1));
    }
}

#[tokio::test]
async fn a_stream_that_cannot_be_updated_is_refused_with_a_hint() {
    let nats = TestNats::start().await;
    let jetstream = connect_directly(nats.url()).await;
    let wrong = stream::Config {
        name: topology::WORK.to_owned(),
        subjects: vec!["retro.work.>".to_owned()],
        storage: StorageType::Memory,
        ..stream::Config::default()
    };
    jetstream.create_stream(wrong).await.unwrap();
    let bus = Bus::connect(nats.bus_config("test")).await.unwrap();
    let error = topology::ensure_topology(&bus, ACK_WAIT).await.unwrap_err();
    assert!(matches!(error, BusError::Unusable { .. }), "{error}");
    assert!(error.to_string().contains(topology::WORK) && error.to_string().contains("delete"), "{error}");
}

#[tokio::test]
async fn a_changed_durable_consumer_is_updated_and_keeps_its_position() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    let store = Arc::default();
    let consumer = ScriptedConsumer::new(|_| HandlerOutcome::Done);
    let running = RunningConsumer::start(&bus, consumer.clone(), &store);
    publish_events(&bus, ["before".to_owned()]).await;
    consumer.wait_for_messages(1).await;
    running.stop().await;

    let jetstream = connect_directly(nats.url()).await;
    let stream = jetstream.get_stream(topology::INTAKE).await.unwrap();
    let durable: PullConsumer = stream.get_consumer("scripted").await.unwrap();
    let right = durable.cached_info().config.clone();
    assert_eq!((right.max_deliver, right.ack_wait.as_secs(), right.backoff.len()), (-1, 30, 0));
    assert!(right.max_ack_pending > 0);
    let mut wrong = async_nats::jetstream::consumer::pull::Config {
        durable_name: Some("scripted".to_owned()),
        ack_policy: right.ack_policy,
        ..Default::default()
    };
    wrong.max_deliver = 3;
    stream.update_consumer(wrong).await.unwrap();

    let consumer = ScriptedConsumer::new(|_| HandlerOutcome::Done);
    let running = RunningConsumer::start(&bus, consumer.clone(), &store);
    publish_events(&bus, ["after".to_owned()]).await;
    assert_eq!(consumer.wait_for_messages(1).await[0].text, "after");
    running.stop().await;
    let durable: PullConsumer = stream.get_consumer("scripted").await.unwrap();
    let now = &durable.cached_info().config;
    assert_eq!(
        (now.max_deliver, &now.filter_subjects, now.ack_wait),
        (-1, &right.filter_subjects, right.ack_wait)
    );
}
