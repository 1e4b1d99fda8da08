//! Dependencies run one way: the binary, then consumers, adapters and edges, then ports, then the core.

use super::Problem;
use super::tree::{Crate, Tree};

/// What a crate is, and so what it may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    /// Decides. Names nothing of ours.
    Core,
    /// Ports, and pure libraries beside them.
    Port,
    /// Speaks to a broker, a database or a foreign format.
    Adapter,
    /// Reacts to messages through ports alone.
    Consumer,
    /// How HTTP is spoken: what the edges share.
    Http,
    /// Answers agents and people through ports alone.
    Edge,
    /// A world for tests.
    Testkit,
    /// Judges the program by its public interface alone: names nothing of ours, and only tests name it.
    Outside,
    /// Puts everything together.
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
    ("retro-loop", Layer::Outside),
    ("retro", Layer::Root),
    ("xtask", Layer::Root),
];

impl Layer {
    fn may_name(self, other: Self) -> bool {
        match self {
            Self::Core | Self::Outside => false,
            Self::Port | Self::Adapter | Self::Consumer | Self::Http => {
                matches!(other, Self::Core | Self::Port)
            }
            Self::Edge => matches!(other, Self::Core | Self::Port | Self::Http),
            Self::Testkit => matches!(other, Self::Core | Self::Port | Self::Adapter),
            Self::Root => !matches!(other, Self::Testkit | Self::Outside | Self::Root),
        }
    }

    /// Tests may also build a world: a real broker, a real database. Never another consumer.
    fn tests_may_name(self, other: Self) -> bool {
        self.may_name(other)
            || (self != Self::Core && matches!(other, Self::Adapter | Self::Testkit))
            || (self == Self::Root && other == Self::Outside)
    }
}

/// Crates that stand for something only some of ours may touch.
const CONFINED: &[(&str, &[&str], &str)] = &[
    (
        "sqlx",
        // The checker reads what is stored without the program's code, whose mistakes it looks for.
        &["retro-store-postgres", "retro-store-sql", "retro-store-sqlite", "retro-checker"],
        "SQL is held by the store crates alone",
    ),
    ("rusqlite", &[], "the store speaks through sqlx"),
    ("async-nats", &["retro-bus", "retro-checker"], "the broker is spoken to by the bus alone"),
    (
        "opentelemetry_sdk",
        &["retro-telemetry"],
        "what is measured goes through the `opentelemetry` API, which does nothing until the program sets the SDK up",
    ),
    ("anyhow", &["retro", "retro-loop", "xtask"], "a library's errors are types that callers can branch on"),
];

/// What may not be linked by the core, even through another crate, and what each would bring in.
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

/// Every crate stands in a layer and names only what its layer may.
pub(super) fn layers(tree: &Tree) -> Vec<Problem> {
    tree.crates.iter().flat_map(layers_of).collect()
}

fn layers_of(krate: &Crate) -> Vec<Problem> {
    let Some(layer) = layer(&krate.name) else {
        return vec![format!(
            "crate `{}` stands in no layer: say in LAYERS of crates/xtask/src/tidy/arrows.rs what it is",
            krate.name
        )];
    };
    let ours = krate.dependencies.iter().filter_map(|named| Some((named, self::layer(&named.name)?)));
    let wrong = ours.filter(|(named, other)| {
        named.name != krate.name
            && !(if named.only_tests { layer.tests_may_name(*other) } else { layer.may_name(*other) })
    });
    wrong
        .map(|(named, other)| {
            format!(
                "crate `{}` ({layer:?}) names `{}` ({other:?}): go through a port, or wire the two in `retro`",
                krate.name, named.name
            )
        })
        .collect()
}

fn layer(name: &str) -> Option<Layer> {
    LAYERS.iter().find(|(known, _)| *known == name).map(|(_, layer)| *layer)
}

/// Nothing that the core links does I/O, tells time or draws lots.
pub(super) fn core_is_pure(tree: &Tree) -> Vec<Problem> {
    if tree.core_closure.is_empty() {
        return vec![
            "what `retro-core` links is not known: `cargo tree --package retro-core` said nothing".to_owned(),
        ];
    }
    let banned = NOT_IN_CORE.iter().filter(|(name, _)| tree.core_closure.iter().any(|linked| linked == name));
    banned
        .map(|(name, brings)| {
            format!(
                "`retro-core` links `{name}`, which brings in {brings}: `cargo tree --package retro-core --invert \
                 {name} --edges normal` shows through whom"
            )
        })
        .collect()
}

/// What only some crates may depend on is named by no other.
pub(super) fn confined(tree: &Tree) -> Vec<Problem> {
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
        let dependencies = vec![Dependency { name: dependency.to_owned(), only_tests }];
        Tree {
            crates: vec![Crate { name: name.to_owned(), dependencies, ..Crate::default() }],
            ..Tree::default()
        }
    }

    #[test]
    fn a_consumer_names_neither_another_nor_an_adapter_nor_an_edge() {
        for other in
            ["retro-sampler", "retro-bus", "retro-store-sqlite", "retro-http", "retro-gateway", "retro"]
        {
            let problems = layers(&tree("retro-counter", other, false));
            assert_eq!(problems.len(), 1, "{other}");
            assert!(problems[0].contains("retro-counter") && problems[0].contains(other));
        }
        assert!(layers(&tree("retro-counter", "retro-store", false)).is_empty());
    }

    #[test]
    fn tests_may_use_a_real_database_but_not_another_consumer() {
        assert!(layers(&tree("retro-counter", "retro-store-sqlite", true)).is_empty());
        assert_eq!(layers(&tree("retro-counter", "retro-writer", true)).len(), 1);
    }

    #[test]
    fn a_port_does_not_name_its_adapter_and_the_core_names_nothing() {
        assert_eq!(layers(&tree("retro-store", "retro-store-sqlite", false)).len(), 1);
        assert_eq!(layers(&tree("retro-core", "retro-events", false)).len(), 1);
        assert_eq!(layers(&tree("retro-core", "retro-testkit", true)).len(), 1);
    }

    #[test]
    fn edges_share_how_http_is_spoken_and_do_not_name_each_other() {
        assert!(layers(&tree("retro-gateway", "retro-http", false)).is_empty());
        assert_eq!(layers(&tree("retro-operator", "retro-gateway", false)).len(), 1);
    }

    #[test]
    fn a_crate_in_no_layer_is_an_error() {
        assert_eq!(layers(&tree("retro-newcomer", "serde", false)).len(), 1);
    }

    #[test]
    fn the_core_linking_a_runtime_through_another_crate_is_found() {
        let closure = |names: &[&str]| Tree {
            core_closure: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Tree::default()
        };
        assert_eq!(core_is_pure(&closure(&["retro-core", "serde", "tokio"])).len(), 1);
        assert_eq!(core_is_pure(&closure(&["retro-core", "uuid", "getrandom"])).len(), 1);
        assert!(core_is_pure(&closure(&["retro-core", "serde"])).is_empty());
        assert_eq!(core_is_pure(&closure(&[])).len(), 1, "an empty answer proves nothing");
    }

    #[test]
    fn the_drivers_stay_in_their_crates() {
        assert_eq!(confined(&tree("retro-writer", "sqlx", false)).len(), 1);
        assert_eq!(confined(&tree("retro-gateway", "async-nats", true)).len(), 1);
        assert!(confined(&tree("retro-store-sqlite", "sqlx", false)).is_empty());
    }
}
