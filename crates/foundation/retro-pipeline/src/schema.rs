//! The schemas by which answers of a model are read. They are generated from the types and no author changes them: the
//! program would not understand another answer.

/// Name of the file of the answer about one run, below `schemas/`.
pub const ANSWER_SCHEMA_FILE: &str = "submit_findings.json";

/// JSON Schema of the answer about one run, as `cargo xtask gen` writes it.
pub const ANSWER_SCHEMA: &str =
    include_str!("../../../../pipelines/retrospective/schemas/submit_findings.json");
