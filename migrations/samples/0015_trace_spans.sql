-- A trace that waits for its root, and one whose run was read an hour ago.
INSERT INTO collected_traces (tenant, trace_id, last_ms, spans, bytes, read_spans, workflow, attempt, lease_ms, due_ms, closed_ms) VALUES
    ('default', '5b8aa5a2d2c872e8321cf37308d69df2', 1795173196520, 1, 395, 0, NULL, 0, NULL, 1795176796520, NULL),
    ('default', '5b8aa5a2d2c872e8321cf37308d69df3', 1795173196520, 12, 0, 12, 'build-fixer', 2, NULL, NULL, 1795173226520);
INSERT INTO trace_spans (tenant, trace_id, span_id, parent_id, ended, remote, is_call, bytes, document) VALUES
    ('default', '5b8aa5a2d2c872e8321cf37308d69df2', '051581bf3cb55c13', '5fb397be34d26b51', 1, 0, 1, 395, unhex('28b52ffd608b006d0700124f2f214049ac030753b815a47ac4b1c896a47032837759df98025fb4bf90e6bc63185e1797b9cc65ee7dc27cbb75a0dad4701c7e466484ec830465bff88120ca421225bd7d4a1e88a22ce84424b0942d426507e0cc69116da1d751bf78622e511059ed14c3720d3b58d9949f175fe931e6de6a5c5a58624771d5404302976329ab7949ada595b23c051533e6c5b1b743817e4c6d7de6ab2fee3ded283601d089907b7b27581afda202ed5adb422e526bf90bed06ed55f273e847a1599b7e2111003d1c7a1c5042056c0c2c84ca00b8bb1428e0e072c1568f71c1a21e3e258b5a5ddd2a624bb02766506a9b61'));
INSERT INTO trace_usage (tenant, traces, bytes) VALUES
    ('default', 1, 395);
