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

fn read(text: &str) -> Result<Workflow> {
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
    ] {
        assert!(SMALL.contains(from), "{from}");
        let said = wrong(&SMALL.replace(from, to));
        assert!(said.starts_with(&format!("w.toml:{}: ", line(at))) && said.contains(says), "{to}: {said}");
    }
}

#[test]
fn the_worlds_that_ship_can_be_read() {
    let folders = find_world_folders(&Path::new(env!("CARGO_MANIFEST_DIR")).join("worlds")).unwrap();
    assert_eq!(load_worlds(&folders).unwrap().len(), 7);
}
