//! Tests connections with TLS, credentials files and nkeys: what connects, and the sentence for each failure.

mod jwt;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use nkeys::KeyPair;
use retro_bus::{
    ACK_WAIT, Bus, BusConfig, BusError, ClientCertificate, ConnectionSecurity, CredentialFile, NatsServer,
    TlsMode, topology,
};
use retro_events::Role;
use retro_events::permissions::BrokerUser;
use retro_testkit::{NatsCluster, TEST_TIMEOUT, TestAuthority, Validity, free_port};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use self::jwt::{Operator, UserClaims};
use crate::world::publish_events;

/// A nats-server with a configuration of the test.
struct Server {
    port: u16,
    _process: Child,
    _folder: TempDir,
}

impl Server {
    /// Starts a server with these lines of configuration.
    async fn start(lines: &str) -> Self {
        let (folder, port) = (TempDir::new().unwrap(), free_port());
        let text = format!("listen: \"127.0.0.1:{port}\"\n{lines}\n");
        std::fs::write(folder.path().join("server.conf"), text).unwrap();
        let (binary, _) = NatsServer::find_usable(None).await.unwrap();
        let mut process = Command::new(binary)
            .args(["-c", "server.conf", "-l", "server.log"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let listens = async {
            while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = listens => {}
            status = process.wait() => {
                let log = std::fs::read_to_string(folder.path().join("server.log")).unwrap_or_default();
                panic!("the server did not start: {status:?}: {log}");
            }
        }
        Self { port, _process: process, _folder: folder }
    }

    /// Starts a server with a certificate of this authority and further lines in its `tls` block.
    async fn start_tls(folder: &Folder, hosts: &[&str], validity: Validity, more: &str) -> Self {
        let (certificate, key) = folder.authority.issue(folder.path(), "server", hosts, validity);
        let (certificate, key) = (certificate.display(), key.display());
        Self::start(&format!("tls {{ cert_file: \"{certificate}\", key_file: \"{key}\", {more} }}")).await
    }

    fn address(&self) -> String {
        format!("localhost:{}", self.port)
    }

    async fn connect(&self, security: ConnectionSecurity) -> Bus {
        let url = format!("nats://{}", self.address());
        Bus::connect(BusConfig { security, ..BusConfig::new(url, "test") }).await.unwrap()
    }
}

/// A folder with an authority, whose certificate is in `ca.pem`.
struct Folder {
    folder: TempDir,
    authority: TestAuthority,
}

impl Folder {
    fn new() -> Self {
        let folder = Self { folder: TempDir::new().unwrap(), authority: TestAuthority::new() };
        folder.authority.write_to(folder.path());
        folder
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn ca_file(&self) -> PathBuf {
        self.path().join("ca.pem")
    }

    fn client_certificate(&self) -> ClientCertificate {
        let (certificate, key) = self.authority.issue(self.path(), "client", &["client"], Validity::Valid);
        ClientCertificate { certificate, key }
    }

    /// Trusts this authority.
    fn security(&self) -> ConnectionSecurity {
        ConnectionSecurity { ca_file: Some(self.ca_file()), ..ConnectionSecurity::default() }
    }
}

async fn wait_until_connected(bus: &Bus) {
    let connected = async {
        while !bus.is_connected() {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(TEST_TIMEOUT, connected).await;
    waited.unwrap_or_else(|_| panic!("not connected: {:?}", bus.connection_problem()));
    assert_eq!(bus.connection_problem(), None);
}

async fn wait_for_fault(bus: &Bus) -> String {
    let fault = async {
        loop {
            match bus.connection_fault() {
                Some(fault) => return fault,
                None => tokio::task::yield_now().await,
            }
        }
    };
    let waited = tokio::time::timeout(TEST_TIMEOUT, fault).await;
    waited.unwrap_or_else(|_| panic!("no fault, but: {:?}", bus.connection_problem()))
}

#[tokio::test]
async fn each_failure_of_a_servers_certificate_has_its_own_sentence() {
    let (ours, other) = (Folder::new(), Folder::new());
    let good = Server::start_tls(&ours, &["localhost"], Validity::Valid, "").await;
    let at = format!("the certificate of the broker at {}", good.address());
    let fault = wait_for_fault(&good.connect(ConnectionSecurity::default()).await).await;
    assert_eq!(
        fault,
        format!(
            "{at} is not signed by an authority that this machine trusts: set nats_ca_file to the file of its authority"
        )
    );
    let fault = wait_for_fault(&good.connect(other.security()).await).await;
    let ca = other.ca_file();
    assert_eq!(
        fault,
        format!(
            "{at} is not signed by an authority in nats_ca_file ({}): set the file of the authority that signed it",
            ca.display()
        )
    );
    std::fs::write(&ca, "no certificate").unwrap();
    let fault = wait_for_fault(&good.connect(other.security()).await).await;
    assert_eq!(fault, format!("nats_ca_file ({}) has no certificate in PEM format", ca.display()));
    std::fs::remove_file(&ca).unwrap();
    let fault = wait_for_fault(&good.connect(other.security()).await).await;
    assert!(fault.starts_with(&format!("nats_ca_file ({}) cannot be read: ", ca.display())), "{fault}");
    wait_until_connected(&good.connect(ours.security()).await).await;

    let stranger = Server::start_tls(&ours, &["nats.example.com"], Validity::Valid, "").await;
    let fault = wait_for_fault(&stranger.connect(ours.security()).await).await;
    assert_eq!(
        fault,
        format!(
            "the certificate of the broker at {} is not for the name localhost: the certificate is only valid for \
             DnsName(\"nats.example.com\"); use one of its names in nats_url, or issue one with this name",
            stranger.address()
        )
    );
    for (validity, sentence) in [
        (Validity::Expired, "expired at 2020-01-01T00:00:00Z: renew it at the broker"),
        (
            Validity::NotYet,
            "is not valid before 2400-01-01T00:00:00Z: check the clock of this machine and of the authority",
        ),
    ] {
        let server = Server::start_tls(&ours, &["localhost"], validity, "").await;
        let fault = wait_for_fault(&server.connect(ours.security()).await).await;
        assert_eq!(fault, format!("the certificate of the broker at {} {sentence}", server.address()));
    }
}

#[tokio::test]
async fn a_connection_without_tls_is_refused_if_certificates_are_configured() {
    let (folder, plain) = (Folder::new(), Server::start("").await);
    let required = ConnectionSecurity { tls: TlsMode::Required, ..ConnectionSecurity::default() };
    for security in [folder.security(), required] {
        let fault = wait_for_fault(&plain.connect(security).await).await;
        let at = plain.address();
        assert!(
            fault.starts_with(&format!("the broker at {at} does not offer TLS, which nats_tls,")),
            "{fault}"
        );
    }
    wait_until_connected(&plain.connect(ConnectionSecurity::default()).await).await;
    let first = Server::start_tls(&folder, &["localhost"], Validity::Valid, "handshake_first: true").await;
    let security = ConnectionSecurity { tls: TlsMode::First, ..folder.security() };
    wait_until_connected(&first.connect(security).await).await;
}

#[tokio::test]
async fn mutual_tls_needs_a_client_certificate_of_an_authority_that_the_server_trusts() {
    let (ours, other) = (Folder::new(), Folder::new());
    let verify = format!("ca_file: \"{}\", verify: true", ours.ca_file().display());
    let server = Server::start_tls(&ours, &["localhost"], Validity::Valid, &verify).await;
    let fault = wait_for_fault(&server.connect(ours.security()).await).await;
    let at = server.address();
    assert_eq!(
        fault,
        format!("the broker at {at} asks for a client certificate: set nats_cert_file and nats_key_file")
    );
    let with = |certificate| ConnectionSecurity { client_certificate: Some(certificate), ..ours.security() };
    let bus = server.connect(with(other.client_certificate())).await;
    let fault = wait_for_fault(&bus).await;
    assert!(
        fault.starts_with(&format!("the broker at {at} refuses the client certificate of nats_cert_file (")),
        "{fault}"
    );
    wait_until_connected(&server.connect(with(ours.client_certificate())).await).await;
}

#[tokio::test]
async fn a_new_credentials_file_takes_effect_without_a_restart() {
    let (operator, folder) = (Operator::new(), TempDir::new().unwrap());
    let server = Server::start(&operator.server_lines()).await;
    let path = folder.path().join("counter.creds");
    let user = UserClaims { name: "counter", permissions: None };
    // 2020-01-01.
    std::fs::write(&path, operator.issue_credentials(&user, Some(1_577_836_800))).unwrap();
    let security =
        ConnectionSecurity { credential: Some(CredentialFile::Creds(path.clone())), ..Default::default() };
    let bus = server.connect(security).await;
    let fault = wait_for_fault(&bus).await;
    assert_eq!(
        fault,
        format!(
            "the broker refuses the user counter of nats_creds_file ({}): it is unknown, revoked or expired (it is valid \
             until 2020-01-01T00:00:00Z); issue new credentials or set another file",
            path.display()
        )
    );
    assert!(bus.is_login_refused());
    std::fs::remove_file(&path).unwrap();
    let sentence = format!("the login of nats_creds_file ({}) cannot be read: ", path.display());
    let read = async {
        while !bus.connection_fault().is_some_and(|fault| fault.starts_with(&sentence)) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, read).await.unwrap();
    std::fs::write(&path, operator.issue_credentials(&user, None)).unwrap();
    wait_until_connected(&bus).await;
}

#[tokio::test]
async fn users_with_credentials_files_work_within_the_permissions_of_their_roles() {
    let (operator, folder) = (Operator::new(), TempDir::new().unwrap());
    let store = folder.path().join("store");
    let lines = format!("{}jetstream {{ store_dir: \"{}\" }}", operator.server_lines(), store.display());
    let server = Server::start(&lines).await;
    let connect = async |user: BrokerUser, prefix: Option<&str>| {
        let name = user.to_string();
        let claims = UserClaims { name: &name, permissions: Some(user.permissions()) };
        let path = folder.path().join(format!("{name}.creds"));
        std::fs::write(&path, operator.issue_credentials(&claims, None)).unwrap();
        let config = BusConfig {
            security: ConnectionSecurity {
                credential: Some(CredentialFile::Creds(path)),
                ..Default::default()
            },
            inbox_prefix: prefix.map(str::to_owned),
            ..BusConfig::new(format!("nats://{}", server.address()), name).with_streams_mib(200)
        };
        let bus = Bus::connect(config).await.unwrap();
        wait_until_connected(&bus).await;
        bus
    };
    let setup = connect(BrokerUser::Setup, Some("_INBOX_setup")).await;
    topology::ensure_topology(&setup, ACK_WAIT).await.unwrap();
    let counter = connect(BrokerUser::Role(Role::Counter), Some("_INBOX_counter")).await;
    assert!(topology::find_problems(&counter, &[Role::Counter]).await.is_empty());
    let problems = topology::find_problems(&counter, &[Role::Writer]).await;
    assert!(matches!(&problems[0], BusError::Refused { user, .. } if user == "counter"), "{problems:?}");

    let sampler = connect(BrokerUser::Role(Role::Sampler), None).await;
    let problems = topology::find_problems(&sampler, &[Role::Sampler]).await;
    let sentence = "the broker denies the user sampler its inbox _INBOX.>, on which it would be answered: set \
                    nats_inbox_prefix to the prefix that its permissions allow";
    assert_eq!(problems[0].to_string(), sentence);
    assert_eq!(sampler.connection_problem().as_deref(), Some(sentence));
}

#[tokio::test]
async fn an_unknown_nkey_is_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(&format!(
        "authorization {{ users: [ {{ nkey: {} }} ] }}",
        KeyPair::new_user().public_key()
    ))
    .await;
    let (path, pair) = (folder.path().join("a.nk"), KeyPair::new_user());
    std::fs::write(&path, pair.seed().unwrap()).unwrap();
    let security =
        ConnectionSecurity { credential: Some(CredentialFile::Nkey(path.clone())), ..Default::default() };
    let fault = wait_for_fault(&server.connect(security).await).await;
    assert_eq!(
        fault,
        format!(
            "the broker refuses the user {} of nats_nkey_file ({}): no user of its configuration has this nkey; add it \
             there or set another file",
            pair.public_key(),
            path.display()
        )
    );
    let fault = wait_for_fault(&server.connect(ConnectionSecurity::default()).await).await;
    assert!(fault.contains("asks for a login; set nats_creds_file, nats_nkey_file, or a user"), "{fault}");
}

#[test]
fn a_secret_that_every_user_may_read_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.nk");
    std::fs::write(&path, "SU").unwrap();
    let security =
        ConnectionSecurity { credential: Some(CredentialFile::Nkey(path.clone())), ..Default::default() };
    for (mode, warnings) in [(0o644, 1), (0o640, 0), (0o600, 0)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(security.find_exposed_files().len(), warnings, "{mode:o}");
    }
}

#[tokio::test]
async fn a_single_server_is_not_asked_for_three_replicas_without_a_remedy() {
    let alone = Server::start("jetstream { store_dir: store }").await;
    let url = format!("nats://{}", alone.address());
    let bus = Bus::connect(BusConfig { replicas: 3, ..BusConfig::new(url, "test").with_streams_mib(200) })
        .await
        .unwrap();
    wait_until_connected(&bus).await;
    let refused = topology::ensure_topology(&bus, ACK_WAIT).await.unwrap_err();
    assert!(matches!(refused, BusError::Unusable { .. }), "{refused}");
    let refused = refused.to_string();
    assert!(
        refused.contains("stream RETRO_INTAKE")
            && refused.contains("set nats_replicas to 1 for a single server"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_cluster_keeps_what_a_stream_holds_when_its_replicas_are_raised() {
    let cluster = NatsCluster::start(&[]).await;
    let setup = |replicas| BusConfig { replicas, ..cluster.bus_config(&BrokerUser::Setup) };
    provision_when_formed(&cluster, setup(1)).await;
    let relay = Bus::connect(cluster.bus_config(&BrokerUser::Role(Role::Relay))).await.unwrap();
    publish_events(&relay, ["{}".to_owned()]).await;
    let jetstream = connect_as_setup(&cluster).await;
    let before = jetstream.get_stream(topology::INTAKE).await.unwrap().cached_info().clone();

    provision_when_formed(&cluster, setup(3)).await;
    let streams =
        [topology::INTAKE, topology::GITHUB, topology::WORK, topology::ANNOUNCEMENTS, topology::BODIES];
    for stream in streams {
        let found = jetstream.get_stream(stream).await.unwrap();
        assert_eq!(found.cached_info().config.num_replicas, 3, "{stream}");
    }
    let mut stream = jetstream.get_stream(topology::INTAKE).await.unwrap();
    let after = stream.info().await.unwrap();
    assert_eq!(
        (after.created, after.state.messages),
        (before.created, 1),
        "the same stream with its message"
    );
    let durables = Role::ALL.iter().filter_map(|role| role.durable_consumer());
    for durable in durables {
        let stream = jetstream.get_stream(durable.stream).await.unwrap();
        let followers = async {
            loop {
                let info = stream.consumer_info(durable.name).await.unwrap();
                if info.cluster.is_some_and(|cluster| cluster.replicas.len() == 2) {
                    return;
                }
            }
        };
        let waited = tokio::time::timeout(TEST_TIMEOUT, followers).await;
        waited.unwrap_or_else(|_| panic!("{} is on one server", durable.name));
    }

    provision_when_formed(&cluster, setup(1)).await;
    let kept = jetstream.get_stream(topology::INTAKE).await.unwrap();
    assert_eq!(kept.cached_info().config.num_replicas, 3, "lowering is left to an operator");
}

/// Provisions everything as soon as the servers have formed a cluster.
async fn provision_when_formed(cluster: &NatsCluster, config: BusConfig) {
    let bus = Bus::connect(config).await.unwrap();
    wait_until_connected(&bus).await;
    let mut latest = None;
    let provisioned = async {
        while let Err(error) = topology::ensure_topology(&bus, ACK_WAIT).await {
            assert!(matches!(error, BusError::Unavailable { .. }), "{error}");
            latest = Some(error);
        }
    };
    let provisioned = tokio::time::timeout(TEST_TIMEOUT, provisioned).await;
    provisioned.unwrap_or_else(|_| panic!("{latest:?}\n{}", cluster.log_tails()));
}

async fn connect_as_setup(cluster: &NatsCluster) -> async_nats::jetstream::Context {
    let seed = std::fs::read_to_string(cluster.seed_file(&BrokerUser::Setup)).unwrap();
    let options = async_nats::ConnectOptions::with_nkey(seed.trim().to_owned());
    let options = options.add_root_certificates(cluster.ca_file()).custom_inbox_prefix("_INBOX_setup");
    let urls: Vec<async_nats::ServerAddr> =
        cluster.url().split(',').map(|url| url.parse().unwrap()).collect();
    async_nats::jetstream::new(options.connect(urls).await.unwrap())
}
