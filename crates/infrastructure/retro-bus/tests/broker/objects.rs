use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use retro_bus::BodyStore;
use retro_core::canonical::sha256_hex;
use retro_core::id::Tenant;
use retro_core::run::ObjectRef;
use retro_events::{ObjectError, ObjectStorage};
use retro_testkit::{TEST_TIMEOUT, TestNats};

use crate::world::connect_directly;

fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

fn body() -> Bytes {
    (0..1_500_000_u32).map(|n| (n % 251) as u8).collect::<Vec<_>>().into()
}

#[tokio::test]
async fn a_body_is_returned_unchanged_and_can_be_stored_twice() {
    let nats = TestNats::start().await;
    let bodies = BodyStore::new(nats.connect_bus("test").await);
    let object = bodies.put(&tenant("a/b"), body()).await.unwrap();
    assert_eq!(object.name, format!("a=2Fb/{}", sha256_hex(&body())));
    assert_eq!(object.bytes, 1_500_000);
    assert_eq!(bodies.get(&object).await.unwrap(), body());
    assert_eq!(bodies.put(&tenant("a/b"), body()).await.unwrap(), object);
    assert_eq!(bodies.get(&object).await.unwrap(), body());

    let empty = bodies.put(&tenant("a/b"), Bytes::new()).await.unwrap();
    assert_eq!(bodies.get(&empty).await.unwrap(), Bytes::new());
}

#[tokio::test]
async fn a_body_is_invisible_to_other_tenants_and_names_outside_a_prefix_are_refused() {
    let nats = TestNats::start().await;
    let bodies = BodyStore::new(nats.connect_bus("test").await);
    let own = bodies.put(&tenant("acme"), body()).await.unwrap();
    let gone = async |name: &str| {
        let object = ObjectRef { name: name.to_owned(), ..own.clone() };
        match bodies.get(&object).await.unwrap_err() {
            ObjectError::Gone { problem, .. } => problem,
            error @ ObjectError::Unavailable(_) => panic!("{name}: {error}"),
        }
    };
    assert_eq!(gone(&own.name.replace("acme", "other")).await, "there is no such object");
    for name in ["", "acme", &own.sha256, "../acme/x", &own.name.replace("acme", "=61cme")] {
        assert!(gone(name).await.contains("prefix"), "{name}");
    }
    bodies.get(&own).await.unwrap();
}

#[tokio::test]
async fn a_missing_or_different_body_is_distinguished_from_an_unavailable_store() {
    let nats = TestNats::start().await;
    let bodies = BodyStore::new(nats.connect_bus("test").await);
    let object = bodies.put(&tenant("acme"), body()).await.unwrap();
    let problem = async |object: &ObjectRef| match bodies.get(object).await.unwrap_err() {
        ObjectError::Gone { problem, .. } => problem,
        error @ ObjectError::Unavailable(_) => panic!("{error}"),
    };
    let shorter = ObjectRef { bytes: 5, ..object.clone() };
    assert_eq!(problem(&shorter).await, "it is 1500000 bytes long, 5 were promised");

    // Other bytes were stored under a name that contains a hash.
    let jetstream = connect_directly(nats.url()).await;
    let bucket = jetstream.get_object_store("retro-bodies").await.unwrap();
    let promised = sha256_hex(b"right");
    let lying = ObjectRef { name: format!("acme/{promised}"), sha256: promised, bytes: 5 };
    bucket.put(lying.name.as_str(), &mut b"wrong".as_slice()).await.unwrap();
    assert!(problem(&lying).await.contains("was promised"));

    // Its chunks expired before its entry did.
    let info = bucket.info(&object.name).await.unwrap();
    let stream = jetstream.get_stream("OBJ_retro-bodies").await.unwrap();
    stream.purge().filter(format!("$O.retro-bodies.C.{}", info.nuid)).await.unwrap();
    assert_eq!(problem(&object).await, "only 0 of its 1500000 bytes are there");
    bucket.delete(&object.name).await.unwrap();
    assert_eq!(problem(&object).await, "it was deleted");

    nats.stop().await;
    let error = bodies.get(&object).await.unwrap_err();
    assert!(matches!(error, ObjectError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn a_missing_body_is_read_again_because_a_replica_may_lag_behind() {
    let nats = TestNats::start().await;
    let bodies = BodyStore::new(nats.connect_bus("test").await);
    let jetstream = connect_directly(nats.url()).await;
    let mut reads = jetstream.client().subscribe("$JS.API.DIRECT.GET.OBJ_retro-bodies.>").await.unwrap();
    // The broker has the subscription when it has answered a later request.
    jetstream.query_account().await.unwrap();
    let sha256 = sha256_hex(b"never stored");
    let missing = ObjectRef { name: format!("acme/{sha256}"), sha256, bytes: 12 };
    let error = bodies.get(&missing).await.unwrap_err();
    assert!(matches!(error, ObjectError::Gone { .. }), "{error}");
    for read in 1..=3 {
        let request = tokio::time::timeout(TEST_TIMEOUT, reads.next()).await;
        request.unwrap_or_else(|_| panic!("the body was read {} times", read - 1)).unwrap();
    }
    jetstream.client().flush().await.unwrap();
    jetstream.query_account().await.unwrap();
    assert!(reads.next().now_or_never().is_none(), "three reads are enough");
}
