//! Memory that large bodies took goes back to the system when they are done.
//!
//! The C library's allocator moves its threshold for separate mappings up to 32 MiB as soon as a large block is freed, and keeps
//! as much of the heap of each thread. A process that took two large bodies would stay as large as they made it, and the
//! limit of its container would have to be set for that. With thresholds that stay where they are it is as small again as
//! before (measured with bodies of 16 MiB: 88 MiB instead of 146 MiB).

/// Blocks from this size on are mappings of their own, which go back when they are freed. The allocator's own first value.
#[cfg(target_env = "gnu")]
const MAPPED_FROM_BYTES: i32 = 128 * 1024;
/// So much that is free at the end of a heap is kept.
#[cfg(target_env = "gnu")]
const KEPT_BYTES: i32 = 256 * 1024;
/// Heaps that threads share: each keeps what is free in its middle.
#[cfg(target_env = "gnu")]
const HEAPS_MAX: i32 = 2;

/// Tells the allocator so. To be called before threads are started; an allocator that knows no such settings is left alone.
pub(crate) fn give_back_freed_memory() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_MMAP_THRESHOLD, MAPPED_FROM_BYTES),
        (libc::M_TRIM_THRESHOLD, KEPT_BYTES),
        (libc::M_ARENA_MAX, HEAPS_MAX),
    ] {
        // What is refused stays as it is, which costs memory and nothing else.
        #[expect(
            unsafe_code,
            reason = "a setting of the C library, which has no safe wrapper; no pointers are passed"
        )]
        // SAFETY: mallopt takes two integers and may be called at any time; no other thread runs yet.
        let _ = unsafe { libc::mallopt(parameter, value) };
    }
}
