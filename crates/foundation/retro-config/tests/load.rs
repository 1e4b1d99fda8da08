//! Tests the precedence of the configuration's layers and the messages about mistakes.

use std::fs;
use std::path::{Path, PathBuf};

use retro_config::{Config, LoadedConfig, Problems, load_config};
use tempfile::TempDir;

type Variables<'a> = &'a [(&'a str, &'a str)];

fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().expect("a temporary folder can be created"))
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).expect("the folder can be written");
        path
    }

    fn load(&self, text: &str, variables: &[(&str, &str)]) -> Result<LoadedConfig, Problems> {
        load_config(Some(&self.write("retro.toml", text)), environment(variables))
    }

    /// Returns the problems, without the path of this folder.
    fn load_problems(&self, text: &str, variables: &[(&str, &str)]) -> Vec<String> {
        let folder = format!("{}/", self.0.path().display());
        let problems = self.load(text, variables).expect_err("the configuration is invalid");
        problems.sentences().iter().map(|sentence| sentence.replace(&folder, "")).collect()
    }
}

#[test]
fn the_environment_wins_over_the_file_and_the_file_over_the_default() {
    let loaded = Folder::new()
        .load("lease_s = 5\nsweep_interval_ms = 500\n", &[("RETRO_LEASE_S", "6"), ("RETRO_LOG", "debug")])
        .unwrap();
    let expected =
        Config { lease_s: 6, sweep_interval_ms: 500, log: "debug".to_owned(), ..Config::default() };
    assert_eq!(loaded.config, expected);
    let from: Vec<_> = loaded.origins.iter().map(|(key, origin)| format!("{key} {origin}")).collect();
    assert!(from[0].ends_with("RETRO_LEASE_S") && from[1].ends_with("RETRO_LOG"), "{from:?}");
    assert!(from[2].ends_with("retro.toml:2"), "{from:?}");
}

#[test]
fn an_address_is_read_from_its_usual_variable_and_ours_takes_precedence() {
    for (key, alias, ours) in
        [("database_url", "DATABASE_URL", "RETRO_DATABASE_URL"), ("nats_url", "NATS_URL", "RETRO_NATS_URL")]
    {
        let address = |variables: &[(&str, &str)]| {
            let config = load_config(None, environment(variables)).unwrap().config;
            let secret = if key == "nats_url" { config.nats_url } else { config.database_url };
            secret.map(|secret| secret.expose().to_owned())
        };
        assert_eq!(address(&[(alias, "postgres://a")]).as_deref(), Some("postgres://a"));
        assert_eq!(
            address(&[(alias, "postgres://a"), (ours, "postgres://b")]).as_deref(),
            Some("postgres://b")
        );
        assert_eq!(address(&[(alias, ""), (ours, "")]), None, "an empty variable counts as not set");
    }
}

#[test]
fn every_mistake_is_reported_at_once_with_file_line_key_and_expected_value() {
    let text = "lease_s = 5\ninvesigators = 3\n\ninvestigators = 65\nlog = 7\nhttp_listen = \"localhost\"\n\
                [trigger]\nthreshold_runs = 3\n";
    let found = Folder::new().load_problems(
        text,
        &[
            ("RETRO_LAESE_S", "3"),
            ("RETRO_SWEEP_INTERVAL_MS", "soon"),
            ("RETRO_NATS_PORT", "70000"),
            ("NATS_URl", "x"),
        ],
    );
    assert_eq!(
        found,
        [
            "retro.toml:2: unknown key `invesigators`; did you mean `investigators`?",
            "retro.toml:4: `investigators` is 65; it must be a whole number, 1 to 64",
            "retro.toml:5: `log` is 7; it must be a text",
            "retro.toml:6: `http_listen` is \"localhost\"; it must be a text such as \"127.0.0.1:7717\"",
            "retro.toml:7: unknown key `trigger`",
            "RETRO_LAESE_S: unknown variable; did you mean `RETRO_LEASE_S`?",
            "RETRO_NATS_PORT: `nats_port` is 70000; it must be a whole number, 0 to 65535",
            "RETRO_SWEEP_INTERVAL_MS: `sweep_interval_ms` is \"soon\"; it must be a whole number, 50 to 600000",
        ]
    );
}

#[test]
fn foreign_variables_with_our_prefix_are_ignored() {
    let others =
        ["RETRO_SERVICE_HOST", "RETRO_PORT_7717_TCP_ADDR", "RETRO_EVAL_DATA", "RETRO_CONFIG", "RETRO_TENANT"];
    let variables: Vec<_> = others.iter().map(|name| (*name, "tcp://10.0.0.1:80")).collect();
    assert_eq!(load_config(None, environment(&variables)).unwrap().config, Config::default());
}

#[test]
fn a_file_that_is_not_toml_is_reported_with_its_line_but_not_its_content() {
    let found =
        Folder::new().load_problems("lease_s = 5\ndatabase_url = \"postgres://me:hunter2@host/db\n", &[]);
    assert!(found[0].starts_with("retro.toml:2: "), "{found:?}");
    assert!(!found[0].contains("hunter2"), "{found:?}");
    let missing = load_config(Some(Path::new("/no/such/retro.toml")), []).unwrap_err();
    assert!(missing.to_string().starts_with("cannot read /no/such/retro.toml: "), "{missing}");
}

#[test]
fn a_secret_is_read_from_its_file_without_the_newline_at_its_end() {
    let folder = Folder::new();
    for (text, ending) in [
        ("postgres://me:hunter2@host/db", "\n"),
        ("postgres://me:a b@host/db", "\r\n"),
        ("postgresql://h", ""),
    ] {
        let path = folder.write("secret", format!("{text}{ending}"));
        let loaded =
            load_config(None, environment(&[("RETRO_DATABASE_URL_FILE", path.to_str().unwrap())])).unwrap();
        assert_eq!(loaded.config.database_url.unwrap().expose(), text);
        assert_eq!(loaded.origins["database_url"].to_string(), path.display().to_string());
    }
}

#[test]
fn a_secret_given_twice_is_refused_with_both_places() {
    let folder = Folder::new();
    folder.write("secret", "nats://b");
    assert_eq!(
        folder.load_problems("nats_url_file = \"secret\"\n", &[("NATS_URL", "nats://me:hunter2@a")]),
        ["retro.toml:1: `nats_url_file` is given, and `nats_url` too (NATS_URL); keep one of them"]
    );
}

#[test]
fn a_missing_empty_too_large_or_binary_secret_file_is_named() {
    let folder = Folder::new();
    folder.write("empty", "\n");
    folder.write("large", "x".repeat(9000));
    folder.write("bytes", [0xff, 0xfe]);
    let found = |name: &str| {
        let path = folder.0.path().join(name).display().to_string();
        folder.load_problems("", &[("RETRO_NATS_URL_FILE", &path)]).remove(0)
    };
    assert!(found("missing").starts_with("RETRO_NATS_URL_FILE: `nats_url_file`: missing cannot be read: "));
    assert_eq!(
        found("empty"),
        "RETRO_NATS_URL_FILE: `nats_url_file`: empty is empty; it must hold the secret"
    );
    assert_eq!(
        found("large"),
        "RETRO_NATS_URL_FILE: `nats_url_file`: large holds 9000 bytes; a secret has at most 8192"
    );
    assert!(found("bytes").starts_with("RETRO_NATS_URL_FILE: `nats_url_file`: bytes cannot be read: "));
}

#[test]
fn a_secret_of_a_wrong_type_is_refused_and_not_shown() {
    assert_eq!(
        Folder::new().load_problems("database_url = [\"hunter2\"]\n", &[]),
        [
            "retro.toml:1: `database_url` cannot be used; it must be a text such as \"postgres://retro@127.0.0.1:5432/retro\""
        ]
    );
}

#[test]
fn a_database_of_another_kind_is_refused_and_its_address_not_shown() {
    let found = Folder::new().load_problems("\ndatabase_url = \"mysql://me:hunter2@host/db\"\n", &[]);
    assert_eq!(
        found,
        [
            "retro.toml:2: `database_url` must begin with postgres:// or postgresql://; leave it out to use SQLite under `data_dir`"
        ]
    );
}

#[test]
fn listening_beyond_loopback_needs_a_certificate_or_a_proxy() {
    let everywhere = ("RETRO_HTTP_LISTEN", "0.0.0.0:80");
    let (certificate, key) = (("RETRO_HTTP_CERT_FILE", "a.pem"), ("RETRO_HTTP_KEY_FILE", "a.key"));
    let found = Folder::new().load_problems("", &[everywhere]);
    assert!(found[0].starts_with("RETRO_HTTP_LISTEN: `http_listen` is 0.0.0.0:80, "), "{found:?}");
    assert!(found[0].ends_with("or listen on 127.0.0.1:80"), "{found:?}");
    let found = Folder::new().load_problems("", &[everywhere, certificate]);
    assert!(found[0].ends_with("`http_cert_file` needs the private key: set `http_key_file`"), "{found:?}");
    let found = Folder::new().load_problems("", &[key]);
    assert!(found[0].contains("`http_key_file` needs the certificate"), "{found:?}");
    let found = Folder::new().load_problems("", &[everywhere, ("RETRO_HTTP_ALLOW_PLAINTEXT", "yes")]);
    assert!(found[0].ends_with("is \"yes\"; it must be true or false"), "{found:?}");
    for variables in
        [&[everywhere, certificate, key][..], &[everywhere, ("RETRO_HTTP_ALLOW_PLAINTEXT", "true")]]
    {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let loaded = retro_config::load_config(None, variables).expect("it can be served");
        assert!(loaded.config.requires_tokens());
    }
}

#[test]
fn an_invalid_host_of_bodies_is_named() {
    let found = Folder::new().load_problems("dataref_hosts = \"runs.example.com, 10.0.0.1\"\n", &[]);
    assert!(
        found[0].starts_with("retro.toml:1: `dataref_hosts` has an invalid host: \"10.0.0.1\" "),
        "{found:?}"
    );
    let hosts = retro_config::Config {
        dataref_hosts: " a.example:8443 ,b.example,".to_owned(),
        ..Default::default()
    };
    let hosts = hosts.allowed_hosts().unwrap();
    for (address, allowed) in
        [("https://a.example:8443/", true), ("https://b.example/", true), ("https://a.example/", false)]
    {
        assert_eq!(hosts.check_address(address).is_ok(), allowed, "{address}");
    }
}

#[test]
fn a_tenants_secret_that_cannot_be_used_is_named_by_its_line_and_never_shown() {
    let folder = Folder::new();
    let owned = "github_tenants = \"acme/* = acme\"\n";
    let found = |secrets: &str| {
        let found = folder.load_problems(owned, &[("RETRO_GITHUB_TENANT_SECRETS", secrets)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(!found[0].contains("long enough"), "{found:?}");
        found[0].clone()
    };
    for (secrets, why) in [
        ("acme=long enough", "line 1 is not `tenant = secret`"),
        ("acme = long enough\nacme = short", "line 2 has a secret of fewer than 8 bytes"),
        (" = long enough", "line 1 has no valid tenant"),
        ("other = long enough", "tenant other, to whom `github_tenants` assigns no repository"),
        ("\n \n", "is blank"),
        (&"acme = long enough\n".repeat(33), "has 33 lines; at most 32"),
    ] {
        let found = found(secrets);
        assert!(found.starts_with("RETRO_GITHUB_TENANT_SECRETS: `github_tenant_secrets` "), "{found}");
        assert!(found.contains(why), "{why}: {found}");
    }
    let secrets = "acme = long enough\n\n acme = and = with = signs \n";
    let config = folder.load(owned, &[("RETRO_GITHUB_TENANT_SECRETS", secrets)]).unwrap().config;
    let read = config.github_tenant_secrets().unwrap();
    let read: Vec<_> = read.iter().map(|(tenant, secret)| (tenant.as_str(), secret.expose())).collect();
    assert_eq!(read, [("acme", "long enough"), ("acme", "and = with = signs")]);
    assert!(config.has_bridge_secret() && config.github_secrets().is_empty());
}

#[test]
fn contradictory_keys_of_the_broker_are_reported_with_what_to_do() {
    let folder = Folder::new();
    let file = |name: &str| folder.write(name, "content").display().to_string();
    let (creds, seed, certificate) = (file("a.creds"), file("a.nk"), file("a.pem"));
    let url = ("NATS_URL", "tls://a:4222");
    let cases: [(Variables<'_>, &[&str]); 7] = [
        (
            &[url, ("RETRO_NATS_CREDS_FILE", &creds), ("RETRO_NATS_NKEY_FILE", &seed)],
            &[
                "RETRO_NATS_NKEY_FILE: `nats_nkey_file` is set together with `nats_creds_file`; keep one of them",
            ],
        ),
        (
            &[("NATS_URL", "tls://me:hunter2@a:4222"), ("RETRO_NATS_CREDS_FILE", &creds)],
            &[
                "RETRO_NATS_CREDS_FILE: `nats_creds_file` is set, and `nats_url` has a user or token, too; remove it \
               from the address or leave this key out",
            ],
        ),
        (
            &[url, ("RETRO_NATS_CERT_FILE", &certificate)],
            &["RETRO_NATS_CERT_FILE: `nats_cert_file` is set without `nats_key_file`, its private key"],
        ),
        (
            &[url, ("RETRO_NATS_KEY_FILE", &certificate)],
            &["RETRO_NATS_KEY_FILE: `nats_key_file` is set without `nats_cert_file`, its certificate"],
        ),
        (
            &[("RETRO_NATS_CA_FILE", &certificate), ("RETRO_NATS_REPLICAS", "3")],
            &[
                "RETRO_NATS_CA_FILE: `nats_ca_file` is only for a broker of your own, and `nats_url` is not set; set it \
               too (NATS_URL)",
                "RETRO_NATS_REPLICAS: `nats_replicas` is only for a broker of your own, and `nats_url` is not set; set \
               it too (NATS_URL)",
            ],
        ),
        (
            &[url, ("RETRO_NATS_REPLICAS", "2"), ("RETRO_NATS_INBOX_PREFIX", "_INBOX.>")],
            &[
                "RETRO_NATS_INBOX_PREFIX: `nats_inbox_prefix` is not a subject such as _INBOX_counter: words of visible \
               characters, separated by dots, without * and >",
                "RETRO_NATS_REPLICAS: `nats_replicas` is 2; it must be 1, 3 or 5",
            ],
        ),
        (
            &[url, ("RETRO_NATS_TLS", "always")],
            &["RETRO_NATS_TLS: `nats_tls` is \"always\"; it must be \"auto\" or \"required\" or \"first\""],
        ),
    ];
    for (variables, expected) in cases {
        assert_eq!(folder.load_problems("", variables), expected, "{variables:?}");
    }
    let all = [
        url,
        ("RETRO_NATS_CREDS_FILE", &creds),
        ("RETRO_NATS_CA_FILE", &certificate),
        ("RETRO_NATS_REPLICAS", "5"),
    ];
    assert_eq!(folder.load("", &all).unwrap().config.nats_replicas, 5);
}

#[test]
fn a_file_of_the_broker_that_cannot_be_read_is_reported_at_the_start() {
    let folder = Folder::new();
    let empty = folder.write("empty.creds", "").display().to_string();
    let found = folder.load_problems(
        "nats_url = \"tls://a:4222\"\nnats_ca_file = \"/no/such/ca.pem\"\n",
        &[("RETRO_NATS_CREDS_FILE", &empty)],
    );
    assert!(
        found[0].starts_with("RETRO_NATS_CREDS_FILE: `nats_creds_file` is empty.creds, which is empty"),
        "{found:?}"
    );
    assert!(
        found[1].starts_with("retro.toml:2: `nats_ca_file` is /no/such/ca.pem, which cannot be read: "),
        "{found:?}"
    );
}
