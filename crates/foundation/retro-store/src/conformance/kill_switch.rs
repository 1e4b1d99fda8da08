//! Conformance cases for kill switches.

use retro_core::id::{Step, Workflow};
use retro_core::kill_switch::KillSwitchScope;

use super::Database;
use super::cancel::new_act;
use super::scenario::test_tenant;

fn scope(tenant: Option<&str>, workflow: Option<&str>, step: Option<&str>) -> KillSwitchScope {
    KillSwitchScope {
        tenant: tenant.map(test_tenant),
        workflow: workflow.map(|name| Workflow::new(name).expect("a name")),
        step: step.map(|name| Step::new(name).expect("a name")),
    }
}

/// Checks that a switch is engaged once, until it is disengaged, and that the history stays.
pub async fn a_kill_switch_is_engaged_until_a_person_disengages_it(database: &Database) {
    let switches = [
        scope(None, None, None),
        scope(Some("t"), None, None),
        scope(Some("t"), Some("w"), None),
        scope(Some("t"), Some("w"), Some("s")),
        scope(Some("u"), Some("w"), None),
    ];
    let (ada, bob) = (new_act("ada"), new_act("bob"));
    for switch in &switches {
        assert!(database.one.engage_kill_switch(switch, &ada).await.expect("writing"));
        assert!(
            !database.two.engage_kill_switch(switch, &bob).await.expect("writing"),
            "it is engaged already"
        );
    }
    let mut engaged = database.two.load_engaged_kill_switches().await.expect("reading");
    engaged.sort_by_key(|switch| switches.iter().position(|one| one == switch));
    assert_eq!(engaged, switches);
    assert!(database.one.disengage_kill_switch(&switches[2], &bob).await.expect("writing"));
    assert!(!database.one.disengage_kill_switch(&switches[2], &bob).await.expect("writing"));
    assert!(!database.two.load_engaged_kill_switches().await.expect("reading").contains(&switches[2]));
    assert!(database.two.engage_kill_switch(&switches[2], &bob).await.expect("writing"));

    let listed = database.two.list_kill_switches(&test_tenant("t"), 10).await.expect("reading");
    let shown: Vec<_> =
        listed.iter().map(|one| (&one.scope, &one.engaged, one.disengaged.as_ref())).collect();
    let expected = [
        (&switches[2], &bob, None),
        (&switches[3], &ada, None),
        (&switches[2], &ada, Some(&bob)),
        (&switches[1], &ada, None),
        (&switches[0], &ada, None),
    ];
    assert_eq!(shown, expected, "the newest first, without those of the other tenant");
    assert_eq!(database.two.list_kill_switches(&test_tenant("t"), 2).await.expect("reading").len(), 2);
}
