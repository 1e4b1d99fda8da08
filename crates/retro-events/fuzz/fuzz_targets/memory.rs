//! Counts the memory that is in use, for the law that bounds it.

use peak_alloc::PeakAlloc;

#[global_allocator]
static PEAK: PeakAlloc = PeakAlloc;

/// Does some work, and returns how many bytes more than before were in use at most.
pub fn peak(work: &mut dyn FnMut()) -> usize {
    let before = PEAK.current_usage();
    PEAK.reset_peak_usage();
    work();
    PEAK.peak_usage().saturating_sub(before)
}
