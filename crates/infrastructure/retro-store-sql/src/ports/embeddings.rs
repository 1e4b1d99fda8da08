//! Stores the embeddings of memories.

use std::collections::BTreeMap;

use async_trait::async_trait;
use retro_core::canonical::sha256_hex;
use retro_core::id::{MemoryId, Tenant};
use retro_fault::Label;
use retro_store::metrics::COUNTED_MAX;
use retro_store::{EmbeddingStore, MemoryText, MissingEmbeddingsPage, Result};

use super::dialect::{OnTable, Store, any_of, list_parameter, now_ms, skip_locked};
use super::open::commit;
use crate::rows::memory::parse_memory;
use crate::rows::vectors::{decode_vector, encode_vector};
use crate::{at, to_i64};

/// SQL condition for memories that can be compared with others but have no embedding by embedder `$1`.
macro_rules! lacks {
    () => {
        "(memories.status IN ('tentative', 'active', 'archived') OR EXISTS (
             SELECT 1 FROM tombstones
             WHERE tombstones.tenant = memories.tenant AND tombstones.memory = memories.id))
         AND NOT EXISTS (
             SELECT 1 FROM embeddings
             WHERE embeddings.tenant = memories.tenant AND embeddings.memory = memories.id
                 AND embeddings.embedder = $1)"
    };
}

#[async_trait]
impl EmbeddingStore for Store {
    async fn load_embeddings(
        &self,
        tenant: &Tenant,
        embedder: &str,
        texts: &[String],
    ) -> Result<BTreeMap<String, Vec<i32>>> {
        const FIND: &str = concat!(
            "SELECT text_sha256, vector FROM embeddings WHERE tenant = $1 AND embedder = $2 AND text_sha256",
            any_of!("$3")
        );
        let hashed: BTreeMap<String, &String> =
            texts.iter().map(|text| (sha256_hex(text.as_bytes()), text)).collect();
        let hashes: Vec<&String> = hashed.keys().collect();
        let rows: Vec<(String, Vec<u8>)> = sqlx::query_as(FIND)
            .bind(tenant.as_str())
            .bind(embedder)
            .bind(list_parameter(&hashes))
            .fetch_all(self.reader())
            .await
            .on_table("embeddings")?;
        let mut found = BTreeMap::new();
        for (hash, stored) in rows {
            let place = at("embeddings.vector", &hash);
            let text = hashed.get(&hash).ok_or_else(|| place.damaged_error("it was not requested"))?;
            found.insert(
                (*text).clone(),
                decode_vector(&stored).ok_or_else(|| place.damaged_error("it ends within a component"))?,
            );
        }
        Ok(found)
    }

    async fn list_missing_embeddings(
        &self,
        embedder: &str,
        after: Option<&(Tenant, MemoryId)>,
        limit: u32,
    ) -> Result<MissingEmbeddingsPage> {
        // Rows that need no embedding are returned without their memory, because they still advance the
        // cursor.
        const PAGE: &str = concat!(
            "SELECT memories.tenant, memories.id, CASE WHEN ",
            lacks!(),
            " THEN memories.memory END
             FROM memories WHERE (memories.tenant, memories.id) > ($2, $3)
             ORDER BY memories.tenant, memories.id LIMIT $4"
        );
        let (tenant, memory) = match after {
            Some((tenant, memory)) => (tenant.as_str(), memory.to_string()),
            None => ("", String::new()),
        };
        let rows: Vec<(String, String, Option<String>)> = sqlx::query_as(PAGE)
            .bind(embedder)
            .bind(tenant)
            .bind(memory)
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on_table("memories")?;
        let full = rows.len() >= limit as usize;
        let mut page = MissingEmbeddingsPage::default();
        for (tenant, id, memory) in rows {
            let tenant: Tenant = at("memories.tenant", &id).parse(&tenant)?;
            if let Some(memory) = memory {
                let memory = parse_memory(&id, &memory)?;
                let text = memory.lesson.comparison_text().to_owned();
                page.missing.push(MemoryText { tenant: tenant.clone(), memory: memory.id, text });
            }
            page.after = Some((tenant, at("memories.id", &id).parse(&id)?));
        }
        if !full {
            page.after = None;
        }
        Ok(page)
    }

    async fn count_missing_embeddings(&self, embedder: &str) -> Result<u64> {
        const COUNT: &str = concat!(
            "SELECT /* reads all: a gauge, with a configured embedder only */ count(*) FROM (SELECT 1 AS one FROM memories WHERE ",
            lacks!(),
            " LIMIT $2) AS lacking"
        );
        let count: i64 = sqlx::query_scalar(COUNT)
            .bind(embedder)
            .bind(i64::from(COUNTED_MAX))
            .fetch_one(self.reader())
            .await
            .on_table("memories")?;
        at("memories", "all").parse_unsigned(count)
    }

    async fn store_embeddings(&self, embedder: &str, made: &[(MemoryText, Vec<i32>)]) -> Result<()> {
        const KEEP: &str = concat!(
            "INSERT INTO embeddings (tenant, memory, embedder, text_sha256, vector, stored_ms)
             VALUES ($1, $2, $3, $4, $5, ",
            now_ms!(),
            ") ON CONFLICT (tenant, memory, embedder) DO UPDATE SET
                 text_sha256 = excluded.text_sha256, vector = excluded.vector, stored_ms = excluded.stored_ms"
        );
        let mut transaction = self.begin_write().await?;
        for (of, vector) in made {
            let done = sqlx::query(KEEP)
                .bind(of.tenant.as_str())
                .bind(of.memory.to_string())
                .bind(embedder)
                .bind(sha256_hex(of.text.as_bytes()))
                .bind(encode_vector(vector))
                .execute(&mut *transaction)
                .await
                .on_table("embeddings")?;
            at("embeddings", of.memory).check_rows_affected(done.rows_affected(), 1)?;
        }
        commit(transaction, Label::StoreEmbeddingsCommit).await
    }

    async fn purge_embeddings(&self, embedder: &str, older_than_s: u64, limit: u32) -> Result<u64> {
        const FORGET: &str = concat!(
            "DELETE /* reads all: after a change of the embedder only */ FROM embeddings WHERE (tenant, memory, embedder) IN (
                 SELECT tenant, memory, embedder FROM embeddings WHERE embedder <> $1 AND stored_ms <= ",
            now_ms!(),
            " - CAST($2 AS BIGINT) * 1000 LIMIT $3",
            skip_locked!(),
            ")"
        );
        let mut transaction = self.begin_write().await?;
        let forgotten = sqlx::query(FORGET)
            .bind(embedder)
            .bind(to_i64(older_than_s))
            .bind(i64::from(limit))
            .execute(&mut *transaction)
            .await
            .on_table("embeddings")?;
        commit(transaction, Label::PurgeEmbeddingsCommit).await?;
        Ok(forgotten.rows_affected())
    }
}
