//! Checks the files in `deploy/` against the programs that read them: the Compose and Kubernetes schemas, our
//! own command line and configuration, and the broker.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use clap::Parser;
use retro_bus::Role;
use retro_events::permissions::{BrokerUser, render_users_file};
use serde_json::{Value, json};

use crate::cli::{Cli, Command};

const COMPOSE_SCHEMA: &str = include_str!("../../tests/schemas/compose.json");
const KUBERNETES_SCHEMA: &str = include_str!("../../tests/schemas/kubernetes.json");
/// Name of our image in `compose.yaml` and the manifests.
const IMAGE: &str = "retrospect:0.1.0";

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn text(file: &str) -> String {
    read_to_string(deploy().join(file)).unwrap_or_else(|problem| panic!("deploy/{file}: {problem}"))
}

fn compose() -> Value {
    serde_saphyr::from_str(&text("compose.yaml")).unwrap()
}

/// Returns all objects of the manifests, each with the name of its file.
fn manifests() -> Vec<(String, Value)> {
    let kustomization: Value = serde_saphyr::from_str(&text("kustomization.yaml")).unwrap();
    let listed: BTreeSet<&str> = strings(&kustomization["resources"]).collect();
    let folder = std::fs::read_dir(deploy().join("kubernetes")).unwrap();
    let there: BTreeSet<String> =
        folder.map(|file| format!("kubernetes/{}", file.unwrap().file_name().display())).collect();
    assert_eq!(listed, there.iter().map(String::as_str).collect(), "the kustomization lists every file");
    there
        .into_iter()
        .flat_map(|file| {
            let objects: Vec<Value> = serde_saphyr::from_multiple(&text(&file)).unwrap();
            objects.into_iter().map(move |object| (file.clone(), object))
        })
        .collect()
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().unwrap().iter().map(|one| one.as_str().unwrap())
}

fn assert_fits(schema: &Value, file: &str, value: &Value) {
    let schema = jsonschema::validator_for(schema).unwrap();
    let problems: Vec<_> =
        schema.iter_errors(value).map(|problem| format!("{}: {problem}", problem.instance_path())).collect();
    assert!(problems.is_empty(), "{file}: {problems:#?}");
}

/// Returns the schema of a Kubernetes kind.
fn kind(name: &str) -> Value {
    let mut schema: Value = serde_json::from_str(KUBERNETES_SCHEMA).unwrap();
    let definitions = schema["$defs"].as_object().unwrap();
    let full = definitions
        .keys()
        .find(|full| full.starts_with("io.k8s.api.") && full.ends_with(&format!(".{name}")));
    let full = full.unwrap_or_else(|| panic!("the schema has no kind {name}")).clone();
    schema["$ref"] = json!(format!("#/$defs/{full}"));
    schema
}

#[test]
fn the_compose_file_fits_its_schema_and_a_typo_does_not() {
    let schema: Value = serde_json::from_str(COMPOSE_SCHEMA).unwrap();
    let mut compose = compose();
    assert_fits(&schema, "compose.yaml", &compose);
    compose["services"]["counter"]["enviroment"] = json!({});
    assert!(!jsonschema::is_valid(&schema, &compose));
}

#[test]
fn with_the_telemetry_file_every_role_exports_to_the_collector() {
    let file = "telemetry/compose.yaml";
    let told: Value = serde_saphyr::from_str(&text(file)).unwrap();
    assert_fits(&serde_json::from_str(COMPOSE_SCHEMA).unwrap(), file, &told);
    for role in services().into_iter().filter(|process| process.name != "migrate") {
        let endpoint = &told["services"][&role.name]["environment"]["RETRO_OTLP_ENDPOINT"];
        assert_eq!(*endpoint, "http://collector:4318", "{}", role.name);
    }
    let known = retro_config::keys::list_keys::<retro_config::Config>();
    assert!(known.iter().any(|key| key.name == "otlp_endpoint"));
    let collector: Value = serde_saphyr::from_str(&text("telemetry/collector.yaml")).unwrap();
    for signal in ["traces", "metrics"] {
        assert_eq!(collector["service"]["pipelines"][signal]["receivers"], json!(["otlp"]), "{signal}");
    }
}

#[test]
fn every_manifest_fits_its_schema_and_a_typo_does_not() {
    let manifests = manifests();
    for (file, object) in &manifests {
        assert_fits(&kind(object["kind"].as_str().unwrap()), file, object);
        assert_eq!(object["metadata"]["namespace"].as_str().unwrap_or("retrospect"), "retrospect", "{file}");
    }
    let (_, mut deployment) =
        manifests.into_iter().find(|(_, object)| object["kind"] == "Deployment").unwrap();
    deployment["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = json!({});
    assert!(!jsonschema::is_valid(&kind("Deployment"), &deployment));
}

/// One of our processes, as a deployment starts it.
struct Process {
    name: String,
    args: Vec<String>,
    variables: BTreeMap<String, String>,
    /// Name of the secret that contains the broker's URL.
    nats_secret: String,
}

/// Returns the services in `compose.yaml` that run our image.
fn services() -> Vec<Process> {
    let compose = compose();
    let ours =
        compose["services"].as_object().unwrap().iter().filter(|(_, service)| service["image"] == IMAGE);
    ours.map(|(name, service)| Process {
        name: name.clone(),
        args: strings(&service["command"]).map(str::to_owned).collect(),
        variables: serde_json::from_value(service["environment"].clone()).unwrap(),
        nats_secret: service["secrets"][0]["source"].as_str().unwrap().to_owned(),
    })
    .collect()
}

/// Returns the pods in the manifests that run our image.
fn pods() -> Vec<Process> {
    let pods = manifests().into_iter().filter(|(_, object)| object["spec"]["template"]["spec"].is_object());
    pods.filter_map(|(_, object)| {
        let pod = &object["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        (container["image"] == IMAGE).then(|| Process {
            name: object["metadata"]["name"].as_str().unwrap().trim_start_matches("retro-").to_owned(),
            args: strings(&container["args"]).map(str::to_owned).collect(),
            variables: container["env"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| {
                    (one["name"].as_str().unwrap().to_owned(), one["value"].as_str().unwrap().to_owned())
                })
                .collect(),
            nats_secret: pod["volumes"][0]["secret"]["secretName"].as_str().unwrap().to_owned(),
        })
    })
    .collect()
}

#[test]
fn every_deployment_starts_each_role_once_with_its_own_secret() {
    for (place, processes, secret) in [("compose", services(), "nats-url-"), ("kubernetes", pods(), "retro-")]
    {
        let mut started = BTreeSet::new();
        for Process { name, args, nats_secret, .. } in &processes {
            let cli = Cli::try_parse_from(["retro"].into_iter().chain(args.iter().map(String::as_str)));
            match cli.unwrap_or_else(|problem| panic!("{place}: {name}: {problem}")).command {
                Command::Serve(serve) => {
                    assert_eq!(serve.roles.len(), 1, "{place}: {name}");
                    assert_eq!(*name, serve.roles[0].to_string(), "{place}");
                    assert_eq!(*nats_secret, format!("{secret}{name}"), "{place}");
                    assert!(started.insert(serve.roles[0]), "{place}: {name} twice");
                }
                Command::Migrate(_) => {
                    assert_eq!(*nats_secret, format!("{secret}{}", BrokerUser::Setup), "{place}")
                }
                command => panic!("{place}: {name} does {command:?}"),
            }
        }
        assert_eq!(started, Role::ALL.iter().copied().collect::<BTreeSet<_>>(), "{place}");
        assert_eq!(processes.len(), Role::ALL.len() + 1, "{place}");
    }
}

#[test]
fn every_variable_that_is_set_is_known_to_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let image = image_variables();
    for Process { name, variables, .. } in services().into_iter().chain(pods()) {
        let as_here = image.iter().chain(&variables).map(|(variable, value)| {
            let value = match variable.strip_suffix("_FILE") {
                Some(_) => mounted(folder.path(), value),
                None => value.clone(),
            };
            (variable.clone(), value)
        });
        let loaded = retro_config::load_config(None, as_here)
            .unwrap_or_else(|problems| panic!("{name}: {problems:?}"));
        assert!(loaded.config.nats_url.is_some() && loaded.config.database_url.is_some(), "{name}");
        assert!(loaded.config.health_listen.is_some_and(|address| address.port() == 7718), "{name}");
    }
}

/// Returns the file that stands in for a mounted secret in this test.
fn mounted(folder: &Path, path: &str) -> String {
    let name = Path::new(path).file_name().unwrap();
    let scheme = if name == "nats-url" { "nats" } else { "postgres" };
    let file = folder.join(name);
    std::fs::write(&file, format!("{scheme}://user:secret@host\n")).unwrap();
    file.display().to_string()
}

/// Returns the environment variables set in the Dockerfile.
fn image_variables() -> BTreeMap<String, String> {
    let dockerfile = text("Dockerfile");
    let set = dockerfile.lines().filter_map(|line| line.strip_prefix("ENV ")?.split_once('='));
    set.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn every_image_is_pinned() {
    let mut images: Vec<String> =
        text("Dockerfile").lines().filter_map(|line| line.strip_prefix("FROM ")).map(str::to_owned).collect();
    let mut collect = |value: &Value| images.extend(value.as_str().map(str::to_owned));
    compose()["services"].as_object().unwrap().values().for_each(|service| collect(&service["image"]));
    for (_, object) in manifests() {
        collect(&object["spec"]["template"]["spec"]["containers"][0]["image"]);
    }
    assert!(images.len() > 10, "{images:?}");
    for image in images {
        let name = image.split(' ').next().unwrap();
        let tag = name.rsplit('/').next().unwrap().split_once(':').map(|(_, tag)| tag);
        assert!(tag.is_some_and(|tag| !tag.is_empty() && tag != "latest"), "{image}");
    }
}

#[test]
fn nothing_runs_as_root_or_can_become_root() {
    for (file, object) in manifests() {
        let pod = &object["spec"]["template"]["spec"];
        if !pod.is_object() {
            continue;
        }
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{file}");
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", "{file}");
        assert_eq!(pod["automountServiceAccountToken"], false, "{file}");
        assert_eq!(pod["enableServiceLinks"], false, "{file}");
        for container in pod["containers"].as_array().unwrap() {
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false, "{file}");
            assert_eq!(context["readOnlyRootFilesystem"], true, "{file}");
            assert_eq!(context["capabilities"]["drop"], json!(["ALL"]), "{file}");
            assert!(container["resources"]["limits"]["memory"].is_string(), "{file}");
        }
    }
    assert!(text("Dockerfile").contains("\nUSER 65532:65532\n"));
}

#[test]
fn secrets_are_created_for_every_user_and_accepted_by_the_broker() {
    let folder = tempfile::tempdir().unwrap();
    let run = |program: &Path, args: &[&str]| {
        let done =
            std::process::Command::new(program).args(args).current_dir(folder.path()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    let place = folder.path().to_str().unwrap();
    run(&deploy().join("make-secrets"), &[place]);
    let before = read_to_string(folder.path().join("passwords.conf")).unwrap();
    run(&deploy().join("make-secrets"), &[place]);
    assert_eq!(
        before,
        read_to_string(folder.path().join("passwords.conf")).unwrap(),
        "unchanged by the second run"
    );

    let tenant = "default".parse().unwrap();
    for user in BrokerUser::list_all(&[tenant]) {
        let url = read_to_string(folder.path().join(format!("nats-url-{user}"))).unwrap();
        let password = url.split(['@', ':']).nth(2).unwrap();
        assert!(url.starts_with(&format!("nats://{user}:")) && password.len() == 48, "{user}");
        assert!(before.contains(&format!("password-{user}: \"{password}\"\n")), "{user}");
    }
    for file in ["nats.conf", "users.conf"] {
        std::fs::copy(deploy().join("nats").join(file), folder.path().join(file)).unwrap();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (server, _) = runtime
        .block_on(retro_bus::NatsServer::find_usable(None))
        .unwrap_or_else(|problem| panic!("this test needs a nats-server; run .ci/install-tools: {problem}"));
    run(&server, &["-c", "nats.conf", "-t"]);
}

#[test]
fn the_users_printed_for_a_tenant_are_the_shipped_ones() {
    let shipped = text("nats/users.conf");
    assert!(shipped.ends_with(&render_users_file(&["default".parse().unwrap()])));
}
