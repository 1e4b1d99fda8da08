//! Who may do what at the broker: one user for each role, for whoever sets the broker up, and for each tenant's engines
//! and listeners, each with the fewest rights that its work needs. The server's users file is generated from this.
//!
//! **What a right is.** Everything at the broker is a subject: publishing, asking JetStream (`$JS.API.…`), answering for a
//! message (`$JS.ACK.…`) and hearing replies (`_INBOX_<user>.…`, everybody's own). So rights are two lists of subjects.
//!
//! **Accounts.** Permissions alone do not keep tenants apart: whoever publishes names a subject for the answer, the server
//! does not ask whether they may, and the stream's acknowledgement lands there, in anybody's inbox or on the subject of
//! changes. So each tenant is an account of its own, with two openings into ours: publishing its own runs and hearing
//! its own changes. The subject for the answer is then one of its own account.
//!
//! **What nobody gets but [`User::Setup`]**: creating or changing streams and consumers. Whoever may create a consumer
//! can have the server push what a stream holds to any subject, past its own permissions. Purging and deleting are
//! nobody's at all.
//!
//! **Bodies.** The object store names a body's chunks by a random id and its entry by an encoding of its name, so a
//! subject does not say whose body it is, and no permission can cut it by tenant. Engines have no right to it: what is
//! too large for a message goes over HTTP, where the gateway knows the tenant. The gateway may replace an entry, and
//! only the investigator reads bodies; it checks tenant and hash of each.
//!
//! **What remains.** Roles share an account: one that was taken over can have JetStream answer to a subject of its
//! choice, and so wake a stage or say that something changed. That changes nothing, since stages do what the database
//! says is due. A stage may look up any message of the stream that it takes its own from: the counter is handed every event
//! anyway, and the others see whom we wake for which retrospective, which they find in the database, too. The intake stream remembers the id of a message for its shortest time (100 ms), whoever sent it: an
//! engine that guesses another tenant's `Nats-Msg-Id` within it could have that message taken for a copy; the gateway
//! and `retro emit` send none. A stream's bounds are shared: an engine that fills it stops the others.

use std::fmt;

use retro_core::id::Tenant;

use crate::stream::{ANNOUNCEMENTS, BODIES, BODIES_BUCKET, GITHUB, INTAKE, WORK};
use crate::{Durable, Role, subject};

/// A user of the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum User {
    /// A process with one role.
    Role(Role),
    /// `retro migrate`: makes streams and consumers.
    Setup,
    /// The engines of a tenant.
    Engine(Tenant),
    /// Whoever of a tenant listens for changes of its memories.
    Reader(Tenant),
}

/// What a user may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// Subjects it may publish to, requests and acknowledgements included.
    pub publish: Vec<String>,
    /// Subjects it may subscribe to.
    pub subscribe: Vec<String>,
}

impl User {
    /// Every user of a fleet with these tenants.
    pub fn all(tenants: &[Tenant]) -> Vec<Self> {
        Self::ours().into_iter().chain(tenants.iter().flat_map(Self::of)).collect()
    }

    fn ours() -> Vec<Self> {
        Role::ALL.map(Self::Role).into_iter().chain([Self::Setup]).collect()
    }

    fn of(tenant: &Tenant) -> [Self; 2] {
        [Self::Engine(tenant.clone()), Self::Reader(tenant.clone())]
    }

    /// Its rights.
    pub fn rights(&self) -> Rights {
        let own_inbox = all_below(&inbox_prefix(Some(&self.to_string())));
        let (publish, subscribe) = match self {
            Self::Role(role) => (of_role(*role), heard_by(*role).into_iter().chain([own_inbox]).collect()),
            Self::Setup => (of_setup(), vec![own_inbox]),
            Self::Engine(tenant) => (vec![of_tenant(subject::RUN_COMPLETED, tenant)], vec![own_inbox]),
            Self::Reader(tenant) => (Vec::new(), vec![of_tenant(subject::MEMORY_CHANGED, tenant)]),
        };
        Rights { publish, subscribe }
    }
}

impl fmt::Display for User {
    /// Its name at the broker; a tenant is written as in subjects.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Role(role) => write!(f, "{role}"),
            Self::Setup => f.write_str("setup"),
            Self::Engine(tenant) => write!(f, "engine-{}", subject::encode(tenant.as_str())),
            Self::Reader(tenant) => write!(f, "reader-{}", subject::encode(tenant.as_str())),
        }
    }
}

/// Where the broker's answers to a user arrive. Everybody's own, so that nobody may listen to another's.
pub fn inbox_prefix(user: Option<&str>) -> String {
    user.map_or_else(|| "_INBOX".to_owned(), |user| format!("_INBOX_{user}"))
}

fn of_role(role: Role) -> Vec<String> {
    let own = role.durable().map(of_durable).unwrap_or_default();
    let asks = role.streams().iter().map(|stream| format!("$JS.API.STREAM.INFO.{stream}"));
    let more = match role {
        Role::Sampler | Role::Writer | Role::Reviewer | Role::Tracker => Vec::new(),
        // It compares what its consumer believes to be done with what was done. It takes all of this stream anyway.
        Role::Counter => vec![format!("$JS.API.DIRECT.GET.{INTAKE}")],
        Role::Investigator => {
            let read = format!("$JS.API.DIRECT.GET.{BODIES}");
            vec![all_below(&read), read]
        }
        Role::Gateway => vec![
            all_below(subject::RUN_COMPLETED),
            // Whether a body is there already: its entry, not its chunks.
            format!("$JS.API.DIRECT.GET.{BODIES}.$O.{BODIES_BUCKET}.M.*"),
            format!("$O.{BODIES_BUCKET}.C.*"),
            format!("$O.{BODIES_BUCKET}.M.*"),
        ],
        // A workflow of GitHub's that is over is a run of ours.
        Role::Bridge => vec![all_below(subject::GITHUB), all_below(subject::RUN_COMPLETED)],
        // Dead letters go back to where they came from, whoever sent them at first; the bytes are stored ones.
        // It looks how far those are that take what came from outside, and what waits for them is called: also when none runs.
        Role::Relay => {
            let outside = [INTAKE, GITHUB];
            let takers = Role::ALL.into_iter().filter_map(Role::durable);
            let looks = takers
                .filter(|one| outside.contains(&one.stream))
                .map(|one| format!("$JS.API.CONSUMER.INFO.{}.{}", one.stream, one.name));
            let others = [subject::RUN_COMPLETED, subject::GITHUB];
            let ours = subject::OURS.iter().copied().chain(others).map(all_below);
            ours.chain(looks).chain(outside.map(|stream| format!("$JS.API.DIRECT.GET.{stream}"))).collect()
        }
    };
    own.into_iter().chain(asks).chain(more).collect()
}

/// Besides answers.
fn heard_by(role: Role) -> Vec<String> {
    match role {
        Role::Counter => {
            role.durable().map(|one| advisories(one.stream, one.name).to_vec()).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// Where the broker says that it gave up on a message of a consumer.
pub fn advisories(stream: &str, consumer: &str) -> [String; 2] {
    ["MAX_DELIVERIES", "MSG_TERMINATED"]
        .map(|what| format!("$JS.EVENT.ADVISORY.CONSUMER.{what}.{stream}.{consumer}"))
}

/// Asking about its consumer, asking it for messages, answering for them, and looking up how old the oldest is.
fn of_durable(Durable { name, stream, .. }: Durable) -> Vec<String> {
    vec![
        format!("$JS.API.CONSUMER.INFO.{stream}.{name}"),
        format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}"),
        format!("$JS.ACK.{stream}.{name}.>"),
        format!("$JS.API.STREAM.MSG.GET.{stream}"),
    ]
}

fn of_setup() -> Vec<String> {
    let streams = [INTAKE, GITHUB, WORK, ANNOUNCEMENTS, BODIES].into_iter().flat_map(|stream| {
        ["INFO", "CREATE", "UPDATE"].map(|verb| format!("$JS.API.STREAM.{verb}.{stream}"))
    });
    let durables = Role::ALL.into_iter().filter_map(Role::durable).flat_map(|durable| {
        let Durable { name, stream, .. } = durable;
        ["INFO", "CREATE"].map(|verb| format!("$JS.API.CONSUMER.{verb}.{stream}.{name}"))
    });
    streams.chain(durables).collect()
}

fn of_tenant(prefix: &str, tenant: &Tenant) -> String {
    format!("{prefix}.{}.>", subject::encode(tenant.as_str()))
}

fn all_below(prefix: &str) -> String {
    subject::all_below(prefix)
}

/// The part of the server's configuration that lists accounts and users. Each password is a variable, [`password_key`],
/// which `passwords.conf` beside it defines; the server does not start as long as one is missing.
pub fn users_file(tenants: &[Tenant]) -> String {
    let exports: String = tenants.iter().map(exports).collect();
    let ours: String = User::ours().iter().map(entry).collect();
    let theirs: String = tenants.iter().map(account).collect();
    format!(
        "include \"passwords.conf\"\n\naccounts {{\n  RETRO {{\n    jetstream: enabled\n    exports: [\n{exports}    ]\n    \
         users: [\n{ours}    ]\n  }}\n{theirs}}}\n"
    )
}

/// What a tenant's account gets from ours: a place to publish to, where only the acknowledgement comes back, and what is
/// announced.
fn exports(tenant: &Tenant) -> String {
    let (account, [runs, changes]) = (account_name(tenant), of_tenant_all(tenant));
    format!(
        "      {{ service: \"{runs}\", accounts: [\"{account}\"] }}\n      {{ stream: \"{changes}\", accounts: \
         [\"{account}\"] }}\n"
    )
}

fn account(tenant: &Tenant) -> String {
    let (account, [runs, changes]) = (account_name(tenant), of_tenant_all(tenant));
    let users: String = User::of(tenant).iter().map(entry).collect();
    format!(
        "  \"{account}\" {{\n    imports: [\n      {{ service: {{ account: RETRO, subject: \"{runs}\" }} }}\n      {{ \
         stream: {{ account: RETRO, subject: \"{changes}\" }} }}\n    ]\n    users: [\n{users}    ]\n  }}\n"
    )
}

fn account_name(tenant: &Tenant) -> String {
    format!("TENANT-{}", subject::encode(tenant.as_str()))
}

fn of_tenant_all(tenant: &Tenant) -> [String; 2] {
    [subject::RUN_COMPLETED, subject::MEMORY_CHANGED].map(|prefix| of_tenant(prefix, tenant))
}

/// The name of a user's password in the file of secrets. `=` cannot stand in a name there and `.` not in a user's.
pub fn password_key(user: &User) -> String {
    format!("password-{}", user.to_string().replace('=', "."))
}

fn entry(user: &User) -> String {
    let Rights { publish, subscribe } = user.rights();
    format!(
        "      {{\n        user: \"{user}\"\n        password: ${key}\n        permissions: {{\n          publish: {publish}\n\
         \x20         subscribe: {subscribe}\n        }}\n      }}\n",
        key = password_key(user),
        publish = permission(&publish),
        subscribe = permission(&subscribe),
    )
}

/// An empty list of what is allowed would allow everything.
fn permission(subjects: &[String]) -> String {
    if subjects.is_empty() {
        return "{ deny: \">\" }".to_owned();
    }
    let lines: String = subjects.iter().map(|subject| format!("            \"{subject}\"\n")).collect();
    format!("[\n{lines}          ]")
}
