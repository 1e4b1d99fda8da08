//! Stores and finds what runs say about who may read their repositories.

use std::collections::BTreeMap;

use jiff::Timestamp;
use retro_core::audience::{RepoVisibility, RunRepository};
use retro_core::id::{Repository, Tenant};
use retro_store::Result;

use super::dialect::{Connection, OnTable, bind_rows, rows_table};
use crate::at;
use crate::rows::count::RunWrite;

/// What a run says about its repository: the end of the run, or its start, in Unix milliseconds (0 if its event gives
/// no time), and `true` for public. The greater one stands: of two at the same time the one that says public, because
/// nothing private is handed to a public repository.
type Statement = (i64, bool);

/// Stores what runs say about their repositories, unless a newer run has said something else.
pub(crate) async fn store_visibilities(connection: &mut Connection, writes: &[RunWrite<'_>]) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO repository_visibility (tenant, repo, visibility, said_ms)
         SELECT tenant, repo, visibility, said_ms FROM ",
        rows_table!("new", "$1" "tenant", "$2" "repo", "$3" "visibility", "$4" "said_ms"),
        " WHERE true ON CONFLICT (tenant, repo)
          DO UPDATE SET visibility = excluded.visibility, said_ms = excluded.said_ms
          WHERE excluded.said_ms > repository_visibility.said_ms
              OR excluded.said_ms = repository_visibility.said_ms AND excluded.visibility = 'public'"
    );
    // Sorted, so two batches lock the rows in the same order.
    let mut newest: BTreeMap<(&str, Repository), Statement> = BTreeMap::new();
    for write in writes {
        let run = &write.incoming.arrival.run;
        let Some(RunRepository { repo, visibility: Some(visibility) }) = run.repository() else { continue };
        let said_ms = run.finished_at.or(run.started_at).map_or(0, Timestamp::as_millisecond);
        let statement = (said_ms, visibility == RepoVisibility::Public);
        let known = newest.entry((write.tenant(), repo)).or_insert(statement);
        *known = statement.max(*known);
    }
    if newest.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = newest.iter().collect();
    let word = |is_public| if is_public { RepoVisibility::Public } else { RepoVisibility::Private };
    let query = bind_rows!(sqlx::query(STORE), rows, |((tenant, repo), (said_ms, is_public))| [
        *tenant,
        repo.as_str(),
        <&str>::from(word(*is_public)),
        *said_ms,
    ]);
    query.execute(connection).await.on_table("repository_visibility").map(|_| ())
}

/// Returns the repository with what its runs have last said about it, unless its visibility is given.
pub(crate) async fn complete_visibility(
    connection: &mut Connection,
    tenant: &Tenant,
    repository: &RunRepository,
) -> Result<RunRepository> {
    const FIND: &str = "SELECT visibility FROM repository_visibility WHERE tenant = $1 AND repo = $2";
    if repository.visibility.is_some() {
        return Ok(repository.clone());
    }
    let repo = &repository.repo;
    let query = sqlx::query_scalar(FIND).bind(tenant.as_str()).bind(repo.as_str());
    let row: Option<String> = query.fetch_optional(connection).await.on_table("repository_visibility")?;
    let visibility = row.map(|word| at("repository_visibility.visibility", repo).parse(&word)).transpose()?;
    Ok(RunRepository { repo: repo.clone(), visibility })
}
