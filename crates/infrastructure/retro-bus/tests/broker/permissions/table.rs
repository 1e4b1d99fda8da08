//! Tries every operation at the broker with every user.

use std::collections::BTreeMap;

use retro_events::permissions::BrokerUser;

use super::{start_secured_nats, tenants};
use crate::wire::Wire;

/// One operation at the broker.
enum Operation {
    Publish(&'static str),
    Subscribe(&'static str),
}

use Operation::{Publish, Subscribe};

/// All operations, each with its allowed users. Written by hand and not taken from the code under test; all
/// other users are refused.
const TABLE: &[(&str, Operation, &[&str])] = &[
    (
        "emit a run of acme",
        Publish("retro.run.completed.acme.ci"),
        &["engine-acme", "gateway", "bridge", "relay"],
    ),
    (
        "emit a run of other",
        Publish("retro.run.completed.other.ci"),
        &["engine-other", "gateway", "bridge", "relay"],
    ),
    ("emit a run without a tenant", Publish("retro.run.completed"), &[]),
    ("ask for the memories of acme", Publish("retro.agents.context.acme"), &["engine-acme"]),
    ("ask for the memories of other", Publish("retro.agents.context.other"), &["engine-other"]),
    ("open a memory of acme", Publish("retro.agents.memory.read.acme"), &["engine-acme"]),
    ("open a memory of other", Publish("retro.agents.memory.read.other"), &["engine-other"]),
    ("search memories of acme", Publish("retro.agents.memory.search.acme"), &["engine-acme"]),
    ("give feedback on a memory of acme", Publish("retro.agents.feedback.acme"), &["engine-acme"]),
    ("ask for memories below a tenant", Publish("retro.agents.context.acme.x"), &[]),
    ("ask for memories of no tenant", Publish("retro.agents.context"), &[]),
    ("answer agents in the queue group", Subscribe("retro.agents.context.* retro-gateway"), &["gateway"]),
    ("listen to requests of agents", Subscribe("retro.agents.context.*"), &[]),
    ("listen to requests of acme's agents", Subscribe("retro.agents.context.acme"), &[]),
    ("answer agents in another queue group", Subscribe("retro.agents.context.* mine"), &[]),
    ("list the services", Publish("$SRV.PING"), &["setup"]),
    ("ask a gateway about its service", Publish("$SRV.STATS.retro-agents.x"), &["setup"]),
    ("ask about another service", Publish("$SRV.STATS.mine"), &[]),
    ("answer who is there", Subscribe("$SRV.PING"), &["gateway"]),
    ("answer for another service", Subscribe("$SRV.PING.mine"), &[]),
    ("publish an answer to nobody", Publish("_R_.abc.def"), &[]),
    ("publish to the inbox of acme's engines", Publish("_INBOX_engine-acme.x"), &[]),
    ("publish a GitHub event of acme", Publish("retro.github.acme.push"), &["bridge", "relay"]),
    ("publish a GitHub event without a tenant", Publish("retro.github"), &[]),
    ("announce a change of memory", Publish("retro.memory.changed.acme.ci"), &["relay"]),
    ("announce a report", Publish("retro.report.ready.acme.ci"), &["relay"]),
    ("announce a dead letter", Publish("retro.dead_letter.stored.acme.ci"), &["relay"]),
    (
        "wake the relay",
        Publish("retro.outbox.written"),
        &["counter", "gateway", "investigator", "reviewer", "sampler", "tracker", "writer"],
    ),
    ("hear that there is something to relay", Subscribe("retro.outbox.written"), &["relay"]),
    ("wake the sampler", Publish("retro.work.retrospective.due.acme.ci"), &["relay"]),
    ("wake an investigator", Publish("retro.work.investigation.due.acme.ci"), &["relay"]),
    ("wake the writer", Publish("retro.work.mutations.due.acme.ci"), &["relay"]),
    ("fetch a counter message", Publish("$JS.API.CONSUMER.MSG.NEXT.RETRO_INTAKE.counter"), &["counter"]),
    ("fetch a sampler message", Publish("$JS.API.CONSUMER.MSG.NEXT.RETRO_WORK.sampler"), &["sampler"]),
    (
        "fetch an investigator message",
        Publish("$JS.API.CONSUMER.MSG.NEXT.RETRO_WORK.investigator"),
        &["investigator"],
    ),
    ("fetch a writer message", Publish("$JS.API.CONSUMER.MSG.NEXT.RETRO_WORK.writer"), &["writer"]),
    ("fetch a reviewer message", Publish("$JS.API.CONSUMER.MSG.NEXT.RETRO_GITHUB.reviewer"), &["reviewer"]),
    ("fetch a tracker message", Publish("$JS.API.CONSUMER.MSG.NEXT.RETRO_GITHUB.tracker"), &["tracker"]),
    ("acknowledge for the tracker", Publish("$JS.ACK.RETRO_GITHUB.tracker.1.9.9.1.0"), &["tracker"]),
    ("acknowledge for the reviewer", Publish("$JS.ACK.RETRO_GITHUB.reviewer.1.9.9.1.0"), &["reviewer"]),
    ("acknowledge for the counter", Publish("$JS.ACK.RETRO_INTAKE.counter.1.9.9.1.0"), &["counter"]),
    ("acknowledge for the sampler", Publish("$JS.ACK.RETRO_WORK.sampler.1.9.9.1.0"), &["sampler"]),
    (
        "acknowledge for the investigator",
        Publish("$JS.ACK.RETRO_WORK.investigator.1.9.9.1.0"),
        &["investigator"],
    ),
    ("acknowledge for the writer", Publish("$JS.ACK.RETRO_WORK.writer.1.9.9.1.0"), &["writer"]),
    ("read any event", Publish("$JS.API.STREAM.MSG.GET.RETRO_INTAKE"), &["counter"]),
    ("read any event directly", Publish("$JS.API.DIRECT.GET.RETRO_INTAKE"), &["counter", "relay"]),
    (
        "inspect the counter's consumer",
        Publish("$JS.API.CONSUMER.INFO.RETRO_INTAKE.counter"),
        &["counter", "relay", "setup"],
    ),
    (
        "read any wake-up",
        Publish("$JS.API.STREAM.MSG.GET.RETRO_WORK"),
        &["sampler", "investigator", "writer"],
    ),
    ("read any wake-up directly", Publish("$JS.API.DIRECT.GET.RETRO_WORK"), &[]),
    ("read any announcement", Publish("$JS.API.STREAM.MSG.GET.RETRO_ANNOUNCEMENTS"), &[]),
    ("read a body", Publish("$JS.API.DIRECT.GET.OBJ_retro-bodies"), &["investigator"]),
    (
        "read a body by its subject",
        Publish("$JS.API.DIRECT.GET.OBJ_retro-bodies.$O.retro-bodies.C.x"),
        &["investigator"],
    ),
    (
        "check whether a body exists",
        Publish("$JS.API.DIRECT.GET.OBJ_retro-bodies.$O.retro-bodies.M.x"),
        &["gateway", "investigator"],
    ),
    ("store a body", Publish("$O.retro-bodies.C.x"), &["gateway"]),
    ("publish the metadata of a body", Publish("$O.retro-bodies.M.x"), &["gateway"]),
    ("create a stream", Publish("$JS.API.STREAM.CREATE.RETRO_INTAKE"), &["setup"]),
    ("create another stream", Publish("$JS.API.STREAM.CREATE.MINE"), &[]),
    ("update a stream", Publish("$JS.API.STREAM.UPDATE.RETRO_WORK"), &["setup"]),
    ("create the stream of GitHub events", Publish("$JS.API.STREAM.CREATE.RETRO_GITHUB"), &["setup"]),
    (
        "inspect the stream of GitHub events",
        Publish("$JS.API.STREAM.INFO.RETRO_GITHUB"),
        &["bridge", "relay", "setup"],
    ),
    ("read any GitHub event", Publish("$JS.API.STREAM.MSG.GET.RETRO_GITHUB"), &["reviewer", "tracker"]),
    ("read any GitHub event directly", Publish("$JS.API.DIRECT.GET.RETRO_GITHUB"), &["relay"]),
    (
        "inspect the reviewer's consumer",
        Publish("$JS.API.CONSUMER.INFO.RETRO_GITHUB.reviewer"),
        &["relay", "reviewer", "setup"],
    ),
    (
        "inspect the tracker's consumer",
        Publish("$JS.API.CONSUMER.INFO.RETRO_GITHUB.tracker"),
        &["relay", "setup", "tracker"],
    ),
    ("purge a stream", Publish("$JS.API.STREAM.PURGE.RETRO_INTAKE"), &[]),
    ("delete a stream", Publish("$JS.API.STREAM.DELETE.RETRO_INTAKE"), &[]),
    ("delete a message", Publish("$JS.API.STREAM.MSG.DELETE.RETRO_INTAKE"), &[]),
    ("delete the bodies", Publish("$JS.API.STREAM.PURGE.OBJ_retro-bodies"), &[]),
    ("list streams", Publish("$JS.API.STREAM.NAMES"), &[]),
    ("create the counter's consumer", Publish("$JS.API.CONSUMER.CREATE.RETRO_INTAKE.counter"), &["setup"]),
    ("create another consumer", Publish("$JS.API.CONSUMER.CREATE.RETRO_WORK.mine"), &[]),
    ("create a nameless consumer", Publish("$JS.API.CONSUMER.CREATE.RETRO_WORK"), &[]),
    ("create a consumer with the old API", Publish("$JS.API.CONSUMER.DURABLE.CREATE.RETRO_WORK.writer"), &[]),
    ("delete a consumer", Publish("$JS.API.CONSUMER.DELETE.RETRO_INTAKE.counter"), &[]),
    ("pause a consumer", Publish("$JS.API.CONSUMER.PAUSE.RETRO_INTAKE.counter"), &[]),
    ("subscribe to runs of acme", Subscribe("retro.run.completed.acme.>"), &[]),
    (
        "subscribe to memory changes of acme",
        Subscribe("retro.memory.changed.acme.>"),
        &["gateway", "reader-acme"],
    ),
    (
        "subscribe to memory changes of other",
        Subscribe("retro.memory.changed.other.>"),
        &["gateway", "reader-other"],
    ),
    ("subscribe to reports of acme", Subscribe("retro.report.ready.acme.>"), &["reader-acme"]),
    ("subscribe to dead letters of acme", Subscribe("retro.dead_letter.stored.acme.>"), &["reader-acme"]),
    ("subscribe to dead letters of other", Subscribe("retro.dead_letter.stored.other.>"), &["reader-other"]),
    ("subscribe to all dead letters", Subscribe("retro.dead_letter.stored.>"), &[]),
    ("subscribe to all memory changes", Subscribe("retro.memory.changed.>"), &["gateway"]),
    (
        "subscribe to the counter's terminations",
        Subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.RETRO_INTAKE.counter"),
        &["counter"],
    ),
    ("subscribe to every advisory", Subscribe("$JS.EVENT.ADVISORY.>"), &[]),
    ("subscribe to wake-ups", Subscribe("retro.work.>"), &[]),
    ("subscribe to GitHub events", Subscribe("retro.github.>"), &[]),
    ("subscribe to bodies", Subscribe("$O.retro-bodies.>"), &[]),
    ("subscribe to everything", Subscribe(">"), &[]),
    ("subscribe to all replies", Subscribe("_INBOX.>"), &[]),
    ("subscribe to the counter's replies", Subscribe("_INBOX_counter.>"), &["counter"]),
    ("subscribe to the gateway's replies", Subscribe("_INBOX_gateway.>"), &["gateway"]),
    ("subscribe to setup's replies", Subscribe("_INBOX_setup.>"), &["setup"]),
    ("subscribe to replies of acme's engines", Subscribe("_INBOX_engine-acme.>"), &["engine-acme"]),
    ("subscribe to JetStream requests", Subscribe("$JS.API.>"), &[]),
    ("subscribe to the system account", Subscribe("$SYS.>"), &[]),
    ("send a system request", Publish("$SYS.REQ.SERVER.PING"), &[]),
];

#[tokio::test]
async fn each_user_has_exactly_the_permissions_its_work_needs() {
    let nats = start_secured_nats().await;
    let users = BrokerUser::list_all(&tenants());
    let mut wires = Vec::new();
    for user in &users {
        wires.push((user.to_string(), Wire::connect(&nats, user).await));
    }
    let mut wrong = Vec::new();
    let mut seen: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let (mut allowed, mut refused) = (0, 0);
    for (what, act, may) in TABLE {
        for (user, wire) in &mut wires {
            let refusal = match act {
                Publish(subject) => wire.publish(subject, "").await,
                Subscribe(subject) => wire.subscribe(subject).await,
            };
            if refusal.is_some() == may.contains(&user.as_str()) {
                wrong.push(format!("{user}: {what}: {refusal:?}"));
            }
            match refusal {
                None => {
                    allowed += 1;
                    seen.entry(what).or_default().push(user.clone());
                }
                Some(text) => {
                    refused += 1;
                    assert!(text.contains("Permissions Violation"), "{user}: {what}: {text}");
                }
            }
        }
    }
    print_table(&users, &seen, (allowed, refused));
    assert_eq!(allowed + refused, TABLE.len() * users.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Prints one line per operation with the allowed users; all other users were refused.
#[expect(clippy::print_stdout, reason = "what was seen is shown with `--no-capture`")]
fn print_table(users: &[BrokerUser], seen: &BTreeMap<&str, Vec<String>>, (allowed, refused): (usize, usize)) {
    println!("{:<34} {:<68} allowed users (of {})", "operation", "at the broker", users.len());
    for (what, act, _) in TABLE {
        let act = match act {
            Publish(subject) => format!("pub {subject}"),
            Subscribe(subject) => format!("sub {subject}"),
        };
        let who = seen.get(what).map_or_else(|| "nobody".to_owned(), |users| users.join(", "));
        println!("{what:<34} {act:<68} {who}");
    }
    println!("{allowed} operations allowed, {refused} refused by the server with a permissions violation");
}
