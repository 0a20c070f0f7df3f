-- compatible_from: 1
-- `insert or replace` deletes a row without its trigger. A row without a number of its own has -1 here.
create trigger audit_stays_replaced before insert on audit when exists (select 1 from audit where number = new.number)
begin select raise(abort, 'rows of the audit are never changed'); end;
create trigger message_audit_stays_replaced before insert on message_audit when exists (select 1 from message_audit where number = new.number)
begin select raise(abort, 'rows of the audit are never changed'); end;
