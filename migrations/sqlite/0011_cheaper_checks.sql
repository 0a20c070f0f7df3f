-- compatible_from: 1
-- The two checks of records that say `in (…)`, as comparisons. They mean the same. For a list of more than two, SQLite builds a table
-- in memory at every insert and every update, which was a fifth of what a claim and a settle cost. Rewriting the table's text is what
-- https://www.sqlite.org/lang_altertable.html#otheralter says for changes of CHECK constraints: nothing in the file depends on it.
pragma writable_schema = on;
update sqlite_schema
   set sql = replace(replace(sql,
     'check (state in (''claimed'', ''completed'', ''consumed'', ''released'', ''indeterminate''))',
     'check (state = ''claimed'' or state = ''completed'' or state = ''consumed'' or state = ''released'' or state = ''indeterminate'')'),
     'check (settled_by in (''owner'', ''lease'', ''probe'', ''operator''))',
     'check (settled_by = ''owner'' or settled_by = ''lease'' or settled_by = ''probe'' or settled_by = ''operator'')')
 where type = 'table' and name = 'records';
-- Off, and this connection reads its schema again.
pragma writable_schema = reset;
