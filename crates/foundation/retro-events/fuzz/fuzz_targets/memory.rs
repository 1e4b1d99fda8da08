//! Measures the memory in use, for the law that bounds it.

use peak_alloc::PeakAlloc;

#[global_allocator]
static PEAK: PeakAlloc = PeakAlloc;

/// Runs `work` and returns by how many bytes the memory in use grew at its peak.
pub fn peak(work: &mut dyn FnMut()) -> usize {
    let before = PEAK.current_usage();
    PEAK.reset_peak_usage();
    work();
    PEAK.peak_usage().saturating_sub(before)
}
