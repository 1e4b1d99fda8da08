-- A workflow of which one counter has counted what another has not reached yet.
UPDATE workflows SET counted_up_to = 700, handled_up_to = 500 WHERE tenant = 'default' AND workflow = 'airline-support';
