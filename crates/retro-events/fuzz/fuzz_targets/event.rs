//! Any message, read as an event. The laws are in `retro_events::testing::laws`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| retro_events::testing::laws::event(input));
