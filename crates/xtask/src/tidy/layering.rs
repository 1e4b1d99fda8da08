//! Checks that dependencies point in one direction: from the binaries to consumers, adapters and edges, then
//! to ports, then to the core.

use super::Problem;
use super::tree::{Crate, Tree};

/// Layer of a crate, which determines the workspace crates on which the crate may depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    /// The crate makes decisions and depends on no crate of the workspace.
    Core,
    /// The crate defines ports or is a pure library.
    Port,
    /// The crate adapts a broker, a database or a foreign format.
    Adapter,
    /// The crate handles messages and uses everything else through ports.
    Consumer,
    /// The crate contains HTTP code that the edges share.
    Http,
    /// The crate serves agents and people, and uses everything else through ports.
    Edge,
    /// The crate provides infrastructure for tests.
    Testkit,
    /// The crate tests the program only through its public interface. It depends on no workspace crate, and
    /// only tests depend on it.
    BlackBox,
    /// The crate is a binary that assembles other crates.
    Root,
}

const LAYERS: &[(&str, Layer)] = &[
    ("retro-core", Layer::Core),
    ("retro-events", Layer::Port),
    ("retro-fault", Layer::Port),
    ("retro-watchdog", Layer::Port),
    ("retro-meter", Layer::Port),
    ("retro-store", Layer::Port),
    ("retro-store-sql", Layer::Port),
    ("retro-redact", Layer::Port),
    ("retro-screen", Layer::Port),
    ("retro-trace", Layer::Port),
    ("retro-config", Layer::Port),
    ("retro-adapters", Layer::Adapter),
    ("retro-bus", Layer::Adapter),
    ("retro-store-postgres", Layer::Adapter),
    ("retro-embed", Layer::Adapter),
    ("retro-fetch", Layer::Adapter),
    ("retro-store-sqlite", Layer::Adapter),
    ("retro-telemetry", Layer::Adapter),
    ("retro-counter", Layer::Consumer),
    ("retro-reviewer", Layer::Consumer),
    ("retro-sampler", Layer::Consumer),
    ("retro-investigator", Layer::Consumer),
    ("retro-writer", Layer::Consumer),
    ("retro-tracker", Layer::Consumer),
    ("retro-http", Layer::Http),
    ("retro-gateway", Layer::Edge),
    ("retro-github", Layer::Edge),
    ("retro-operator", Layer::Edge),
    ("retro-checker", Layer::Testkit),
    ("retro-testkit", Layer::Testkit),
    ("retro-loop", Layer::BlackBox),
    ("retro", Layer::Root),
    ("xtask", Layer::Root),
];

impl Layer {
    fn can_depend_on(self, other: Self) -> bool {
        match self {
            Self::Core | Self::BlackBox => false,
            Self::Port | Self::Adapter | Self::Consumer | Self::Http => {
                matches!(other, Self::Core | Self::Port)
            }
            Self::Edge => matches!(other, Self::Core | Self::Port | Self::Http),
            Self::Testkit => matches!(other, Self::Core | Self::Port | Self::Adapter),
            Self::Root => !matches!(other, Self::Testkit | Self::BlackBox | Self::Root),
        }
    }

    /// Returns `true` if tests of this layer may depend on the other layer. Tests may also use a real broker
    /// or a real database, but never another consumer.
    fn tests_can_depend_on(self, other: Self) -> bool {
        self.can_depend_on(other)
            || (self != Self::Core && matches!(other, Self::Adapter | Self::Testkit))
            || (self == Self::Root && other == Self::BlackBox)
    }
}

/// External crates on which only some crates may depend: the name, the permitted crates, and the reason.
const CONFINED: &[(&str, &[&str], &str)] = &[
    (
        "sqlx",
        // The checker must not read the database through the code whose bugs it looks for.
        &["retro-store-postgres", "retro-store-sql", "retro-store-sqlite", "retro-checker"],
        "only the store crates use SQL",
    ),
    ("rusqlite", &[], "the stores use sqlx"),
    ("async-nats", &["retro-bus", "retro-checker"], "only the bus talks to the broker"),
    (
        "opentelemetry_sdk",
        &["retro-telemetry"],
        "instruments use the `opentelemetry` API, which does nothing until the program sets up the SDK",
    ),
    ("anyhow", &["retro", "retro-loop", "xtask"], "errors of a library are types that callers can match"),
];

/// Crates that the core must not link, even indirectly, each with the effect that it brings in.
const NOT_IN_CORE: &[(&str, &str)] = &[
    ("tokio", "a runtime"),
    ("futures", "a runtime"),
    ("async-std", "a runtime"),
    ("smol", "a runtime"),
    ("sqlx", "a database"),
    ("sqlx-core", "a database"),
    ("libsqlite3-sys", "a database"),
    ("async-nats", "a broker"),
    ("reqwest", "a network"),
    ("hyper", "a network"),
    ("axum", "a network"),
    ("socket2", "a network"),
    ("mio", "a network"),
    ("chrono", "a clock"),
    ("time", "a clock"),
    ("getrandom", "ambient randomness"),
    ("fastrand", "ambient randomness"),
    ("rand", "ambient randomness"),
    ("tracing", "a log"),
];

/// Checks that every crate has a layer and depends only on crates that its layer permits.
pub(super) fn check_layers(tree: &Tree) -> Vec<Problem> {
    tree.crates.iter().flat_map(check_crate_layer).collect()
}

fn check_crate_layer(krate: &Crate) -> Vec<Problem> {
    let Some(layer) = find_layer(&krate.name) else {
        return vec![format!(
            "crate `{}` has no layer: add it to LAYERS in crates/xtask/src/tidy/layering.rs",
            krate.name
        )];
    };
    let ours = krate.dependencies.iter().filter_map(|named| Some((named, self::find_layer(&named.name)?)));
    let wrong = ours.filter(|(named, other)| {
        // A crate may depend on itself to enable features for its tests.
        named.name != krate.name
            && !(if named.test_only {
                layer.tests_can_depend_on(*other)
            } else {
                layer.can_depend_on(*other)
            })
    });
    wrong
        .map(|(named, other)| {
            format!(
                "crate `{}` ({layer:?}) depends on `{}` ({other:?}): use a port, or wire the two in `retro`",
                krate.name, named.name
            )
        })
        .collect()
}

fn find_layer(name: &str) -> Option<Layer> {
    LAYERS.iter().find(|(known, _)| *known == name).map(|(_, layer)| *layer)
}

/// Checks that the core links no crate that does I/O, reads a clock or uses randomness.
pub(super) fn check_core_links(tree: &Tree) -> Vec<Problem> {
    if tree.core_closure.is_empty() {
        return vec![
            "the dependencies of `retro-core` are unknown: `cargo tree --package retro-core` printed nothing"
                .to_owned(),
        ];
    }
    let banned = NOT_IN_CORE.iter().filter(|(name, _)| tree.core_closure.iter().any(|linked| linked == name));
    banned
        .map(|(name, brings)| {
            format!(
                "`retro-core` links `{name}`, which brings in {brings}: `cargo tree --package retro-core --invert \
                 {name} --edges normal` shows the path"
            )
        })
        .collect()
}

/// Checks that only the permitted crates depend on the confined external crates.
pub(super) fn check_confined(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, homes, why) in CONFINED {
        for krate in &tree.crates {
            let named = krate.dependencies.iter().any(|dependency| dependency.name == *name);
            if named && !homes.contains(&krate.name.as_str()) {
                problems.push(format!("crate `{}` depends on `{name}`: {why}", krate.name));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::tree::Dependency;
    use super::*;

    fn tree(name: &str, dependency: &str, only_tests: bool) -> Tree {
        let dependencies = vec![Dependency { name: dependency.to_owned(), test_only: only_tests }];
        Tree {
            crates: vec![Crate { name: name.to_owned(), dependencies, ..Crate::default() }],
            ..Tree::default()
        }
    }

    #[test]
    fn a_consumer_depends_on_no_other_consumer_adapter_or_edge() {
        for other in
            ["retro-sampler", "retro-bus", "retro-store-sqlite", "retro-http", "retro-gateway", "retro"]
        {
            let problems = check_layers(&tree("retro-counter", other, false));
            assert_eq!(problems.len(), 1, "{other}");
            assert!(problems[0].contains("retro-counter") && problems[0].contains(other));
        }
        assert!(check_layers(&tree("retro-counter", "retro-store", false)).is_empty());
    }

    #[test]
    fn tests_may_use_a_real_database_but_not_another_consumer() {
        assert!(check_layers(&tree("retro-counter", "retro-store-sqlite", true)).is_empty());
        assert_eq!(check_layers(&tree("retro-counter", "retro-writer", true)).len(), 1);
    }

    #[test]
    fn a_port_does_not_depend_on_its_adapter_and_the_core_on_nothing() {
        assert_eq!(check_layers(&tree("retro-store", "retro-store-sqlite", false)).len(), 1);
        assert_eq!(check_layers(&tree("retro-core", "retro-events", false)).len(), 1);
        assert_eq!(check_layers(&tree("retro-core", "retro-testkit", true)).len(), 1);
    }

    #[test]
    fn edges_share_http_code_and_do_not_depend_on_each_other() {
        assert!(check_layers(&tree("retro-gateway", "retro-http", false)).is_empty());
        assert_eq!(check_layers(&tree("retro-operator", "retro-gateway", false)).len(), 1);
    }

    #[test]
    fn a_crate_without_a_layer_is_an_error() {
        assert_eq!(check_layers(&tree("retro-newcomer", "serde", false)).len(), 1);
    }

    #[test]
    fn the_core_linking_a_runtime_through_another_crate_is_found() {
        let closure = |names: &[&str]| Tree {
            core_closure: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Tree::default()
        };
        assert_eq!(check_core_links(&closure(&["retro-core", "serde", "tokio"])).len(), 1);
        assert_eq!(check_core_links(&closure(&["retro-core", "uuid", "getrandom"])).len(), 1);
        assert!(check_core_links(&closure(&["retro-core", "serde"])).is_empty());
        assert_eq!(check_core_links(&closure(&[])).len(), 1, "an empty answer proves nothing");
    }

    #[test]
    fn the_drivers_stay_in_their_crates() {
        assert_eq!(check_confined(&tree("retro-writer", "sqlx", false)).len(), 1);
        assert_eq!(check_confined(&tree("retro-gateway", "async-nats", true)).len(), 1);
        assert!(check_confined(&tree("retro-store-sqlite", "sqlx", false)).is_empty());
    }
}
