//! Parses any message as an event. The laws are in `retro_events::testing::laws`.
#![no_main]

mod memory;

use retro_events::testing::laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    laws::event(input);
    // Second, so that values built at first use already exist and are not measured.
    laws::event_memory(input, memory::peak);
});
