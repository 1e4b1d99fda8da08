//! Checks that dependencies point in one direction: from the binaries to consumers, adapters and edges, then
//! to ports, then to the core, then to the gate.

use regex::Regex;

use super::problem::Problem;
use super::tree::{Crate, Tree};

/// Layer of a crate, which determines the workspace crates on which the crate may depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    /// The crate judges texts with pure functions and depends on no crate of the workspace. The core calls it
    /// directly, so no decision can leave it out.
    Text,
    /// The crate makes decisions.
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
    /// The crate offers the agents' edge in another protocol, and decides nothing itself.
    Protocol,
    /// The crate provides infrastructure for tests.
    Testkit,
    /// The crate measures the program: its decisions one by one, and the running program from outside. Only
    /// tests and development tasks depend on it.
    Evaluation,
    /// The crate measures the running program beside hand-written loops, which use broker and database directly.
    Benchmark,
    /// The crate is the binary that assembles the program.
    Root,
    /// The crate contains the development tasks. No crate depends on it.
    Tasks,
}

const LAYERS: &[(&str, Layer)] = &[
    ("retro-gate", Layer::Text),
    ("retro-core", Layer::Core),
    ("retro-consumer", Layer::Port),
    ("retro-model", Layer::Port),
    ("retro-outgoing-http", Layer::Port),
    ("retro-pipeline", Layer::Port),
    ("retro-events", Layer::Port),
    ("retro-fault", Layer::Port),
    ("retro-store", Layer::Port),
    ("retro-redact", Layer::Port),
    ("retro-telemetry", Layer::Port),
    ("retro-config", Layer::Port),
    ("retro-adapters", Layer::Adapter),
    ("retro-bus", Layer::Adapter),
    ("retro-embed", Layer::Adapter),
    ("retro-fetch", Layer::Adapter),
    ("retro-github-api", Layer::Adapter),
    ("retro-llm", Layer::Adapter),
    ("retro-store-sql", Layer::Adapter),
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
    ("retro-mcp", Layer::Protocol),
    ("retro-checker", Layer::Testkit),
    ("retro-testkit", Layer::Testkit),
    ("retro-eval", Layer::Evaluation),
    ("retro-bench", Layer::Benchmark),
    ("retro", Layer::Root),
    ("xtask", Layer::Tasks),
];

impl Layer {
    fn can_depend_on(self, other: Self) -> bool {
        match self {
            Self::Text => false,
            Self::Core => other == Self::Text,
            Self::Port | Self::Adapter | Self::Consumer | Self::Http => {
                matches!(other, Self::Text | Self::Core | Self::Port)
            }
            Self::Edge => matches!(other, Self::Text | Self::Core | Self::Port | Self::Http),
            Self::Protocol => matches!(other, Self::Text | Self::Core | Self::Port | Self::Http | Self::Edge),
            Self::Testkit => matches!(other, Self::Core | Self::Port | Self::Adapter),
            Self::Evaluation => !matches!(
                other,
                Self::Http | Self::Testkit | Self::Evaluation | Self::Benchmark | Self::Root | Self::Tasks
            ),
            Self::Benchmark => !matches!(other, Self::Benchmark | Self::Root | Self::Tasks),
            Self::Root => !matches!(
                other,
                Self::Testkit | Self::Evaluation | Self::Benchmark | Self::Root | Self::Tasks
            ),
            Self::Tasks => !matches!(other, Self::Testkit | Self::Benchmark | Self::Root | Self::Tasks),
        }
    }

    /// Returns the folder in which the crates of the layer lie.
    fn folder(self) -> &'static str {
        match self {
            Self::Text | Self::Core | Self::Port => "crates/foundation",
            Self::Adapter => "crates/infrastructure",
            Self::Consumer => "crates/stages",
            Self::Http | Self::Edge | Self::Protocol => "crates/edges",
            Self::Testkit | Self::Evaluation | Self::Benchmark | Self::Tasks => "crates/tools",
            Self::Root => "crates",
        }
    }

    /// Returns `true` if tests of this layer may depend on the other layer. Tests may also use a real broker
    /// or a real database, but never another consumer.
    fn tests_can_depend_on(self, other: Self) -> bool {
        self.can_depend_on(other)
            || (self != Self::Core && matches!(other, Self::Adapter | Self::Testkit))
            || (self == Self::Root && other == Self::Evaluation)
    }
}

/// External crates on which only some crates may depend: the name, the permitted crates, and the reason.
const CONFINED: &[(&str, &[&str], &str)] = &[
    (
        "sqlx",
        // The checker must not read the database through the code whose bugs it looks for.
        // The benchmark's loop is what one would write without that crate.
        &["retro-store-sql", "retro-checker", "retro-bench"],
        "only `retro-store-sql` uses SQL",
    ),
    ("rusqlite", &[], "the stores use sqlx"),
    ("async-nats", &["retro-bus", "retro-checker", "retro-bench"], "only the bus talks to the broker"),
    ("rmcp", &["retro-mcp"], "it takes long to compile, so one crate has it that few depend on"),
    (
        "retro-model",
        &["retro-investigator", "retro-reviewer", "retro-llm", "retro-testkit", "retro-eval", "retro"],
        "a model is never trusted, so only who checks its answers may ask it",
    ),
    (
        "opentelemetry_sdk",
        &["retro-telemetry"],
        "instruments use the `opentelemetry` API, which does nothing until the program sets up the SDK",
    ),
    (
        "anyhow",
        &["retro", "retro-eval", "retro-bench", "xtask"],
        "errors of a library are types that callers can match",
    ),
];

/// Beginning of the paths of the closed loop, which tests the program only through its public interface.
const CLOSED_LOOP: &str = "crates/tools/retro-eval/src/closed_loop";
/// Modules of that crate that the closed loop may use. They are checked as well.
const CLOSED_LOOP_MODULES: &[&str] = &["crate::closed_loop", "crate::http_client"];

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

/// Checks that every crate lies in the folder of its layer, so that a listing shows the layers.
pub(super) fn check_folders(tree: &Tree) -> Vec<Problem> {
    let misplaced = tree.crates.iter().filter_map(|krate| {
        let expected = format!("{}/{}", find_layer(&krate.name)?.folder(), krate.name);
        (krate.folder != expected)
            .then(|| format!("{} should lie in {expected}, with its layer", krate.folder))
    });
    misplaced.collect()
}

fn check_crate_layer(krate: &Crate) -> Vec<Problem> {
    let Some(layer) = find_layer(&krate.name) else {
        return vec![format!(
            "crate `{}` has no layer: add it to LAYERS in crates/tools/xtask/src/tidy/layering.rs",
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

/// Checks that the closed loop stays a black box test: its sources name no crate of the workspace and no other
/// module of their own crate, which could link one.
pub(super) fn check_closed_loop(tree: &Tree) -> Vec<Problem> {
    let every = tree.crates.iter().flat_map(|krate| &krate.sources);
    let client = CLOSED_LOOP.replace("closed_loop", "http_client");
    let (sources, clients): (Vec<_>, Vec<_>) = every
        .filter(|source| source.path.starts_with(CLOSED_LOOP) || source.path.starts_with(&client))
        .partition(|source| source.path.starts_with(CLOSED_LOOP));
    if sources.is_empty() {
        return vec![format!("{CLOSED_LOOP} has no sources: the closed loop must be checked where it is")];
    }
    let paths = Regex::new(r"\b(?:retro_\w+|crate::[\w{*]+)").expect("the pattern is valid");
    let mut problems = Vec::new();
    for source in sources.into_iter().chain(clients) {
        for (number, line) in source.code_lines() {
            for path in paths.find_iter(line).filter(|path| !CLOSED_LOOP_MODULES.contains(&path.as_str())) {
                problems.push(format!(
                    "{}:{number} names `{}`: the closed loop uses only the public interface of the program",
                    source.path,
                    path.as_str()
                ));
            }
        }
    }
    problems
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
    use super::super::tree::{Dependency, Source};
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
        for other in ["retro-sampler", "retro-bus", "retro-store-sql", "retro-http", "retro-gateway", "retro"]
        {
            let problems = check_layers(&tree("retro-counter", other, false));
            assert_eq!(problems.len(), 1, "{other}");
            assert!(problems[0].contains("retro-counter") && problems[0].contains(other));
        }
        assert!(check_layers(&tree("retro-counter", "retro-store", false)).is_empty());
    }

    #[test]
    fn tests_may_use_a_real_database_but_not_another_consumer() {
        assert!(check_layers(&tree("retro-counter", "retro-store-sql", true)).is_empty());
        assert_eq!(check_layers(&tree("retro-counter", "retro-writer", true)).len(), 1);
    }

    #[test]
    fn a_port_does_not_depend_on_its_adapter_and_the_core_only_on_the_gate() {
        assert_eq!(check_layers(&tree("retro-store", "retro-store-sql", false)).len(), 1);
        assert_eq!(check_layers(&tree("retro-consumer", "retro-bus", false)).len(), 1);
        assert_eq!(check_layers(&tree("retro-core", "retro-events", false)).len(), 1);
        assert_eq!(check_layers(&tree("retro-gate", "retro-core", false)).len(), 1);
        assert!(check_layers(&tree("retro-core", "retro-gate", false)).is_empty());
        assert_eq!(check_layers(&tree("retro-core", "retro-testkit", true)).len(), 1);
    }

    #[test]
    fn edges_share_http_code_and_do_not_depend_on_each_other() {
        assert!(check_layers(&tree("retro-gateway", "retro-http", false)).is_empty());
        assert_eq!(check_layers(&tree("retro-operator", "retro-gateway", false)).len(), 1);
    }

    #[test]
    fn only_tests_and_tasks_depend_on_the_evaluations() {
        assert!(check_layers(&tree("retro-eval", "retro-investigator", false)).is_empty());
        assert!(check_layers(&tree("xtask", "retro-eval", false)).is_empty());
        assert!(check_layers(&tree("retro", "retro-eval", true)).is_empty());
        assert_eq!(check_layers(&tree("retro", "retro-eval", false)).len(), 1);
        assert_eq!(check_layers(&tree("retro-writer", "retro-eval", true)).len(), 1);
        assert_eq!(check_layers(&tree("retro-eval", "retro", false)).len(), 1);
    }

    #[test]
    fn the_closed_loop_naming_a_crate_of_the_workspace_is_found() {
        let source = |path: &str, text: &str| Tree {
            crates: vec![Crate {
                sources: vec![Source { path: path.to_owned(), text: text.to_owned() }],
                ..Crate::default()
            }],
            ..Tree::default()
        };
        let (root, part) = (format!("{CLOSED_LOOP}.rs"), format!("{CLOSED_LOOP}/score/tests.rs"));
        assert_eq!(check_closed_loop(&source(&root, "use retro_core::memory::Memory;\n")).len(), 1);
        assert_eq!(check_closed_loop(&source(&part, "fn f() { retro_gate::screen_text(s); }\n")).len(), 1);
        assert_eq!(check_closed_loop(&source(&part, "use crate::decisions::EvalData;\n")).len(), 1);
        assert_eq!(check_closed_loop(&source(&part, "use crate::{broker, instance};\n")).len(), 1);
        let good = "// as retro_core does\nuse crate::closed_loop::world::World;\npub(crate) fn f() {}\n";
        assert!(check_closed_loop(&source(&part, good)).is_empty());
        let other = "crates/tools/retro-eval/src/decisions.rs";
        let problems = check_closed_loop(&source(other, "use retro_core::id;\n"));
        assert_eq!(problems.len(), 1, "a closed loop that is not found proves nothing");
    }

    #[test]
    fn a_crate_in_the_folder_of_another_layer_is_found() {
        let at = |folder: &str| {
            let mut tree = tree("retro-bus", "serde", false);
            tree.crates[0].folder = folder.to_owned();
            check_folders(&tree)
        };
        assert!(at("crates/infrastructure/retro-bus").is_empty());
        assert_eq!(at("crates/foundation/retro-bus").len(), 1);
        assert_eq!(at("crates/infrastructure/bus").len(), 1);
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
        assert_eq!(check_confined(&tree("retro-counter", "opentelemetry_sdk", false)).len(), 1);
        assert!(check_confined(&tree("retro-store-sql", "sqlx", false)).is_empty());
        assert!(check_confined(&tree("retro-telemetry", "opentelemetry_sdk", false)).is_empty());
    }
}
