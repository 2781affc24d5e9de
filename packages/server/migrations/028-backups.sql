-- When the newest backup was taken. Operators read it; nothing else depends on it, so it is under no MAC.
alter table instance add column backed_up_at timestamptz(3);
