-- A memory changes, which a trigger notes; two gateways, of which one ended long ago.
UPDATE memories SET weight = weight WHERE tenant = 'default';
INSERT INTO context_leases (gateway, renewals, expires_ms) VALUES
    ('gateway-1 4711 1795000000000', 12, 1795000002000),
    ('gateway-2 4712 1795000000000', 3, 1795000001000);
