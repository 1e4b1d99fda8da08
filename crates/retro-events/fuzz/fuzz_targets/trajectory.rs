//! Any body, read as a trajectory. The laws are in `retro_events::testing::laws`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| retro_events::testing::laws::trajectory(input));
