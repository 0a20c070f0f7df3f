/** The statements of the inbox in SQLite. InboxTable prepares each of them once. */
import { DELIVERIES_MAX } from '../../core/inbox/message.ts'
import { POSTPONE_SLACK_MS } from '../../core/inbox/transitions.ts'
import { TRIAL_AMONG } from '../shared/shares.ts'

export const find = 'select * from messages where id = ?'

const NEW = [
  'id', 'attempt', 'due_at', 'received_at', 'route', 'group_id', 'holds', 'stops', 'keep_ms', 'dead_keep_ms', 'bytes',
  'fp_alg', 'fingerprint', 'scope_hash',
  'method', 'path', 'request_id', 'instance', 'key_hash', 'key_text', 'target', 'headers', 'body', 'scheme', 'tenant_id', 'not_before'
] as const

/** Its number is the greatest there is, and one: after all that stand there. */
export const insert = `insert into messages (state, blocks, ${NEW.join(', ')}) values ('waiting', 1, ${NEW.map(() => '?').join(', ')})`

const LETTER: Partial<Record<typeof NEW[number], string>> = {
  id: '?1',
  attempt: '0',
  due_at: '?2',
  received_at: '?2',
  route: '?3',
  dead_keep_ms: '?4',
  target: '?5',
  headers: '?6',
  group_id: 'null',
  holds: '0',
  stops: '0',
  tenant_id: 'null',
  not_before: 'null'
}

/** The copy of a dead message. The rest is as there. */
export const insertLetter = `
insert into messages (state, blocks, ${NEW.join(', ')}) select 'waiting', 1, ${NEW.map((name) => LETTER[name] ?? name).join(', ')} from messages where id = ?7
on conflict (id) do nothing`

export const isRecorded = 'select 1 from records where id = ? and (expires_at is null or expires_at > ?)'

export const isClaimed = 'select 1 from records where id = ? and state = \'claimed\' and owner = ? and attempt = ?'

export const forget = 'delete from messages where id = ?'

export const forgetRecord = 'delete from records where id = ?'

export const claims = 'select scheme from installation'

export const isBehind = 'select 1 from messages where group_id = ? and blocks limit 1'

export const isAlive = 'select 1 from workers where owner = ? and alive_until > ?'

/** Accepts and does not deliver. */
const IS_PAUSED = (route: string): string => `exists (select 1 from paused_routes p where p.route = ${route})`

const MAY_GO = '(m.tenant_id is null or not exists (select 1 from tenant_pauses p where p.tenant_id = m.tenant_id and p.until > ?2))'

const HAS_ITS_TURN = `(m.group_id is null
        or (not exists (select 1 from messages e where e.group_id = m.group_id and e.blocks and e.number < m.number)
            and not exists (select 1 from messages e where e.group_id = m.group_id and e.state = 'delivering')))`

const OF_GROUPS = `m.group_id is not null and ${HAS_ITS_TURN}`

/** SQLite 3.53 prepares a statement anew for each value that is bound to a bare `limit ?`: 40 µs of this one. Not so with the cast. */
const takeable = (condition: string): string => `
select m.number, m.due_at, m.bytes from messages m
 where m.route = ?1 and m.state = 'waiting' and m.due_at is not null and m.due_at <= ?2 and ${condition} and ${MAY_GO} and not ${IS_PAUSED('?1')}
 order by m.due_at, m.number limit cast(?3 as integer)`

export const takeableSingle = takeable('m.group_id is null')

export const takeableOfGroups = takeable(OF_GROUPS)

const endsOf = (condition: string): string[] => ['asc', 'desc'].map((order) => `select * from (
  select m.number, m.due_at, m.bytes, m.attempt, m.group_id is not null as isGroup from messages m
   where m.route = ?1 and m.state = 'waiting' and m.due_at is not null and m.due_at <= ?2 and ${condition} and ${MAY_GO}
   order by m.due_at ${order}, m.number ${order} limit ${TRIAL_AMONG})`)

/** For a trial, while a gateway has paused the route: of what is due first and last, what was handed out least often. */
export const triable = `
select number, due_at, bytes, isGroup from (${[...endsOf('m.group_id is null'), ...endsOf(OF_GROUPS)].join(' union ')})
 where not exists (select 1 from paused_routes p where p.route = ?1 and p.trial_at is null)
 order by attempt, due_at, number limit cast(?3 as integer)`

/** Returns what a delivery is made of. Every other column would cost time: a message has forty. */
export const take = `
update messages set state = 'delivering', owner = ?, attempt = attempt + 1, tries = tries + 1, due_at = null where number = ?
returning id, attempt, tries, route, request_id, tenant_id, received_at, not_before, retried_at, replayed_at, error, method, target, headers, body`

/** All that a delivery's end has to know of its message. */
const ENDING = 'id, owner, attempt, group_id, stops, keep_ms, dead_keep_ms'

export const delivering = `select ${ENDING} from messages where id = ? and state = 'delivering'`

/** The answer of an earlier life stays with what waits. ?13: the request is removed. */
export const end = `
update messages set state = ?1, owner = null, tries = tries - ?2, status = ?3, error = ?4, blocks = ?5, due_at = ?6, settled_at = ?7, expires_at = ?8,
       answer = iif(?1 = 'waiting', answer, ?9), request_until = ?10, took_ms = ?11, content_type = ?12,
       target = iif(?13, x'', target), headers = iif(?13, x'', headers), body = iif(?13, x'', body)
 where id = ?14`

/** It stands there already if an operator's change has listed it. */
export const list = `
insert into deliveries (message_id, attempt, at, took_ms, status, error, content_type, body, is_cut) values (?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict do nothing`

/** All but the first delivery of a message and the last ones. */
export const unlist = `
delete from deliveries
 where message_id = ?1 and attempt <= (select e.attempt from deliveries e where e.message_id = ?1 order by e.attempt desc limit 1 offset ${DELIVERIES_MAX - 1})
   and attempt > (select min(f.attempt) from deliveries f where f.message_id = ?1)`

export const listedSince = 'select 1 from deliveries where message_id = ? and at >= ?'

export const listed = 'select * from deliveries where message_id = ? order by attempt'

export const lost = `
select ${ENDING}, holds, tries, route, request_id from messages m
 where m.state = 'delivering' and not exists (select 1 from workers w where w.owner = m.owner and w.alive_until > ?)
 limit ?`

export const firstOf = 'select number, state, due_at from messages where group_id = ? and blocks order by number limit 1'

export const strays = 'update messages set due_at = null where group_id = ? and due_at is not null and number > ?'

export const call = `
update messages set due_at = max(min(?, coalesce(retried_at, received_at)), coalesce(not_before, 0), coalesce((select p.until from tenant_pauses p where p.tenant_id = messages.tenant_id), 0))
 where number = ?`

const nextOf = (condition: string): string => `(select m.number from messages m
    where m.route = r.value and m.state = 'waiting' and m.due_at is not null and ${condition}
    order by m.due_at, m.number limit 1)`

export const due = `
select min(d.due_at) as due_at from json_each(?) r, messages d
 where d.number in (${nextOf('m.group_id is null')}, ${nextOf(OF_GROUPS)})
   and not ${IS_PAUSED('r.value')}`

export const depths = `
select route, sum(state = 'waiting') as waiting, sum(state = 'delivering') as delivering, sum(state = 'held') as held, sum(state = 'dead') as dead,
       sum(bytes) as bytes, sum(case when state = 'dead' then bytes else 0 end) as deadBytes, min(case when state <> 'dead' then max(received_at, coalesce(not_before, 0)) end) as since
  from messages
 where state <> 'delivered' and state <> 'discarded'
 group by route`

export const alive = 'insert into workers (owner, alive_until) values (?, ?) on conflict (owner) do update set alive_until = max(alive_until, excluded.alive_until)'

export const gone = 'delete from workers where owner = ?'

/** Who was counted there is dead. */
export const noBounds = 'delete from delivery_bounds'

export const noOne = 'delete from workers'

/** Dead or held, it holds up its group until an operator retries or discards it: whatever its row says, it does not end by itself. */
export const STOPS_ITS_GROUP = '(blocks and group_id is not null and state in (\'dead\', \'held\'))'

/** It has a time all the same, which is put off: no sweep reads it again before then. */
export const putOff = `update messages set expires_at = ? + max(dead_keep_ms, 3600000) where expires_at <= ? and ${STOPS_ITS_GROUP}`

export const sweep = 'delete from messages where number in (select number from messages where expires_at <= ? order by expires_at limit ?) returning group_id, blocks'

export const pauseOf = 'select until from tenant_pauses where tenant_id = ?'

export const pauseTenant = 'insert into tenant_pauses (tenant_id, until) values (?, ?) on conflict (tenant_id) do update set until = max(until, excluded.until) returning until'

export const postpone = `
update messages set due_at = ?2
 where number in (select number from messages where tenant_id = ?1 and due_at is not null and due_at < ?2 - ${POSTPONE_SLACK_MS} order by due_at limit ?3)`

export const sweepTenants = 'delete from tenant_pauses where until <= ?'

export const bound = 'select state from delivery_bounds where route = ?'

export const setBound = 'insert into delivery_bounds (route, state) values (?, ?) on conflict (route) do update set state = excluded.state'

export const sweepWorkers = 'delete from workers where alive_until < ?'

export const note = `
insert into message_audit (at, action, message_id, state, attempt, route, request_id, who, why, via, before, after)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

export const paused = 'select route, since as sinceMs, who, why, trial_at as trialAtMs from paused_routes order by route'

/** A pause of an operator takes the place of one that the gateway made. */
export const pause = `
insert into paused_routes (route, since, who, why) values (?, ?, ?, ?)
  on conflict (route) do update set who = excluded.who, why = excluded.why, trial_at = null where paused_routes.trial_at is not null`

export const resume = 'delete from paused_routes where route = ?'

export const health = `
select f.route, ?1 - f.since as forMs, ?1 - f.last_at as lastMs, p.route is not null as isPaused, p.trial_at - ?1 as trialInMs
  from failing_routes f left join paused_routes p using (route)
union all
select p.route, null, null, true, p.trial_at - ?1 from paused_routes p where not exists (select 1 from failing_routes f where f.route = p.route)`

/** ?3: before then it was another failure. */
export const fails = `
insert into failing_routes (route, since, last_at) values (?1, ?2, ?2)
  on conflict (route) do update set since = case when last_at < ?3 then excluded.since else since end, last_at = excluded.last_at`

export const failsNoMore = 'delete from failing_routes where route = ?'

export const resumeOwn = 'delete from paused_routes where route = ? and trial_at is not null'

export const pauseOwn = `
insert into paused_routes (route, since, who, why, trial_at) select f.route, ?2, ?3, ?4, ?5 from failing_routes f where f.route = ?1 and f.since <= ?6
  on conflict (route) do nothing`

export const beginTrial = 'update paused_routes set trial_at = ? where route = ? and trial_at <= ?'
