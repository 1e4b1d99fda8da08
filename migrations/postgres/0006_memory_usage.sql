-- Indexes by memory, for the number of runs whose agent opened a memory and of runs in which it was applied.
CREATE INDEX presentations_read_by_memory ON presentations (tenant, memory) WHERE read_ms IS NOT NULL;
CREATE INDEX run_memory_applications_by_memory ON run_memory_applications (tenant, memory);
