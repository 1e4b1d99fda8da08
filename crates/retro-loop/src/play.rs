//! One workflow of one seed, window by window: each waits for its retrospective, so that the next runs have its memories.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use crate::agent::{Handed, Played, Run};
use crate::instance::{Instance, Which, text};
use crate::trace::{self, Facts};
use crate::truth::{About, Says, Standing, says, standing};
use crate::world::{Workflow, World};

/// Runs of one window: what the default policy opens a retrospective at.
pub(crate) const WINDOW: u32 = 10;
/// The most runs that a person has looked into; the interface takes 20.
const LOOKED_INTO_MAX: usize = 10;

/// A memory after a retrospective.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Kept {
    pub(crate) id: String,
    pub(crate) line: String,
    pub(crate) says: Says,
    pub(crate) standing: Standing,
    pub(crate) active: bool,
    pub(crate) tentative: bool,
    /// Thousandths.
    pub(crate) weight: u32,
}

/// What a window and its retrospective left.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    /// Runs over so far.
    pub(crate) runs_over: u32,
    /// Of this window's runs.
    pub(crate) failed: u32,
    /// Of the same runs without memory.
    pub(crate) failed_without: u32,
    /// Of this window's runs, those that a memory harmed.
    pub(crate) harmed: u32,
    /// Causes met in this window, and those that a run failed by: by cause.
    pub(crate) met: BTreeMap<usize, (u32, u32)>,
    /// The same without memory.
    pub(crate) met_without: BTreeMap<usize, (u32, u32)>,
    /// Tokens handed to this window's runs.
    pub(crate) tokens: u64,
    /// Memories that some run of this window was handed.
    pub(crate) handed: Vec<String>,
    /// Lessons that a tombstone kept away.
    pub(crate) suppressed: u32,
    /// Every memory of the workflow after its retrospective.
    pub(crate) memories: Vec<Kept>,
}

/// A workflow's whole story under one seed.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) seed: u64,
    /// Its place in the world.
    pub(crate) workflow: usize,
    pub(crate) looks: Vec<Look>,
}

/// What is played.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) world: &'a World,
    pub(crate) workflow: usize,
    pub(crate) seed: u64,
    pub(crate) runs: u32,
    /// Pause between two looks at a retrospective.
    pub(crate) look_every: Duration,
}

impl Part<'_> {
    fn workflow(&self) -> &Workflow {
        &self.world.workflows[self.workflow]
    }

    fn tenant(&self) -> String {
        format!("{}-{}", self.world.name, self.seed)
    }

    fn run(&self, number: u32) -> Run<'_> {
        let (world, agents) = (self.world.name.as_str(), &self.world.agents);
        Run { world, agents, workflow: self.workflow(), seed: self.seed, number }
    }

    /// Plays it to its end.
    pub(crate) async fn play(self, retro: &Instance) -> Result<Story> {
        let mut looks = Vec::new();
        let mut shown: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for epoch in 1..=self.runs / WINDOW {
            let mut look = self.window(retro, epoch, &mut shown).await?;
            self.persons(retro, epoch, &mut look, &mut shown).await?;
            looks.push(look);
        }
        Ok(Story { seed: self.seed, workflow: self.workflow, looks })
    }

    async fn window(
        &self,
        retro: &Instance,
        epoch: u32,
        shown: &mut BTreeMap<usize, Vec<String>>,
    ) -> Result<Look> {
        let (tenant, name) = (self.tenant(), &self.workflow().name);
        let last = epoch * WINDOW;
        let mut look = Look::empty(last);
        let mut events = Vec::new();
        for number in last - WINDOW + 1..=last {
            let id = format!("{name}-{number:04}");
            let handed = self.handed(retro, &tenant, &id).await?;
            let played = self.run(number).play(&handed);
            for trap in &played.shown {
                shown.entry(*trap).or_default().push(id.clone());
            }
            look.count(&handed, &played, &self.run(number).play(&BTreeMap::new()));
            events.push(event(name, &id, &handed, &played));
        }
        retro.events(&tenant, &events).await?;
        let ended = retro.closed(&tenant, name, &Which::Epoch(epoch), self.look_every).await?;
        let report = retro.report(&tenant, &ended.id).await?;
        let changes = report["changes"].as_array().map_or(&[][..], Vec::as_slice);
        let suppressed = changes.iter().filter(|change| change["effect"]["change"] == "suppressed").count();
        look.suppressed = u32::try_from(suppressed)?;
        look.memories = self.kept(retro, last).await?;
        Ok(look)
    }

    async fn handed(&self, retro: &Instance, tenant: &str, run: &str) -> Result<BTreeMap<String, Handed>> {
        let mut handed = BTreeMap::new();
        for step in &self.workflow().steps {
            let step = &step.get_ref().name;
            let answer = retro.context(tenant, &self.workflow().name, step, run).await?;
            let rows = answer["memories"].as_array().into_iter().flatten();
            let memories = rows.map(|row| (text(&row["id"]), text(&row["title"]))).collect();
            let tokens = if answer["text"] == "" { 0 } else { answer["tokens"].as_u64().unwrap_or_default() };
            handed.insert(step.clone(), Handed { text: text(&answer["text"]), tokens, memories });
        }
        Ok(handed)
    }

    async fn kept(&self, retro: &Instance, runs_over: u32) -> Result<Vec<Kept>> {
        let rows = retro.memories(&self.tenant(), &self.workflow().name).await?;
        let kept = |row: &Value| {
            let (step, line) = (text(&row["scope"]["step"]), text(&row["lesson"]["title"]));
            let says = says(self.workflow(), &step, &line);
            Kept {
                id: text(&row["id"]),
                says,
                standing: standing(self.workflow(), says, runs_over),
                active: row["status"] == "active",
                tentative: row["status"] == "tentative",
                weight: row["weight"]
                    .as_u64()
                    .and_then(|weight| u32::try_from(weight).ok())
                    .unwrap_or_default(),
                line,
            }
        };
        Ok(rows.iter().map(kept).collect())
    }

    /// What people do after a window: they have the runs looked into that showed a trap, and take the proposal.
    async fn persons(
        &self,
        retro: &Instance,
        epoch: u32,
        look: &mut Look,
        shown: &mut BTreeMap<usize, Vec<String>>,
    ) -> Result<()> {
        let (tenant, name) = (self.tenant(), &self.workflow().name);
        let mut accepted = false;
        for (at, trap) in self.workflow().traps.iter().enumerate() {
            let trap = trap.get_ref();
            let due = trap.accepted_at.is_some_and(|run| run.div_ceil(WINDOW) == epoch);
            let runs = shown.get(&at).map_or(&[][..], Vec::as_slice);
            if !due || runs.is_empty() {
                continue;
            }
            let runs = &runs[runs.len().saturating_sub(LOOKED_INTO_MAX)..];
            let id = retro.look_into(&tenant, name, runs).await?;
            retro.closed(&tenant, name, &Which::Id(id.clone()), self.look_every).await?;
            for row in retro.proposals(&tenant, &id).await? {
                let (proposal, lesson) = (&row["proposal"], &row["proposal"]["lesson"]);
                let line = text(&lesson["title"]);
                if says(self.workflow(), &trap.step, &line) == Says::Whole(About::Trap(at)) {
                    retro.accept(&tenant, &text(&proposal["id"])).await?;
                    accepted = true;
                }
            }
        }
        if accepted {
            look.memories = self.kept(retro, look.runs_over).await?;
        }
        Ok(())
    }
}

impl Look {
    fn empty(runs_over: u32) -> Self {
        Self {
            runs_over,
            failed: 0,
            failed_without: 0,
            harmed: 0,
            met: BTreeMap::new(),
            met_without: BTreeMap::new(),
            tokens: 0,
            handed: Vec::new(),
            suppressed: 0,
            memories: Vec::new(),
        }
    }

    fn count(&mut self, handed: &BTreeMap<String, Handed>, with: &Played, without: &Played) {
        self.failed += u32::from(with.failed);
        self.failed_without += u32::from(without.failed);
        self.harmed += u32::from(!with.harmed_by.is_empty());
        for (tally, played) in [(&mut self.met, with), (&mut self.met_without, without)] {
            for cause in &played.met {
                let counts = tally.entry(*cause).or_default();
                counts.0 += 1;
                counts.1 += u32::from(played.failed_by.contains(cause));
            }
        }
        for handed in handed.values() {
            self.tokens += handed.tokens;
            for (id, _) in &handed.memories {
                if !self.handed.contains(id) {
                    self.handed.push(id.clone());
                }
            }
        }
    }
}

fn event(workflow: &str, run: &str, handed: &BTreeMap<String, Handed>, played: &Played) -> Value {
    let presented = handed.values().flat_map(|handed| &handed.memories).map(|(id, _)| id.as_str()).collect();
    let read = played.read.iter().map(String::as_str).collect();
    let facts = Facts { workflow, run, failed: played.failed, presented, read, remarks: &played.remarks };
    trace::event(&facts, &played.trace)
}
