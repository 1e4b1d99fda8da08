//! Any message, read as an event. The laws are in `retro_events::testing::laws`.
#![no_main]

mod memory;

use retro_events::testing::laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    laws::event(input);
    // After it, so that what is built at first use is there.
    laws::event_memory(input, memory::peak);
});
