-- Rows of the same live system after 0011_tokens: what ended from then on says under which claim.

UPDATE investigations SET ended_token = token WHERE result IS NOT NULL;
