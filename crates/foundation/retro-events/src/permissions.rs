//! Defines the users of the broker and their permissions. There is one user for each role, one for
//! provisioning, and two for each tenant (engines and readers). Each user has only the permissions that its
//! work needs. The server's users file is generated from these definitions.
//!
//! **Permissions.** Everything at the broker is a subject: publishing, JetStream requests (`$JS.API.…`),
//! acknowledgements (`$JS.ACK.…`) and replies (`_INBOX_<user>.…`, one prefix per user). Permissions are
//! therefore two lists of subjects.
//!
//! **Accounts.** Permissions alone do not isolate tenants. A publisher names the reply subject to which the
//! stream's acknowledgement is sent, and the server does not check whether the publisher may use that
//! subject, which may be another user's inbox or the subject of changes. Each tenant therefore has its own
//! account, with imports from ours: a service to publish its own runs, one for each request of its agents, and a stream
//! for each kind of its own announcements. The reply subject is then a subject of the tenant's own account.
//!
//! **Answers.** Requests of agents come from accounts and inboxes that the gateway cannot know, so no list of subjects
//! could contain where it answers. It may send one message to the reply subject of each message that it receives,
//! within [`ANSWER_EXPIRES_S`], and nothing to any other. It may subscribe to requests only in the queue group of the
//! gateways, so no process with its password can listen to the requests that another one answers.
//!
//! **Reserved for [`BrokerUser::Setup`]**: creating or changing streams and consumers. A user that may create a
//! consumer can make the server push the messages of a stream to any subject, past its own permissions. No user
//! may purge or delete.
//!
//! **Bodies.** The object store names a body's chunks by a random id and its entry by an encoding of its name,
//! so a subject does not show whose body it is, and no permission can separate tenants there. Engines therefore
//! have no access: a body too large for a message goes over HTTP, where the gateway knows the tenant. The
//! gateway may replace an entry. Only the investigator reads bodies, and it checks the tenant and the hash of
//! each.
//!
//! **Known limits.** Roles share an account: a compromised role can have JetStream reply to a subject of its
//! choice, and so wake a stage or announce a change. That changes nothing, because stages only work on what
//! is due in the database. A role can read any message in the stream of its consumer. The counter receives
//! every event anyway, and the others see which retrospectives are woken, which is also in the database. The gateway may
//! answer every message that it receives: a compromised one could confirm an announcement to the relay that no stream
//! has stored, so that a tenant's reader does not hear of a change. The
//! intake stream remembers a message id for its shortest window (100 ms), whoever sent it: an engine that
//! guesses another tenant's `Nats-Msg-Id` in time could have that message dropped as a duplicate; the gateway
//! and `retro emit` send none. The limits of a stream are shared: an engine that fills it blocks the others.

use std::fmt;

use retro_core::id::Tenant;

use crate::agents::{AGENT_QUEUE, AGENT_SERVICE, AgentOperation};
use crate::stream::{ANNOUNCEMENTS, BODIES, BODIES_BUCKET, GITHUB, INTAKE, WORK};
use crate::{DurableConsumer, Role, subject};

/// A user of the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BrokerUser {
    /// A process that has this role.
    Role(Role),
    /// `retro migrate`, which provisions streams and consumers.
    Setup,
    /// Engines and agents of a tenant, which publish its finished runs and ask for its memories.
    Engine(Tenant),
    /// Programs of a tenant that subscribe to its announcements: changes of its memories, reports that are ready, and
    /// stored dead letters. Announcements contain ids, no texts.
    Reader(Tenant),
}

/// Subjects that a user may publish to and subjects that it may subscribe to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// Subjects that the user may publish to, requests and acknowledgements included.
    pub publish: Vec<String>,
    /// Subjects that the user may subscribe to. A queue group after the subject, separated by a blank, permits only
    /// subscriptions of that group.
    pub subscribe: Vec<String>,
    /// `true` if the user may answer each message that it receives, once and within [`ANSWER_EXPIRES_S`].
    pub answers: bool,
}

/// Time in which the gateway may answer a request, in seconds: longer than the longest timeout of an answer
/// (`context_timeout_ms`, at most a minute).
pub const ANSWER_EXPIRES_S: u32 = 90;

impl BrokerUser {
    /// Lists every user of a fleet that serves these tenants.
    pub fn list_all(tenants: &[Tenant]) -> Vec<Self> {
        Self::internal_users().into_iter().chain(tenants.iter().flat_map(Self::tenant_users)).collect()
    }

    fn internal_users() -> Vec<Self> {
        Role::ALL.iter().copied().map(Self::Role).chain([Self::Setup]).collect()
    }

    fn tenant_users(tenant: &Tenant) -> [Self; 2] {
        [Self::Engine(tenant.clone()), Self::Reader(tenant.clone())]
    }

    /// Returns the permissions of the user.
    pub fn permissions(&self) -> Permissions {
        let own_inbox = all_below(&inbox_prefix(Some(&self.to_string())));
        let (publish, subscribe) = match self {
            Self::Role(role) => {
                (role_subjects(*role), subscribed_subjects(*role).into_iter().chain([own_inbox]).collect())
            }
            Self::Setup => (setup_subjects(), vec![own_inbox]),
            Self::Engine(tenant) => (service_subjects(tenant).collect(), vec![own_inbox]),
            Self::Reader(tenant) => (Vec::new(), announcement_subjects(tenant).to_vec()),
        };
        Permissions { publish, subscribe, answers: *self == Self::Role(Role::Gateway) }
    }
}

impl fmt::Display for BrokerUser {
    /// Writes the user's name at the broker, in which a tenant is encoded as in subjects.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Role(role) => write!(f, "{role}"),
            Self::Setup => f.write_str("setup"),
            Self::Engine(tenant) => write!(f, "engine-{}", subject::encode_token(tenant.as_str())),
            Self::Reader(tenant) => write!(f, "reader-{}", subject::encode_token(tenant.as_str())),
        }
    }
}

/// Returns the prefix of a user's inbox subjects. Each user has its own prefix, so no user can read another's
/// replies.
pub fn inbox_prefix(user: Option<&str>) -> String {
    user.map_or_else(|| "_INBOX".to_owned(), |user| format!("_INBOX_{user}"))
}

fn role_subjects(role: Role) -> Vec<String> {
    let own = role.durable_consumer().map(consumer_subjects).unwrap_or_default();
    let asks = role.required_streams().iter().map(|stream| format!("$JS.API.STREAM.INFO.{stream}"));
    let more = match role {
        Role::Sampler | Role::Writer | Role::Reviewer | Role::Tracker => Vec::new(),
        // For its reconciler, which reads the stream directly. The role receives every message of this stream
        // anyway.
        Role::Counter => vec![format!("$JS.API.DIRECT.GET.{INTAKE}")],
        Role::Investigator => {
            let read = format!("$JS.API.DIRECT.GET.{BODIES}");
            vec![all_below(&read), read]
        }
        Role::Gateway => vec![
            all_below(subject::RUN_COMPLETED),
            // To check whether a body is already stored, which needs its entry but not its chunks.
            format!("$JS.API.DIRECT.GET.{BODIES}.$O.{BODIES_BUCKET}.M.*"),
            format!("$O.{BODIES_BUCKET}.C.*"),
            format!("$O.{BODIES_BUCKET}.M.*"),
        ],
        // A finished GitHub workflow is a run, so the bridge also publishes runs.
        Role::Bridge => vec![all_below(subject::GITHUB), all_below(subject::RUN_COMPLETED)],
        // Replays go back to the original subjects, whoever published them first; the bytes are the stored
        // ones. The stream check also needs the state of the consumers of outside messages, and the names of
        // waiting messages, even while no such role runs.
        Role::Relay => {
            let outside = [INTAKE, GITHUB];
            let takers = Role::ALL.iter().filter_map(|role| role.durable_consumer());
            let looks = takers
                .filter(|one| outside.contains(&one.stream))
                .map(|one| format!("$JS.API.CONSUMER.INFO.{}.{}", one.stream, one.name));
            let others = [subject::RUN_COMPLETED, subject::GITHUB];
            let ours = subject::OUTBOX_PREFIXES.iter().copied().chain(others).map(all_below);
            ours.chain(looks).chain(outside.map(|stream| format!("$JS.API.DIRECT.GET.{stream}"))).collect()
        }
    };
    // The relay itself needs no waking, and the bridge writes no messages to the outbox.
    let wakes = !matches!(role, Role::Relay | Role::Bridge);
    let wakes = wakes.then(|| subject::OUTBOX_WRITTEN.to_owned());
    own.into_iter().chain(asks).chain(more).chain(wakes).collect()
}

/// Returns the subjects that a role subscribes to besides its inbox.
fn subscribed_subjects(role: Role) -> Vec<String> {
    match role {
        Role::Counter => role
            .durable_consumer()
            .map(|one| advisory_subjects(one.stream, one.name).to_vec())
            .unwrap_or_default(),
        Role::Relay => vec![subject::OUTBOX_WRITTEN.to_owned()],
        // It caches memories, and reads the changed ones again.
        Role::Gateway => {
            let requests =
                AgentOperation::ALL.iter().map(|one| format!("{} {AGENT_QUEUE}", one.subject_of_all()));
            [all_below(subject::MEMORY_CHANGED)]
                .into_iter()
                .chain(requests)
                .chain(discovery_subjects())
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the subjects of the advisories that the broker publishes when it gives up on a message of a
/// consumer.
pub fn advisory_subjects(stream: &str, consumer: &str) -> [String; 2] {
    ["MAX_DELIVERIES", "MSG_TERMINATED"]
        .map(|what| format!("$JS.EVENT.ADVISORY.CONSUMER.{what}.{stream}.{consumer}"))
}

/// Returns the subjects that a role needs to query its consumer, to request and acknowledge messages, and to read
/// the time at which the oldest message was stored.
fn consumer_subjects(DurableConsumer { name, stream, .. }: DurableConsumer) -> Vec<String> {
    vec![
        format!("$JS.API.CONSUMER.INFO.{stream}.{name}"),
        format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}"),
        format!("$JS.ACK.{stream}.{name}.>"),
        format!("$JS.API.STREAM.MSG.GET.{stream}"),
    ]
}

fn setup_subjects() -> Vec<String> {
    let streams = [INTAKE, GITHUB, WORK, ANNOUNCEMENTS, BODIES].into_iter().flat_map(|stream| {
        ["INFO", "CREATE", "UPDATE"].map(|verb| format!("$JS.API.STREAM.{verb}.{stream}"))
    });
    let durables = Role::ALL.iter().filter_map(|role| role.durable_consumer()).flat_map(|durable| {
        let DurableConsumer { name, stream, .. } = durable;
        ["INFO", "CREATE"].map(|verb| format!("$JS.API.CONSUMER.{verb}.{stream}.{name}"))
    });
    // An operator lists the gateways that answer agents, with `nats micro`.
    streams.chain(durables).chain(discovery_subjects()).collect()
}

/// Returns the subjects on which tools find the gateways that answer agents: those of every service, of this one, and of
/// one process.
fn discovery_subjects() -> [String; 3] {
    ["$SRV.*".to_owned(), format!("$SRV.*.{AGENT_SERVICE}"), format!("$SRV.*.{AGENT_SERVICE}.*")]
}

/// Returns the subjects to which a tenant's engines and agents may publish, each of which is a service of ours.
fn service_subjects(tenant: &Tenant) -> impl Iterator<Item = String> {
    let requests = AgentOperation::ALL.iter().map(|operation| operation.subject_of_tenant(tenant));
    [tenant_subjects(subject::RUN_COMPLETED, tenant)].into_iter().chain(requests)
}

fn tenant_subjects(prefix: &str, tenant: &Tenant) -> String {
    format!("{prefix}.{}.>", subject::encode_token(tenant.as_str()))
}

fn all_below(prefix: &str) -> String {
    subject::all_below(prefix)
}

/// Renders the part of the server's configuration that lists accounts and users. Each password is a variable
/// named by [`password_key`] and defined in `passwords.conf` in the same folder; the server does not start
/// while one is missing.
pub fn render_users_file(tenants: &[Tenant]) -> String {
    let login = |user: &BrokerUser| format!("user: \"{user}\"\n        password: ${}", password_key(user));
    format!("include \"passwords.conf\"\n\n{}", render_accounts(tenants, &login))
}

/// Renders the same accounts and permissions for users that log in with an nkey. `public_key` returns the public nkey of
/// a user. Such a file contains no secret. A user's name is only a comment in it.
pub fn render_nkey_users_file(tenants: &[Tenant], public_key: impl Fn(&BrokerUser) -> String) -> String {
    render_accounts(tenants, &|user| format!("# {user}\n        nkey: \"{}\"", public_key(user)))
}

/// Renders the accounts. `login` returns the lines by which the server recognizes a user.
fn render_accounts(tenants: &[Tenant], login: &dyn Fn(&BrokerUser) -> String) -> String {
    let render = |user: &BrokerUser| render_user(user, &login(user));
    let exports: String = tenants.iter().map(render_exports).collect();
    let ours: String = BrokerUser::internal_users().iter().map(render).collect();
    let theirs: String = tenants.iter().map(|tenant| render_account(tenant, &render)).collect();
    format!(
        "accounts {{\n  RETRO {{\n    jetstream: enabled\n    exports: [\n{exports}    ]\n    \
         users: [\n{ours}    ]\n  }}\n{theirs}}}\n"
    )
}

/// Renders the exports to a tenant's account: the services to publish runs, which returns only the acknowledgement, and
/// to ask for memories, and the streams of its announcements.
fn render_exports(tenant: &Tenant) -> String {
    let account = account_name(tenant);
    let export = |kind: &str, subject: String| {
        format!("      {{ {kind}: \"{subject}\", accounts: [\"{account}\"] }}\n")
    };
    let services = service_subjects(tenant).map(|subject| export("service", subject));
    services.chain(announcement_subjects(tenant).map(|subject| export("stream", subject))).collect()
}

fn render_account(tenant: &Tenant, render: &dyn Fn(&BrokerUser) -> String) -> String {
    let account = account_name(tenant);
    let import = |kind: &str, subject: String| {
        format!("      {{ {kind}: {{ account: RETRO, subject: \"{subject}\" }} }}\n")
    };
    let services = service_subjects(tenant).map(|subject| import("service", subject));
    let imports: String =
        services.chain(announcement_subjects(tenant).map(|subject| import("stream", subject))).collect();
    let users: String = BrokerUser::tenant_users(tenant).iter().map(render).collect();
    format!("  \"{account}\" {{\n    imports: [\n{imports}    ]\n    users: [\n{users}    ]\n  }}\n")
}

fn account_name(tenant: &Tenant) -> String {
    format!("TENANT-{}", subject::encode_token(tenant.as_str()))
}

/// Returns the subjects of everything that is announced to a tenant, one for each kind of
/// [`Notice::ANNOUNCEMENTS`](retro_core::message::Notice::ANNOUNCEMENTS).
fn announcement_subjects(tenant: &Tenant) -> [String; 3] {
    [subject::MEMORY_CHANGED, subject::REPORT_READY, subject::DEAD_LETTER_STORED]
        .map(|prefix| tenant_subjects(prefix, tenant))
}

/// Returns the name of the variable that contains a user's password in `passwords.conf`. A variable name cannot
/// contain `=`, so `.` replaces it; a user name never contains `.`.
pub fn password_key(user: &BrokerUser) -> String {
    format!("password-{}", user.to_string().replace('=', "."))
}

fn render_user(user: &BrokerUser, login: &str) -> String {
    let Permissions { publish, subscribe, answers } = user.permissions();
    let answers = match answers {
        true => format!("          allow_responses: {{ max: 1, expires: \"{ANSWER_EXPIRES_S}s\" }}\n"),
        false => String::new(),
    };
    format!(
        "      {{\n        {login}\n        permissions: {{\n          publish: {publish}\n\
         \x20         subscribe: {subscribe}\n{answers}        }}\n      }}\n",
        publish = render_subjects(&publish),
        subscribe = render_subjects(&subscribe),
    )
}

/// Renders a permission list. An empty allow list would allow everything, so a rule that denies everything replaces
/// it.
fn render_subjects(subjects: &[String]) -> String {
    if subjects.is_empty() {
        return "{ deny: \">\" }".to_owned();
    }
    let lines: String = subjects.iter().map(|subject| format!("            \"{subject}\"\n")).collect();
    format!("[\n{lines}          ]")
}

#[cfg(test)]
mod tests {
    use retro_core::message::Notice;

    use super::*;

    #[test]
    fn a_tenant_may_hear_everything_that_is_announced_to_it() {
        let tenant = Tenant::new("acme").unwrap();
        let heard = BrokerUser::Reader(tenant).permissions().subscribe;
        let announced = Notice::ANNOUNCEMENTS.map(|kind| format!("retro.{kind}.acme.>"));
        for subject in &announced {
            assert!(heard.contains(subject), "nobody may subscribe to {subject}");
        }
        assert_eq!(heard.len(), announced.len());
    }
}
