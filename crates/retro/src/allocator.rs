//! Configures the allocator to return the memory of large bodies to the operating system when they are freed.
//!
//! As soon as a large block is freed, glibc raises its threshold for separate mappings, up to 32 MiB, and
//! then keeps as much free memory on each thread's heap. A process that handled two large bodies would keep
//! their memory, and its container's limit would have to allow for it. With fixed thresholds, the process
//! shrinks again (measured with 16 MiB bodies: 88 MiB instead of 146 MiB).

/// Minimum size of a block that gets its own mapping, in bytes. The mapping returns to the system when the
/// block is freed. Equal to glibc's initial value.
#[cfg(target_env = "gnu")]
const MMAP_THRESHOLD_BYTES: i32 = 128 * 1024;
/// Number of free bytes kept at the end of a heap.
#[cfg(target_env = "gnu")]
const TRIM_THRESHOLD_BYTES: i32 = 256 * 1024;
/// Maximum number of heaps, which the threads share. Free blocks in the middle of a heap are not returned to
/// the system.
#[cfg(target_env = "gnu")]
const ARENAS_MAX: i32 = 2;

/// Sets the thresholds. Must be called before other threads start. Does nothing if the C library is not
/// glibc.
pub(crate) fn limit_retained_memory() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES),
        (libc::M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES),
        (libc::M_ARENA_MAX, ARENAS_MAX),
    ] {
        // A rejected setting keeps its default, which only costs memory.
        #[expect(
            unsafe_code,
            reason = "a setting of the C library, which has no safe wrapper; no pointers are passed"
        )]
        // SAFETY: mallopt takes two integers and may be called at any time; no other thread runs yet.
        let _ = unsafe { libc::mallopt(parameter, value) };
    }
}
