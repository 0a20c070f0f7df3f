-- compatible_from: 1
-- A request leaves two dead rows, and their room is used again only after a vacuum. With the server's defaults, autovacuum works on 40 MB a
-- second at most, and so takes minutes for ten million records. At thousands of requests a second the table grows to more than twice its size
-- meanwhile. Ten times as much work between two pauses. What an operator has set stays.
do $$
declare
  leaf oid;
begin
  -- No statement of a gateway waits behind this lock. Autovacuum gives way to it after deadlock_timeout, which is a second.
  perform set_config('lock_timeout', '3s', true);
  for leaf in
    select c.oid from pg_class c
     where c.relkind = 'r'
       and (c.oid in (':schema.records'::regclass, ':schema.messages'::regclass)
            or c.oid in (select p.relid from pg_partition_tree(':schema.records'::regclass) p))
       and not exists (select from unnest(c.reloptions) o where o like 'autovacuum_vacuum_cost_%')
  loop
    execute format('alter table %s set (autovacuum_vacuum_cost_limit = 2000, toast.autovacuum_vacuum_cost_limit = 2000)', leaf::regclass);
  end loop;
end
$$;
