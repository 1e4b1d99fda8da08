-- Under which claim an investigation was ended, so that anyone can see from outside that nobody ended one whose claim had
-- been taken over.

-- The fencing token of the claim that stored the result: the same as `token`, which never moves after the end. NULL: it has
-- not ended, or ended before this column was there.
ALTER TABLE investigations ADD COLUMN ended_token BIGINT;
