//! Adds to memories how many runs met them.

use retro_core::id::{MemoryId, Tenant};
use retro_core::memory::Memory;
use retro_store::{MemoryUsage, OperatorStore, Result};
use serde::Serialize;
use utoipa::ToSchema;

use crate::text;

/// A memory or rule in a list, with the number of runs that met it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct MemoryRow {
    /// The memory.
    #[serde(flatten)]
    pub memory: Memory,
    /// Number of runs that it was presented to, read in and applied in.
    pub usage: MemoryUsage,
}

/// Adds to each memory of the tenant the number of runs that met it, in the same order.
pub async fn load_memory_rows(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    memories: Vec<Memory>,
) -> Result<Vec<MemoryRow>> {
    let ids: Vec<MemoryId> = memories.iter().map(|memory| memory.id).collect();
    let usage = store.count_memory_usage(tenant, &ids).await?;
    Ok(memories.into_iter().zip(usage).map(|(memory, usage)| MemoryRow { memory, usage }).collect())
}

/// Counts the runs that met one memory of the tenant.
pub(crate) async fn load_usage(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    id: MemoryId,
) -> Result<MemoryUsage> {
    Ok(store.count_memory_usage(tenant, &[id]).await?.first().copied().unwrap_or_default())
}

/// Describes the use of a memory in one line.
pub(crate) fn describe_usage(usage: MemoryUsage) -> String {
    let MemoryUsage { presented, read, applied } = usage;
    format!("presented to {}, read in {read}, applied in {applied}", text::format_count(presented, "run"))
}

/// Header of [`usage_cell`] in tables.
pub(crate) const USAGE_HEAD: &str = "presented/read/applied";

/// Formats the use of a memory for a cell of a table.
pub(crate) fn usage_cell(usage: MemoryUsage) -> String {
    format!("{}/{}/{}", usage.presented, usage.read, usage.applied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::tests::{ask_of, two_tenants};

    #[tokio::test]
    async fn lists_and_history_say_how_many_runs_met_a_memory() {
        let world = || {
            let mut world = two_tenants();
            let id = world.memory_about("syntax");
            for row in world.runs.iter_mut().filter(|row| row.key.tenant.as_str() == "default").take(3) {
                row.facts.memories.presented = vec![id];
            }
            world.runs[0].facts.memories.read = vec![id];
            (world, id)
        };
        let (listed, id) = world();
        let list = ask_of(listed, "default", "/v1/memories", "*/*").await.json();
        let row = list["items"].as_array().unwrap().iter().find(|row| row["id"] == id.to_string()).unwrap();
        let usage = serde_json::json!({"presented": 3, "read": 1, "applied": 0});
        assert_eq!(row["usage"], usage);
        let why = ask_of(world().0, "default", &format!("/v1/memories/{id}/why"), "*/*").await;
        assert_eq!(why.json()["usage"], usage);
        let text = ask_of(world().0, "default", &format!("/v1/memories/{id}/why"), "text/plain").await;
        assert!(text.body.contains("presented to 3 runs, read in 1, applied in 0"), "{}", text.body);
        assert_eq!(
            describe_usage(MemoryUsage { presented: 1, read: 0, applied: 1 }),
            "presented to 1 run, read in 0, applied in 1"
        );
    }
}
