//! Every operation at the broker, tried by every user.

use std::collections::BTreeMap;

use retro_events::permissions::BrokerUser;

use super::{guarded, tenants};
use crate::wire::Wire;

/// One operation at the broker.
enum Act {
    Publish(&'static str),
    Subscribe(&'static str),
}

use Act::{Publish, Subscribe};

/// All operations, and the users that are allowed. Written by hand and not taken from the code under test:
/// everybody else is refused.
const TABLE: &[(&str, Act, &[&str])] = &[
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
    ("emit a run of nobody", Publish("retro.run.completed"), &[]),
    ("say what happened at GitHub for acme", Publish("retro.github.acme.push"), &["bridge", "relay"]),
    ("say what happened at GitHub for nobody", Publish("retro.github"), &[]),
    ("announce a change of memory", Publish("retro.memory.changed.acme.ci"), &["relay"]),
    ("announce a report", Publish("retro.report.ready.acme.ci"), &["relay"]),
    ("announce a dead letter", Publish("retro.dead_letter.stored.acme.ci"), &["relay"]),
    ("wake the sampler", Publish("retro.work.retrospective.due.acme.ci"), &["relay"]),
    ("wake an investigator", Publish("retro.work.investigation.due.acme.ci"), &["relay"]),
    ("wake the writer", Publish("retro.work.mutations.due.acme.ci"), &["relay"]),
    ("take a counter's message", Publish("$JS.API.CONSUMER.MSG.NEXT.RETRO_INTAKE.counter"), &["counter"]),
    ("take a sampler's message", Publish("$JS.API.CONSUMER.MSG.NEXT.RETRO_WORK.sampler"), &["sampler"]),
    (
        "take an investigator's message",
        Publish("$JS.API.CONSUMER.MSG.NEXT.RETRO_WORK.investigator"),
        &["investigator"],
    ),
    ("take a writer's message", Publish("$JS.API.CONSUMER.MSG.NEXT.RETRO_WORK.writer"), &["writer"]),
    ("take a reviewer's message", Publish("$JS.API.CONSUMER.MSG.NEXT.RETRO_GITHUB.reviewer"), &["reviewer"]),
    ("take a tracker's message", Publish("$JS.API.CONSUMER.MSG.NEXT.RETRO_GITHUB.tracker"), &["tracker"]),
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
        "ask how far the counter is",
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
        "ask whether a body is there",
        Publish("$JS.API.DIRECT.GET.OBJ_retro-bodies.$O.retro-bodies.M.x"),
        &["gateway", "investigator"],
    ),
    ("store a body", Publish("$O.retro-bodies.C.x"), &["gateway"]),
    ("make a body known", Publish("$O.retro-bodies.M.x"), &["gateway"]),
    ("make a stream", Publish("$JS.API.STREAM.CREATE.RETRO_INTAKE"), &["setup"]),
    ("make another stream", Publish("$JS.API.STREAM.CREATE.MINE"), &[]),
    ("change a stream", Publish("$JS.API.STREAM.UPDATE.RETRO_WORK"), &["setup"]),
    ("make the stream of GitHub's events", Publish("$JS.API.STREAM.CREATE.RETRO_GITHUB"), &["setup"]),
    (
        "ask about the stream of GitHub's events",
        Publish("$JS.API.STREAM.INFO.RETRO_GITHUB"),
        &["bridge", "relay", "setup"],
    ),
    (
        "read what happened at GitHub",
        Publish("$JS.API.STREAM.MSG.GET.RETRO_GITHUB"),
        &["reviewer", "tracker"],
    ),
    ("read it directly", Publish("$JS.API.DIRECT.GET.RETRO_GITHUB"), &["relay"]),
    (
        "ask how far the reviewer is",
        Publish("$JS.API.CONSUMER.INFO.RETRO_GITHUB.reviewer"),
        &["relay", "reviewer", "setup"],
    ),
    (
        "ask how far the tracker is",
        Publish("$JS.API.CONSUMER.INFO.RETRO_GITHUB.tracker"),
        &["relay", "setup", "tracker"],
    ),
    ("purge a stream", Publish("$JS.API.STREAM.PURGE.RETRO_INTAKE"), &[]),
    ("delete a stream", Publish("$JS.API.STREAM.DELETE.RETRO_INTAKE"), &[]),
    ("delete a message", Publish("$JS.API.STREAM.MSG.DELETE.RETRO_INTAKE"), &[]),
    ("delete the bodies", Publish("$JS.API.STREAM.PURGE.OBJ_retro-bodies"), &[]),
    ("list streams", Publish("$JS.API.STREAM.NAMES"), &[]),
    ("make the counter's consumer", Publish("$JS.API.CONSUMER.CREATE.RETRO_INTAKE.counter"), &["setup"]),
    ("make another consumer", Publish("$JS.API.CONSUMER.CREATE.RETRO_WORK.mine"), &[]),
    ("make a nameless consumer", Publish("$JS.API.CONSUMER.CREATE.RETRO_WORK"), &[]),
    ("make a consumer the old way", Publish("$JS.API.CONSUMER.DURABLE.CREATE.RETRO_WORK.writer"), &[]),
    ("delete a consumer", Publish("$JS.API.CONSUMER.DELETE.RETRO_INTAKE.counter"), &[]),
    ("pause a consumer", Publish("$JS.API.CONSUMER.PAUSE.RETRO_INTAKE.counter"), &[]),
    ("hear runs of acme", Subscribe("retro.run.completed.acme.>"), &[]),
    ("hear changes of acme's memories", Subscribe("retro.memory.changed.acme.>"), &["reader-acme"]),
    ("hear changes of other's memories", Subscribe("retro.memory.changed.other.>"), &["reader-other"]),
    ("hear changes of everybody's", Subscribe("retro.memory.changed.>"), &[]),
    (
        "hear that the counter's message was given up",
        Subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.RETRO_INTAKE.counter"),
        &["counter"],
    ),
    ("hear every advisory", Subscribe("$JS.EVENT.ADVISORY.>"), &[]),
    ("hear wake-ups", Subscribe("retro.work.>"), &[]),
    ("hear what happens at GitHub", Subscribe("retro.github.>"), &[]),
    ("hear bodies", Subscribe("$O.retro-bodies.>"), &[]),
    ("hear everything", Subscribe(">"), &[]),
    ("hear answers to everybody", Subscribe("_INBOX.>"), &[]),
    ("hear answers to the counter", Subscribe("_INBOX_counter.>"), &["counter"]),
    ("hear answers to the gateway", Subscribe("_INBOX_gateway.>"), &["gateway"]),
    ("hear answers to setup", Subscribe("_INBOX_setup.>"), &["setup"]),
    ("hear answers to acme's engines", Subscribe("_INBOX_engine-acme.>"), &["engine-acme"]),
    ("answer JetStream's requests", Subscribe("$JS.API.>"), &[]),
    ("hear the system", Subscribe("$SYS.>"), &[]),
    ("command the system", Publish("$SYS.REQ.SERVER.PING"), &[]),
];

#[tokio::test]
async fn each_user_may_do_what_its_work_needs_and_nothing_else() {
    let nats = guarded().await;
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

/// One line per operation: the allowed users; everybody else was refused.
#[expect(clippy::print_stdout, reason = "what was seen is shown with `--no-capture`")]
fn print_table(users: &[BrokerUser], seen: &BTreeMap<&str, Vec<String>>, (allowed, refused): (usize, usize)) {
    println!("{:<34} {:<68} who may (of {} users)", "act", "at the broker", users.len());
    for (what, act, _) in TABLE {
        let act = match act {
            Publish(subject) => format!("pub {subject}"),
            Subscribe(subject) => format!("sub {subject}"),
        };
        let who = seen.get(what).map_or_else(|| "nobody".to_owned(), |users| users.join(", "));
        println!("{what:<34} {act:<68} {who}");
    }
    println!("{allowed} acts allowed, {refused} refused by the server with a permissions violation");
}
