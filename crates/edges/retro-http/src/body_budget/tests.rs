use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use futures::StreamExt as _;
use proptest::prelude::*;

use tokio::sync::mpsc;

use crate::problem::Problem;

use super::*;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const BOUNDS: BudgetBounds = BudgetBounds { bytes_max: 3 * MIB, owner_bytes_max: 2 * MIB };

fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

fn limits(bytes_max: usize) -> BodyLimits {
    BodyLimits::new(bytes_max, Duration::from_secs(60))
}

/// Returns a request and the sender for the chunks of its body.
fn request() -> (mpsc::UnboundedSender<Bytes>, Request) {
    let (send, receive) = mpsc::unbounded_channel();
    let pieces =
        futures::stream::unfold(receive, |mut pieces| async { Some((pieces.recv().await?, pieces)) });
    let body = Body::from_stream(pieces.map(Ok::<_, std::io::Error>));
    (send, Request::new(body))
}

fn piece(bytes: u64) -> Bytes {
    Bytes::from(vec![b'x'; usize::try_from(bytes).unwrap()])
}

#[test]
fn tenants_stay_within_their_share_and_all_together_within_the_bound() {
    let budget = BodyBudget::new(BOUNDS);
    let mut greedy = budget.open_permit(Some(&tenant("greedy")));
    greedy.charge(2 * MIB).unwrap();
    assert_eq!(greedy.charge(1).unwrap_err(), BudgetExceeded::Owner);
    assert_eq!(budget.open_permit(Some(&tenant("greedy"))).charge(1).unwrap_err(), BudgetExceeded::Owner);
    let mut other = budget.open_permit(Some(&tenant("other")));
    other.charge(MIB).unwrap();
    assert_eq!(other.charge(1).unwrap_err(), BudgetExceeded::Process);
    let mut small = budget.open_permit(Some(&tenant("small")));
    small.charge(OWNER_RESERVE_BYTES).expect("an owner that holds little is always admitted");
    assert_eq!(small.charge(1).unwrap_err(), BudgetExceeded::Process);
    assert_eq!(budget.held_bytes(), 3 * MIB + OWNER_RESERVE_BYTES);
    drop((greedy, other, small));
    assert!(budget.lock_held().tenants.is_empty() && budget.held_bytes() == 0, "all permits are dropped");
}

#[test]
fn a_request_without_a_tenant_is_an_owner_of_its_own() {
    let budget = BodyBudget::new(BudgetBounds { bytes_max: MIB, owner_bytes_max: MIB });
    let mut first = budget.open_permit(None);
    first.charge(MIB).unwrap();
    let mut second = budget.open_permit(None);
    second.charge_up_to(OWNER_RESERVE_BYTES).unwrap();
    second.charge_up_to(OWNER_RESERVE_BYTES).expect("it already holds that much");
    assert_eq!(second.charge(1).unwrap_err(), BudgetExceeded::Process);
}

proptest! {
    /// For any sequence of requests: no tenant exceeds its share, all tenants together stay within the limit
    /// plus the reserve, and a tenant without charged bytes is admitted as long as fewer than the reserved
    /// number of tenants have any.
    #[test]
    fn a_tenant_that_holds_nothing_is_always_admitted(steps in prop::collection::vec((0..20_u8, 1..3_000_000_u64, any::<bool>()), 1..200)) {
        let budget = BodyBudget::new(BOUNDS);
        let mut permits: Vec<(u8, BodyPermit)> = Vec::new();
        for (owner, bytes, leaves) in steps {
            if leaves && !permits.is_empty() {
                permits.remove(usize::from(owner) % permits.len());
                continue;
            }
            let mut permit = budget.open_permit(Some(&tenant(&owner.to_string())));
            let before = budget.held_bytes();
            match permit.charge(bytes) {
                Ok(()) => permits.push((owner, permit)),
                Err(_) => prop_assert_eq!(budget.held_bytes(), before, "a refusal charges nothing"),
            }
            let sum: u64 = permits.iter().map(|(_, permit)| permit.held_bytes()).sum();
            prop_assert_eq!(budget.held_bytes(), sum);
            prop_assert!(sum <= BOUNDS.bytes_max + RESERVED_OWNERS * OWNER_RESERVE_BYTES);
            for owner in 0..20 {
                let held: u64 =
                    permits.iter().filter(|(of, _)| *of == owner).map(|(_, permit)| permit.held_bytes()).sum();
                prop_assert!(held <= BOUNDS.owner_bytes_max);
            }
            prop_assert!(budget.open_permit(Some(&tenant("newcomer"))).charge(OWNER_RESERVE_BYTES).is_ok());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_is_charged_as_it_arrives_and_not_as_it_is_announced() {
    let budget = BodyBudget::new(BOUNDS);
    let (send, mut slow) = request();
    slow.headers_mut().insert("content-length", "1900000".parse().unwrap());
    let (acme, reader) = (tenant("acme"), budget.clone());
    let reading =
        tokio::spawn(async move { reader.read_request(Some(&acme), slow, limits(1_900_000)).await });
    tokio::task::yield_now().await;
    assert_eq!(budget.held_bytes(), 0);
    send.send(piece(100)).unwrap();
    while budget.held_bytes() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(budget.held_bytes(), 16 * KIB, "a connection's read buffer");
    send.send(piece(1_899_900)).unwrap();
    drop(send);
    let body = reading.await.unwrap().unwrap();
    assert_eq!((body.bytes.len(), body.permit.held_bytes()), (1_900_000, 1_900_544));
    drop(body);
    assert_eq!(budget.held_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refused_or_broken_body_frees_its_bytes() {
    let budget = BodyBudget::new(BudgetBounds { bytes_max: MIB, owner_bytes_max: MIB });
    let read = async |pieces: Vec<Result<Bytes, std::io::Error>>, bytes_max| {
        let request = Request::new(Body::from_stream(futures::stream::iter(pieces)));
        budget.read_request(None, request, limits(bytes_max)).await.map(|body| body.bytes.len())
    };
    assert_eq!(read(vec![Ok(piece(1999))], 1999).await, Ok(1999), "positive control");
    assert_eq!(read(vec![Ok(piece(1000)), Ok(piece(1000))], 1999).await, Err(ReadBodyError::TooLarge(1999)));
    let full = ReadBodyError::BudgetExceeded(BudgetExceeded::Owner);
    assert_eq!(read(vec![Ok(piece(MIB)), Ok(piece(1))], 9_000_000).await, Err(full));
    let broken = vec![Ok(piece(1)), Err(std::io::Error::other("hung up"))];
    let Err(ReadBodyError::Incomplete(told)) = read(broken, 1999).await else { panic!("it broke off") };
    assert!(told.contains("hung up"), "{told}");
    let mut announced = Request::new(Body::empty());
    announced.headers_mut().insert("content-length", "2000".parse().unwrap());
    assert_eq!(
        budget.read_request(None, announced, limits(1999)).await.unwrap_err(),
        ReadBodyError::TooLarge(1999)
    );
    assert_eq!(budget.held_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_refused_body_is_read_for_a_second_only() {
    let budget = BodyBudget::new(BOUNDS);
    let (send, request) = request();
    send.send(piece(3 * MIB)).unwrap();
    let begun = tokio::time::Instant::now();
    let refused = budget.read_request(Some(&tenant("acme")), request, limits(9_000_000)).await.unwrap_err();
    assert_eq!(refused, ReadBodyError::BudgetExceeded(BudgetExceeded::Owner));
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
    assert!(send.send(piece(1)).is_err(), "the receiver is closed");
}

/// Reads a body that arrives in chunks at a fixed interval. Returns the result and the elapsed seconds.
async fn read_at_pace(bytes: u64, every: Duration, bytes_max: usize) -> (Result<usize, ReadBodyError>, u64) {
    let (send, request) = request();
    let sending = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(every);
        loop {
            ticks.tick().await;
            if send.send(piece(bytes)).is_err() {
                break;
            }
        }
    });
    let begun = tokio::time::Instant::now();
    let read = BodyBudget::new(BudgetBounds { bytes_max: 99 * MIB, owner_bytes_max: 99 * MIB });
    let read = read.read_request(None, request, limits(bytes_max)).await;
    sending.abort();
    (read.map(|body| body.bytes.len()), begun.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn a_body_that_trickles_or_takes_too_long_is_abandoned() {
    let second = Duration::from_secs(1);
    let (slow, after_s) = read_at_pace(1, second, 9_000_000).await;
    assert_eq!((slow.clone(), after_s), (Err(ReadBodyError::TooSlow(65_536, Duration::from_secs(5))), 5));
    assert_eq!(Problem::from(slow.unwrap_err()).status, 408);
    let (late, after_s) = read_at_pace(20_000, second, 9_000_000).await;
    assert_eq!((late, after_s), (Err(ReadBodyError::TimedOut(Duration::from_secs(60))), 60));
    // Everything but the last bytes arrives at once: bytes of the first interval must not count in the
    // second.
    let (stalls, after_s) = read_at_pace(1_000_000, Duration::from_secs(3600), 1_000_100).await;
    assert_eq!((stalls, after_s), (Err(ReadBodyError::TooSlow(65_536, Duration::from_secs(5))), 10));
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_that_keeps_arriving_is_read() {
    let (send, request) = request();
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        for _ in 0..50 {
            ticks.tick().await;
            send.send(piece(20_000)).unwrap();
        }
    });
    let budget = BodyBudget::new(BOUNDS);
    let body = budget.read_request(Some(&tenant("acme")), request, limits(2_000_000)).await.unwrap();
    assert_eq!(body.bytes.len(), 1_000_000);
}
