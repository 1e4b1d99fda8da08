//! Agents ask over a real broker, and processes with the role of the gateway answer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Message, StatusCode};
use bytes::Bytes;
use futures::StreamExt as _;
use jiff::Timestamp;
use retro_bus::{Bus, BusConfig, TopologyMode, serve_agents};
use retro_core::id::Tenant;
use retro_events::Role;
use retro_events::agents::{
    AgentOperation, AgentRefusal, AgentReply, AgentRequest, AgentService, BegunAnswer,
};
use retro_events::permissions::{BrokerUser, inbox_prefix};
use retro_testkit::{SecuredNats, TEST_TIMEOUT, TestNats, test_password};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::wire::Wire;

/// Subject on which the tests ask.
const CONTEXT: &str = "retro.agents.context.acme";

/// A service that answers with its name, the subject and the payload. It refuses the payload `bad`, and keeps the payload
/// `slow` until the test lets it go.
struct EchoService {
    name: &'static str,
    released: Semaphore,
    begun: AtomicUsize,
}

impl EchoService {
    fn new(name: &'static str) -> Arc<Self> {
        Arc::new(Self { name, released: Semaphore::new(0), begun: AtomicUsize::new(0) })
    }
}

/// Newtype, because the trait is foreign.
struct Echo(Arc<EchoService>);

impl AgentService for Echo {
    fn begin_answer(&self, request: AgentRequest) -> BegunAnswer {
        let service = self.0.clone();
        service.begun.fetch_add(1, Ordering::SeqCst);
        let text = String::from_utf8(request.payload.to_vec()).unwrap();
        let reply = AgentReply {
            payload: format!("{} {} {text}", service.name, request.subject).into(),
            refusal: (text == "bad").then(|| AgentRefusal { status: 400, reason: "it is bad".to_owned() }),
        };
        match text.as_str() {
            "bad" => BegunAnswer::Ready(reply),
            _ => BegunAnswer::Pending(Box::pin(async move {
                if text == "slow" {
                    service.released.acquire().await.unwrap().forget();
                }
                reply
            })),
        }
    }
}

/// A process that answers agents.
struct Gateway {
    service: Arc<EchoService>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Gateway {
    async fn start(config: BusConfig, name: &'static str) -> Self {
        let config = BusConfig { topology_mode: TopologyMode::Verify, ..config }.for_agents();
        let (bus, service, stop) =
            (Bus::connect(config).await.unwrap(), EchoService::new(name), CancellationToken::new());
        let serving = serve_agents(bus, Arc::new(Echo(service.clone())), Timestamp::UNIX_EPOCH, stop.clone());
        Self { service, stop, task: tokio::spawn(serving) }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

async fn connect_client(url: &str, prefix: Option<&str>) -> Client {
    let (_, login) = url.split_once("://").unwrap();
    let (user, password) = login.split_once('@').unwrap().0.split_once(':').unwrap();
    let options = ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned());
    let options = match prefix {
        Some(prefix) => options.custom_inbox_prefix(prefix),
        None => options,
    };
    options.request_timeout(Some(TEST_TIMEOUT)).connect(url).await.unwrap()
}

/// Sends a request until somebody answers: a gateway has subscribed a moment after it has started.
async fn ask(client: &Client, subject: &str, payload: &'static str) -> Message {
    let asking = async {
        loop {
            let answer = client.request(subject.to_owned(), Bytes::from_static(payload.as_bytes())).await;
            match answer {
                Ok(answer) => return answer,
                Err(error) if error.kind() == async_nats::RequestErrorKind::NoResponders => {}
                Err(error) => panic!("{subject}: {error}"),
            }
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, asking).await.expect("a gateway answers")
}

fn text_of(message: &Message) -> String {
    String::from_utf8(message.payload.to_vec()).unwrap()
}

#[tokio::test]
async fn a_request_is_answered_once_and_a_refusal_has_the_headers_of_a_service_and_a_payload() {
    let nats = TestNats::start().await;
    let gateway = Gateway::start(nats.bus_config("gateway"), "a").await;
    let client = connect_client(nats.url(), None).await;
    for operation in AgentOperation::ALL {
        let subject = operation.subject_of_tenant(&Tenant::new("acme").unwrap());
        let answer = ask(&client, &subject, "hello").await;
        assert_eq!((text_of(&answer), answer.headers), (format!("a {subject} hello"), None));
    }
    let refused = ask(&client, CONTEXT, "bad").await;
    let headers = refused.headers.clone().unwrap();
    let header = |name: &str| headers.get(name).unwrap().as_str().to_owned();
    assert_eq!(
        (header("Nats-Service-Error"), header("Nats-Service-Error-Code")),
        ("it is bad".into(), "400".into())
    );
    assert_eq!(header("Content-Type"), "application/problem+json");
    assert_eq!(text_of(&refused), format!("a {CONTEXT} bad"));

    // Neither a request without an answer's subject nor one with a subject of ours is begun.
    let mut spy = client.subscribe("retro.memory.changed.>").await.unwrap();
    client.publish(CONTEXT, "nobody waits".into()).await.unwrap();
    client.publish_with_reply(CONTEXT, "retro.memory.changed.acme.ci", "trick".into()).await.unwrap();
    ask(&client, CONTEXT, "last").await;
    assert_eq!(gateway.service.begun.load(Ordering::SeqCst), 6, "four operations, one refusal and the last");
    client.publish("retro.memory.changed.acme.end", "end".into()).await.unwrap();
    assert_eq!(spy.next().await.unwrap().subject.as_str(), "retro.memory.changed.acme.end");

    let stats = client.request("$SRV.STATS.retro-agents", Bytes::new()).await.unwrap();
    let stats: Value = serde_json::from_slice(&stats.payload).unwrap();
    let context = &stats["endpoints"][0];
    assert_eq!((&context["num_requests"], &context["num_errors"]), (&3.into(), &1.into()), "{stats}");
    assert_eq!(context["last_error"], "400:it is bad");
    let ping: Value =
        serde_json::from_slice(&client.request("$SRV.PING", Bytes::new()).await.unwrap().payload).unwrap();
    let own = format!("$SRV.INFO.retro-agents.{}", ping["id"].as_str().unwrap());
    let info = client.request(own, Bytes::new()).await.unwrap();
    assert!(text_of(&info).contains("retro.agents.memory.read.*"), "{}", text_of(&info));
    gateway.stop().await;
}

#[tokio::test]
async fn two_gateways_share_the_requests_and_one_that_stops_answers_those_it_has() {
    let nats = TestNats::start().await;
    let client = connect_client(nats.url(), None).await;
    let first = Gateway::start(nats.bus_config("first"), "first").await;
    let slow = tokio::spawn({
        let client = client.clone();
        async move { ask(&client, CONTEXT, "slow").await }
    });
    wait_until_begun(&first, 1).await;
    let second = Gateway::start(nats.bus_config("second"), "second").await;
    let mut answered = BTreeSet::new();
    while answered.len() < 2 {
        let answer = text_of(&ask(&client, CONTEXT, "hello").await);
        answered.insert(answer.split(' ').next().unwrap().to_owned());
    }
    first.stop.cancel();
    // Every request is answered while the first one leaves: the broker sends it none, or it answers what it was sent.
    loop {
        let before = first.service.begun.load(Ordering::SeqCst);
        for _ in 0..50 {
            ask(&client, CONTEXT, "hello").await;
        }
        if first.service.begun.load(Ordering::SeqCst) == before {
            break;
        }
    }
    assert!(!slow.is_finished() && !first.task.is_finished(), "one request is still in progress");
    first.service.released.add_permits(1);
    assert_eq!(text_of(&slow.await.unwrap()), format!("first {CONTEXT} slow"));
    first.task.await.unwrap();
    second.stop().await;
    let nobody = client.request(CONTEXT, Bytes::new()).await.unwrap_err();
    assert_eq!(nobody.kind(), async_nats::RequestErrorKind::NoResponders, "an agent is told at once");
}

async fn wait_until_begun(gateway: &Gateway, count: usize) {
    let begun = async {
        while gateway.service.begun.load(Ordering::SeqCst) < count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, begun).await.unwrap();
}

#[tokio::test]
async fn a_gateway_answers_again_after_the_broker_was_away() {
    let nats = TestNats::start().await;
    let gateway = Gateway::start(nats.bus_config("gateway"), "a").await;
    let client = connect_client(nats.url(), None).await;
    ask(&client, CONTEXT, "before").await;
    let killed = nats.kill_server();
    nats.wait_until_healthy(killed).await;
    let client = connect_client(nats.url(), None).await;
    assert_eq!(text_of(&ask(&client, CONTEXT, "after").await), format!("a {CONTEXT} after"));
    gateway.stop().await;
}

#[tokio::test]
async fn a_gateway_that_stops_while_the_broker_is_away_ends() {
    let nats = TestNats::start().await;
    let gateway = Gateway::start(nats.bus_config("gateway"), "a").await;
    ask(&connect_client(nats.url(), None).await, CONTEXT, "before").await;
    nats.stop().await;
    tokio::time::timeout(Duration::from_secs(20), gateway.stop()).await.expect("it waits for a bounded time");
}

/// Each tenant has an account of its own, so requests and answers cross accounts.
#[tokio::test]
async fn agents_ask_for_their_own_tenant_only_and_are_answered_in_their_own_account() {
    const ODD: &str = "größe & $co";
    let tenants = ["acme", "other", ODD].map(|name| Tenant::new(name).unwrap());
    let nats = SecuredNats::start(&tenants).await;
    let user = BrokerUser::Role(Role::Gateway);
    let gateway = Gateway::start(nats.bus_config(&user), "a").await;
    let as_user = async |user: &BrokerUser| {
        let url = format!("nats://{user}:{}@{}", test_password(user), nats.address());
        connect_client(&url, Some(&inbox_prefix(Some(&user.to_string())))).await
    };
    for tenant in &tenants {
        let client = as_user(&BrokerUser::Engine(tenant.clone())).await;
        for operation in AgentOperation::ALL {
            let subject = operation.subject_of_tenant(tenant);
            assert_eq!(text_of(&ask(&client, &subject, "mine").await), format!("a {subject} mine"));
        }
    }
    let begun = gateway.service.begun.load(Ordering::SeqCst);
    let engine = BrokerUser::Engine(tenants[0].clone());
    let mut wire = Wire::connect(&nats, &engine).await;
    for foreign in ["retro.agents.context.other", "retro.agents.memory.read.other", "retro.agents.context.*"]
    {
        let refusal = wire.request(&engine, foreign, "x: y", "{}").await;
        assert!(refusal.contains("Permissions Violation"), "{foreign}: {refusal}");
    }
    // An answer's subject is one of the agent's own account, whatever it is called.
    let mut neighbour = Wire::connect(&nats, &BrokerUser::Engine(tenants[1].clone())).await;
    assert_eq!(neighbour.subscribe("_INBOX_engine-other.>").await, None);
    for reply in ["_INBOX_engine-other.x", "retro.agents.context.other", CONTEXT] {
        assert_eq!(wire.publish(&format!("{CONTEXT} {reply}"), "hello").await, None);
    }
    assert_eq!(wire.request(&engine, CONTEXT, "x: y", "last").await, format!("a {CONTEXT} last"));
    assert_eq!(
        gateway.service.begun.load(Ordering::SeqCst),
        begun + 4,
        "three requests and the last; an answer that is sent as a request names no subject for an answer"
    );
    neighbour.send("retro.agents.context.other _INBOX_engine-other.y", "own").await;
    assert_eq!(
        neighbour.next_message().await,
        ("_INBOX_engine-other.y".to_owned(), "a retro.agents.context.other own".to_owned()),
        "the first message is the answer to its own request"
    );

    let setup = as_user(&BrokerUser::Setup).await;
    let found = setup.request("$SRV.PING.retro-agents", Bytes::new()).await.unwrap();
    assert!(text_of(&found).contains("io.nats.micro.v1.ping_response"), "an operator finds the gateway");
    assert_ne!(found.status, Some(StatusCode::NO_RESPONDERS));
    gateway.stop().await;
}
