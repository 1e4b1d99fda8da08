use super::*;
use crate::closed_loop::{find_world_folders, load_worlds};

/// A small workflow for tests.
pub(crate) const SMALL: &str = r#"
[values]
service = ["checkout", "search"]

[[step]]
name = "deploy"
task = "Deploy {service}."
routine = [{ tool = "status", arguments = { service = "{service}" }, answers = ["{service} is up"] }]

[[cause]]
id = "region"
step = "deploy"
tool = "deploy_service"
chance = 0.5
until = 60
arguments = { service = "{service}" }
errors = ["Error: missing required argument 'region'"]
right = { service = "{service}", region = "eu" }
answer = "deployed {service}"
after = "harmful"
harm = "Error: unknown argument region"
memory = { error = ["missing required"], remedy = ["pass `region`"] }

[[trap]]
id = "force"
step = "deploy"
tool = "deploy_service"
chance = 0.8
periods = [[1, 20]]
arguments = { service = "{service}", wait = true }
errors = ["Error: no quorum"]
superstition = { service = "{service}", wait = true, force = true }
answer = "rolled out {service}"
harm = "Error: force needs an approval"
memory = { remedy = ["pass `force`"] }

[[trap]]
id = "cache"
step = "deploy"
tool = "restart"
chance = 0.8
periods = [[1, 20]]
superstition = { cache = "none" }
remark = "Always clear the cache before you deploy."
answer = "restarted"
harm = "Error: cold cache"
memory = { remedy = ["clear the cache"] }

[[noise]]
id = "gateway"
step = "deploy"
tool = "notify"
chance = 0.3
arguments = { text = "done" }
errors = ["502 Bad Gateway"]
answer = "sent"
changes = 0.5
changed = [{ text = "done", verbose = true }]
"#;

pub(crate) fn small() -> Workflow {
    read(SMALL).unwrap()
}

pub(crate) fn read(text: &str) -> Result<Workflow> {
    parse_workflow(Path::new("w.toml"), text)
}

fn wrong(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn a_world_is_a_folder_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop");
    std::fs::create_dir(&path).unwrap();
    assert!(World::read_folder(&path).unwrap_err().to_string().contains("world.toml: missing"));
    std::fs::write(path.join("world.toml"), "about = \"a shop\"\n[agents]\nfollow = 0.5\n").unwrap();
    assert!(World::read_folder(&path).unwrap_err().to_string().contains("a file for each workflow"));
    std::fs::write(path.join("release.toml"), SMALL).unwrap();
    let world = World::read_folder(&path).unwrap();
    assert_eq!((world.name.as_str(), world.workflows[0].name.as_str()), ("shop", "release"));
    assert_eq!((world.agents.follow, world.agents.read), (0.5, 0.3));
    std::fs::write(path.join("world.toml"), "about = \"a shop\"\n[agents]\nfollow = 5\n").unwrap();
    assert!(World::read_folder(&path).unwrap_err().to_string().contains("follow = 5 is not a probability"));
}

#[test]
fn invalid_files_are_rejected_with_their_line() {
    let line = |needle: &str| SMALL.lines().position(|line| line.contains(needle)).unwrap() + 1;
    for (from, to, at, says) in [
        ("chance = 0.5", "chance = 1.5", "[[cause]]", "not a probability"),
        ("chance = 0.5", "chnce = 0.5", "chance = 0.5", "unknown field `chnce`"),
        ("answer = \"sent\"", "answer = 7", "answer = \"sent\"", "invalid type"),
        (
            "step = \"deploy\"\ntool = \"notify\"",
            "step = \"x\"\ntool = \"notify\"",
            "[[noise]]",
            "no step `x`",
        ),
        ("id = \"force\"", "id = \"region\"", "[[trap]]", "already used"),
        ("[\"502 Bad Gateway\"]", "[]", "[[noise]]", "`errors` is empty"),
        ("harm = \"Error: unknown argument region\"", "", "[[cause]]", "needs `harm`"),
        ("until = 60", "until = 60\nfrom = 70", "[[cause]]", "not be before"),
        ("\"deployed {service}\"", "\"deployed {order}\"", "[[cause]]", "{order} is not in [values]"),
        ("[[1, 20]]\narguments", "[]\narguments", "[[trap]]", "`periods`"),
        ("errors = [\"Error: no quorum\"]", "", "[[trap]]", "`remark`"),
        ("remedy = [\"pass `force`\"]", "remedy = [\" \"]", "[[trap]]", "would match"),
        ("changed = [{ text = \"done\", verbose = true }]", "", "[[noise]]", "needs `changed`"),
        ("[values]", "exit_line = \"exit\"\n[values]", "", "needs `{exit}`"),
        ("right = { service = \"{service}\", region = \"eu\" }", "", "[[cause]]", "is the failing call"),
        ("answer = \"deployed {service}\"", "answer = \"\"\nwait = 0", "[[cause]]", "`wait` is"),
        ("answer = \"deployed {service}\"", "answer = \"\"\nbad_end = 0.5", "[[cause]]", "needs `silent`"),
        (
            "answer = \"deployed {service}\"",
            "answer = \"\"\nsilent = true\ntries = [2]",
            "[[cause]]",
            "needs no `tries`",
        ),
    ] {
        assert!(SMALL.contains(from), "{from}");
        let said = wrong(&SMALL.replace(from, to));
        assert!(said.starts_with(&format!("w.toml:{}: ", line(at))) && said.contains(says), "{to}: {said}");
    }
}

/// A cause with calls before its remedy, and a remedy that is replaced.
pub(crate) const CHANGED: &str = r#"
[values]
lib = [{ module = "cv2", package = "opencv-python" }, { module = "yaml", package = "PyYAML" }]

[[step]]
name = "test"
task = "Run the tests."

[[cause]]
id = "module"
step = "test"
tool = "bash"
chance = 0.5
arguments.argv = ["pytest", "-q"]
errors = ["ModuleNotFoundError: No module named '{lib.module}'"]
first = { tool = "bash", arguments = { argv = ["pip", "install", "{lib.package}"] }, answer = "installed" }
answer = "12 passed"
memory = { error = ["No module"], remedy = ["pip install"] }

[[cause.change]]
from = 101
harm = "error: externally-managed-environment"
first = { tool = "bash", arguments = { argv = ["uv", "add", "{lib.package}"] }, answer = "added" }
memory = { error = ["No module"], remedy = ["uv add"] }
"#;

#[test]
fn calls_before_a_remedy_and_a_replaced_remedy_are_read() {
    let workflow = read(CHANGED).unwrap();
    let cause = workflow.causes[0].get_ref();
    assert_eq!((cause.remedy_at(100), cause.remedy_at(101)), (0, 1));
    assert_eq!((cause.replaced_harm(100), cause.replaced_harm(101).is_some()), (None, true));
    let one = "first = { tool = \"bash\", arguments = { argv = [\"pip\", \"install\", \"{lib.package}\"] }, answer = \"installed\" }";
    let two = one.replace("first = ", "first = [{ tool = \"ls\", answer = \"x\" }, ") + "]";
    assert_eq!(read(&CHANGED.replace(one, &two)).unwrap().causes[0].get_ref().first.len(), 2);
    for (from, to, line, says) in [
        ("answer = \"installed\" }", "answr = \"installed\" }", one, "unknown field `answr`"),
        ("from = 101", "form = 101", "from = 101", "unknown field `form`"),
        ("from = 101", "from = 1", "[[cause]]", "must be after the one before it"),
        ("{lib.package}\"] }, answer = \"added\"", "{lib}\"] }, answer = \"\"", "[[cause]]", "does not fit"),
    ] {
        let said = wrong(&CHANGED.replace(from, to));
        let at = CHANGED.lines().position(|text| text.contains(line)).unwrap() + 1;
        assert!(said.starts_with(&format!("w.toml:{at}: ")) && said.contains(says), "{to}: {said}");
    }
}

#[test]
fn the_worlds_that_ship_can_be_read() {
    let folders = find_world_folders(&Path::new(env!("CARGO_MANIFEST_DIR")).join("worlds")).unwrap();
    assert_eq!(load_worlds(&folders).unwrap().len(), 7);
}

#[test]
fn the_documented_format_is_a_world() {
    let document = include_str!("../../../worlds/README.md");
    let mut blocks = document.split("```toml\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0));
    let WorldFile { agents, .. } = parse_toml(Path::new("world.toml"), blocks.next().unwrap()).unwrap();
    assert_eq!(agents, AgentHabits::default(), "the documented defaults");
    let workflow = read(&blocks.collect::<String>()).unwrap();
    let cause = workflow.causes[0].get_ref();
    assert_eq!((cause.from, cause.exit, cause.costs, cause.changes.len()), (1, 1, 0.1, 1));
    assert!(!workflow.traps.is_empty() && !workflow.noises.is_empty() && !workflow.facts.is_empty());
}
