//! Configures the allocator so that memory of large bodies returns to the system when they are freed.
//!
//! glibc raises its threshold for separate mappings to up to 32 MiB as soon as a large block is freed, and then
//! keeps as much of each thread's heap. A process that handled two large bodies would keep that memory, and its
//! container's limit would have to allow for it. With fixed thresholds, the process shrinks again (measured with
//! bodies of 16 MiB: 88 MiB instead of 146 MiB).

/// Minimum size in bytes of a block that gets a separate mapping, which returns to the system when it is freed.
/// Equal to glibc's initial value.
#[cfg(target_env = "gnu")]
const MMAP_THRESHOLD_BYTES: i32 = 128 * 1024;
/// Number of free bytes that are kept at the end of a heap.
#[cfg(target_env = "gnu")]
const TRIM_THRESHOLD_BYTES: i32 = 256 * 1024;
/// Maximum number of heaps, which the threads share. Free blocks in the middle of a heap do not return to the
/// system.
#[cfg(target_env = "gnu")]
const ARENAS_MAX: i32 = 2;

/// Sets the thresholds. Must be called before other threads start. Does nothing with a C library other than
/// glibc.
pub(crate) fn limit_retained_memory() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES),
        (libc::M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES),
        (libc::M_ARENA_MAX, ARENAS_MAX),
    ] {
        // A refused setting keeps its default, which only costs memory.
        #[expect(
            unsafe_code,
            reason = "a setting of the C library, which has no safe wrapper; no pointers are passed"
        )]
        // SAFETY: mallopt takes two integers and may be called at any time; no other thread runs yet.
        let _ = unsafe { libc::mallopt(parameter, value) };
    }
}
