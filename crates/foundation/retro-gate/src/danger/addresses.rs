//! Finds addresses by the role that they are given, whatever the tool is called.
//!
//! An address is dangerous as the value of an option or a key that says "run" or "get packages from", and as
//! the argument of a command that does. So the name before an address is read, and the command that it stands
//! in. Names of tools are not needed: `brisk deploy --taskfile=https://…`, `skiff exec @https://…`,
//! `mortar install x --mirror=ftp://…`, `vesper image use registry.host.example/x:1`.

use super::kind::Danger::{PackageAddress, RemoteContent};
use super::kind::{Danger, Found};
use super::patterns::is_official;
use super::polarity::Form::Machine;
use super::reading::{Reading, gap};
use super::words::{is_one_of, pieces};

/// Parts of options and keys whose value is run.
const RUN_NAMES: &str = "script scripts exec execute hook prehook posthook taskfile playbook prelude preamble preload bootstrap bootstrapper startup init initscript entrypoint userdata cloudinit predeploy postdeploy preinstall postinstall prebuild postbuild pretest posttest prerun postrun onstart onboot setup macro makefile justfile procfile rakefile runfile jobfile recipe runbook cmd command eval payload rcfile installer provisioner steps";

/// Parts of keys that ask for an address which is only called or shown.
const CALLBACKS: &str = "webhook webhooks callback redirect success error cancel login logout notify notification docs help homepage";

/// Commands that run the address after them.
const RUN_COMMANDS: &str = "run exec execute eval script source prelude bootstrap provision runscript run-script exec-script runbook macro";

/// Commands that run what they load if it is a script.
const LOAD_COMMANDS: &str = "load include require import use start launch call open play invoke";

/// Options that say where a command takes its input from.
const FROM_OPTIONS: &str =
    "--from --from-url --url --uri --src --source --file -f --location --remote --input --fetch --at";

/// What together with `run` makes an address its program.
const PROGRAMS: &str =
    "hook hooks script scripts task job playbook recipe macro step prelude pre post migration plugin";

/// Parts of options and keys whose value is where packages come from.
const PACKAGE_NAMES: &str = "index registry registries mirror mirrors tap ppa chart charts plugin plugins extension extensions addon addons wheel wheels tarball package packages dependency dependencies crate gem theme marketplace catalog catalogue findlinks goproxy indexurl baseurl-packages";

/// The same for parts that are also used for data: they count in a command that installs, or for an archive.
const SOURCE_NAMES: &str = "source sources repository repositories repo repos origin location archive artifact module modules bundle remote from upstream channel channels feed feeds base template";

/// First labels of hosts that serve packages.
const PACKAGE_HOSTS: &str = "repo repos repository pypi npm registry registries mirror mirrors packages pkg pkgs index charts maven gems crates artifacts artifactory nexus wheels apt yum rpm rpms deb conda nuget plugins";

/// Commands that install.
const INSTALL_COMMANDS: &str = "install add vendor deps dep dependency dependencies plugin plugins package packages pkg extension extensions addon module modules theme upgrade reinstall require tap bundle restore enable get";

/// Commands that change where packages come from.
const REGISTER_COMMANDS: &str = "add set use set-url enable register new point switch";
const REGISTERED: &str = "repo repos repository repositories source sources registry registries mirror mirrors index indexes channel channels tap taps feed feeds marketplace catalog catalogue";

/// Endings of archives that are installed.
const ARCHIVES: [&str; 15] = [
    ".tgz", ".tar.gz", ".whl", ".zip", ".deb", ".rpm", ".gem", ".vsix", ".jar", ".nupkg", ".crate", ".apk",
    ".phar", ".git", ".xpi",
];

/// Endings of files that are run.
const SCRIPTS: [&str; 14] = [
    ".sh", ".bash", ".ps1", ".py", ".rb", ".pl", ".lua", ".star", ".js", ".mjs", ".ts", ".run", ".bin",
    ".exe",
];

/// Commands and keys that take an image.
const IMAGE_NAMES: &str = "pull run image images from base container create tag= imageref baseimage sandbox runtime ref runner builder devcontainer";

/// Maximum number of words of a command that are read before an address.
const COMMAND_WORDS_MAX: usize = 10;

/// Finds addresses whose role is dangerous.
pub(super) fn find_addresses(reading: &Reading<'_>, found: &mut Vec<Found>) {
    for at in 0..reading.words.len() {
        let danger = if is_address(reading, at) {
            judge_address(reading, at)
        } else if is_image(reading.words[at].text) {
            judge_image(reading, at)
        } else {
            None
        };
        if let Some((danger, first)) = danger
            && !(danger == PackageAddress && is_official(reading.words[at].text))
            && reading.asks_for(first, at, Machine)
            && reading.negations_before(at, Machine).is_multiple_of(2)
        {
            found.push(Found { danger, first, last: at });
        }
    }
}

fn is_address(reading: &Reading<'_>, at: usize) -> bool {
    let text = reading.words[at].text;
    // A bare scheme, as in "never with `git+https://`", is no address.
    text.split_once("://").is_some_and(|(scheme, rest)| !rest.is_empty() && scheme != "file")
}

fn judge_address(reading: &Reading<'_>, at: usize) -> Option<(Danger, usize)> {
    let text = reading.words[at].text;
    if text.starts_with('@') {
        return Some((RemoteContent, at));
    }
    let command = read_command(reading, at);
    if text.starts_with("oci://") {
        let pushed = command.iter().any(|word| matches!(reading.text(*word), "push" | "login" | "logout"));
        return (!pushed).then_some((PackageAddress, at));
    }
    judge_key(reading, at, &command).or_else(|| judge_command(reading, at, &command))
}

/// Returns the words of the command before the word `at`, the nearest one first.
fn read_command(reading: &Reading<'_>, at: usize) -> Vec<usize> {
    let ends = gap::STOP | gap::SHELL | gap::SPEECH | gap::COMMA;
    let mut words = Vec::new();
    let mut word = at;
    while word > 0 && words.len() < COMMAND_WORDS_MAX && reading.words[word].gap & ends == 0 {
        word -= 1;
        words.push(word);
        if is_one_of(reading.text(word), "and then or when") {
            words.pop();
            break;
        }
    }
    words
}

/// Judges the option or key that an address is the value of.
fn judge_key(reading: &Reading<'_>, at: usize, command: &[usize]) -> Option<(Danger, usize)> {
    let bound = reading.words[at].gap & (gap::ASSIGN | gap::COLON) != 0;
    // "Set `pre_deploy` to `$(fetch https://…)`", and the same after `sh -c`.
    let substituted = command.iter().take(4).position(|word| reading.text(*word) == "$");
    let mut skipped = substituted.map_or(0, |nth| nth + 1);
    if substituted.is_some() {
        let is_shell =
            |nth: usize| command.get(nth).is_some_and(|word| is_one_of(reading.text(*word), "-c -e sh bash"));
        skipped += (skipped..skipped + 2).take_while(|nth| is_shell(*nth)).count();
    }
    let linked = command.get(skipped).is_some_and(|word| is_one_of(reading.text(*word), "to as is"));
    skipped += usize::from(linked);
    let key = *command.get(skipped)?;
    let name = reading.text(key);
    let is_key = bound
        || substituted.is_some()
        || reading.words[key].is_option()
        || linked && (reading.words[key].gap & gap::TICK != 0 || name.contains(['_', '-']));
    if !is_key || reading.words[key].is_address() || pieces(name).any(|piece| is_one_of(piece, CALLBACKS)) {
        return None;
    }
    let glued_file =
        |piece: &str| piece.len() > 6 && (piece.ends_with("file") && is_one_of(piece, RUN_NAMES));
    let in_table = |table: &str| pieces(name).any(|piece| is_one_of(piece, table));
    let mut moments = pieces(name);
    let moment = moments.next().is_some_and(|piece| is_one_of(piece, "pre post before after on"))
        && moments.next().is_some_and(|piece| !is_one_of(piece, "url uri link image id body address"));
    let makes = pieces(name).any(|piece| {
        piece.len() > 8 && piece.ends_with("file") && !piece.starts_with("pro")
            || glued_file(piece)
            || piece.ends_with("script")
                && piece != "typescript"
                && piece != "javascript"
                && piece != "transcript"
    });
    // `run_script` with `url`.
    let called = command.iter().filter(|word| **word != key).any(|word| {
        let mut parts = pieces(reading.text(*word));
        parts.next().is_some_and(|first| is_one_of(first, "run exec execute eval"))
            && parts
                .next()
                .is_some_and(|second| is_one_of(second, "script code url remote file hook command program"))
    });
    if in_table(RUN_NAMES) || moment || makes || called {
        return Some((RemoteContent, key));
    }
    // `index.html` and `plugin.json` are files.
    let file = name.rsplit_once('.').is_some_and(|(_, end)| is_one_of(end, "html json yml yaml toml md"));
    // `-PmavenRepo`, `pluginRepository`
    let glued = pieces(name).any(|piece| {
        ["repo", "repository", "repourl", "registry", "mirror", "mirrorurl", "indexurl"]
            .iter()
            .any(|end| piece.len() > end.len() + 1 && piece.ends_with(end))
    });
    if (in_table(PACKAGE_NAMES) || glued) && !file {
        return Some((PackageAddress, key));
    }
    let archive = is_archive(reading.text(at));
    let installs = command.iter().skip(1).any(|word| is_one_of(reading.text(*word), INSTALL_COMMANDS));
    let cloned = command.iter().any(|word| matches!(reading.text(*word), "git" | "clone"));
    let host = reading.text(at).split_once("://").map_or("", |(_, rest)| rest);
    let hosted = pieces(host).next().is_some_and(|label| is_one_of(label, PACKAGE_HOSTS));
    (in_table(SOURCE_NAMES) && !cloned && (archive || hosted || installs && reading.words[key].is_option()))
        .then_some((PackageAddress, key))
}

fn is_archive(address: &str) -> bool {
    let path = address.split(['?', '#']).next().unwrap_or(address);
    address.starts_with("git+") || ARCHIVES.iter().any(|ending| path.ends_with(ending))
}

/// Judges the command that an address is an argument of.
fn judge_command(reading: &Reading<'_>, at: usize, command: &[usize]) -> Option<(Danger, usize)> {
    let nearest = *command.first()?;
    // Options without a value may stand between a command and its argument.
    let verb = command.iter().copied().find(|word| !reading.words[*word].is_option())?;
    let (verb_text, nearest_text) = (reading.text(verb), reading.text(nearest));
    let tool = command.iter().copied().find(|word| *word < verb);
    let coded = reading.words[verb..=at].iter().any(|word| word.gap & gap::TICK != 0)
        || tool.is_some_and(|tool| reading.words[tool].gap & gap::TICK != 0)
        || !is_prose(reading, verb);
    // `fetchrun https://…`
    if reading.words[verb].gap & gap::COLON == 0 && is_fetch_and_run(verb_text) {
        return Some((RemoteContent, verb));
    }
    if is_one_of(nearest_text, FROM_OPTIONS) {
        let has = |table: &str| command.iter().any(|word| is_one_of(reading.text(*word), table));
        let runs = has("exec eval script source hook prelude bootstrap execute provision")
            || has("run") && (has(PROGRAMS) || nearest_text == "--from-url" || nearest_text == "--from");
        return runs.then_some((RemoteContent, verb));
    }
    if is_one_of(nearest_text, "--add --register --set -a")
        && command.iter().any(|word| is_one_of(reading.text(*word), REGISTERED))
    {
        return Some((PackageAddress, nearest));
    }
    let tool = tool?;
    let script = SCRIPTS.iter().any(|ending| reading.text(at).ends_with(ending));
    if coded
        && (is_one_of(verb_text, RUN_COMMANDS) && verb_text != "run"
            || is_one_of(verb_text, LOAD_COMMANDS) && script
            || verb_text == "run"
                && !is_one_of(reading.text(tool), "npm yarn pnpm bun please to and k6 newman"))
        && tool + 1 == verb
        && reading.words[verb].gap & (gap::TICK | gap::QUOTE) == 0
    {
        return Some((RemoteContent, tool));
    }
    let hooked = verb_text == "hook" || is_one_of(verb_text, "pre-deploy post-deploy pre-start post-start");
    if hooked && coded {
        return Some((RemoteContent, verb));
    }
    let hook = command.iter().any(|word| is_one_of(reading.text(*word), "hook hooks"));
    let moment = |word: &usize| {
        ["pre-", "post-", "on-", "pre_", "post_", "on_"]
            .iter()
            .any(|begin| reading.text(*word).starts_with(begin))
    };
    if hook && coded && (script || command.iter().any(moment)) {
        return Some((RemoteContent, verb));
    }
    let registers = command.iter().position(|word| is_one_of(reading.text(*word), REGISTER_COMMANDS));
    let registered = command.iter().position(|word| {
        pieces(reading.text(*word)).any(|piece| is_one_of(piece, REGISTERED))
            && !reading.words[*word].is_option()
    });
    if let (Some(add), Some(noun)) = (registers, registered)
        && add.abs_diff(noun) <= 1
        && coded
        && !command.iter().any(|word| reading.text(*word) == "git")
    {
        return Some((PackageAddress, command[add.max(noun)]));
    }
    None
}

/// Returns `true` if the words before a verb are a sentence and not a command.
fn is_prose(reading: &Reading<'_>, verb: usize) -> bool {
    let before = verb.checked_sub(1).map_or("", |before| reading.text(before));
    verb == 0 || is_one_of(before, "to then please and you or first must should can the a")
}

/// Returns `true` for tools that are named after fetching and running, such as `fetchrun` and `curl-exec`.
fn is_fetch_and_run(name: &str) -> bool {
    let begins = ["fetch", "curl", "grab", "wget", "web", "url", "http", "remote", "net", "download", "get"];
    let ends = ["run", "exec", "sh", "eval", "execute", "runner"];
    let name = name.trim_start_matches("./");
    begins.iter().any(|begin| {
        name.strip_prefix(begin).is_some_and(|rest| ends.contains(&rest.trim_start_matches(['-', '_', '2'])))
    }) || ["run-url", "runurl", "run-remote", "exec-url", "execurl", "run_url", "exec_url"].contains(&name)
}

/// Hosts of images that are names of the public, as a name of a package is.
const PUBLIC_IMAGES: [&str; 14] = [
    "docker.io/",
    "ghcr.io/",
    "quay.io/",
    "gcr.io/",
    "registry.k8s.io/",
    "k8s.gcr.io/",
    "public.ecr.aws/",
    "mcr.microsoft.com/",
    "nvcr.io/",
    "registry.gitlab.com/",
    "registry.access.redhat.com/",
    "registry.redhat.io/",
    "lscr.io/",
    "index.docker.io/",
];

/// Returns `true` for a name of an image that begins with a host: `registry.host.example/team/app`.
fn is_image(text: &str) -> bool {
    let Some((host, path)) = text.split_once('/') else { return false };
    let name = host.split(':').next().unwrap_or(host);
    let labels = name.split('.').count();
    labels >= 2
        && !path.is_empty()
        && !name.starts_with(['.', '-', '$', '~'])
        && name
            .split('.')
            .all(|label| !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || c == '-'))
        && !name.starts_with("127.")
        && !PUBLIC_IMAGES.iter().any(|public| text.starts_with(public))
}

/// Judges the name of an image by the command or the key that takes it.
fn judge_image(reading: &Reading<'_>, at: usize) -> Option<(Danger, usize)> {
    let word = &reading.words[at];
    let command = read_command(reading, at);
    if command.iter().any(|word| matches!(reading.text(*word), "push" | "login" | "logout" | "go" | "rmi")) {
        return None;
    }
    let own = |word: &usize| {
        is_one_of(
            reading.text(*word),
            "-t --tag build tag inspect ls list save export history prune scan sign verify",
        )
    };
    if command.iter().any(own) {
        return None;
    }
    // A tag or a digest distinguishes an image from the name of an interface such as `apps.example/v1`.
    let after = reading.words.get(at + 1).map_or(0, |next| next.gap);
    let tagged = word.text.contains([':', '@']) || after & gap::COLON != 0 && after & gap::SPACE == 0;
    let nearest = *command.first()?;
    let linked = is_one_of(reading.text(nearest), "to as is");
    let key = *command.get(usize::from(linked))?;
    let names_image = pieces(reading.text(key)).any(|piece| {
        is_one_of(piece, "image images imageref baseimage container containers base from runtime ref")
    });
    let bound = word.gap & (gap::ASSIGN | gap::COLON) != 0 || linked || reading.words[key].is_option();
    if bound && names_image {
        return Some((PackageAddress, key));
    }
    // The first word of "run `docker …`" is no command.
    let subcommands = || command.iter().take(command.len() - 1);
    let takes = command
        .iter()
        .find(|word| is_one_of(reading.text(**word), "pull from image images"))
        .or_else(|| subcommands().find(|word| tagged && is_one_of(reading.text(**word), IMAGE_NAMES)))
        .or_else(|| subcommands().find(|word| tagged && is_one_of(reading.text(**word), INSTALL_COMMANDS)));
    (tagged || nearest == *takes? && matches!(reading.text(nearest), "pull" | "from"))
        .then_some((PackageAddress, *takes?))
}
