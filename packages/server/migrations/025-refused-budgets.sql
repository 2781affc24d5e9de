-- The limit of the window that refused last in the minute and on the day of a row; null if none did. The first refusal under a limit gets an entry.
-- in_minute and in_day no longer count one more than the limit.
alter table budget_uses add column minute_over bigint, add column day_over bigint;
