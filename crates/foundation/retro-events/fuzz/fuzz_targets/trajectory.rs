//! Parses any body as a trajectory. The laws are in `retro_events::testing::laws`.
#![no_main]

mod memory;

use retro_events::testing::laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    laws::trajectory(input);
    laws::trajectory_memory(input, memory::peak);
});
