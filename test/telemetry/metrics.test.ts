import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMetrics } from '../../src/telemetry/metrics.ts'

/** Calls every method of the meter once. */
async function exposed (): Promise<string> {
  const metrics = createMetrics({ processMetrics: false })
  metrics.request('charges', 'executed', 20)
  metrics.guarded([{ name: 'charges' }, { name: 'refunds' }])
  metrics.keyless('charges')
  metrics.ignored()
  metrics.serves([{ name: 'charges', methods: ['POST'] }])
  metrics.answered('charges', 'POST', 201, 30)
  metrics.answered('(none)', undefined, 400, null)
  metrics.claimed(4)
  metrics.pools('guarded', () => [{ upstream: 'api', max: 9, taken: 1, waiting: 0, connections: 1 }])
  metrics.storeConnections('postgres', () => [{ purpose: 'claims', used: 1, idle: 0, waiting: 0 }])
  metrics.upstream('charges', 'answer', 15)
  metrics.store('postgres', 'insert', true, 2)
  metrics.store('postgres', 'insert', false, 2)
  metrics.executions(1)
  metrics.waiters(1)
  metrics.waiters(1)
  metrics.waiters(-1)
  metrics.leaseLost('charges')
  metrics.settleFenced('charges')
  metrics.settleRetried('charges')
  metrics.answeredUnsettled('charges')
  metrics.unsettledBytes(9)
  metrics.unsettledBytes(-4)
  metrics.scopeSplit('charges')
  metrics.swept('completed', 7)
  metrics.lapsed(3)
  metrics.indeterminate('charges', 'during')
  metrics.unresolved({ count: 2, oldestMs: 1_500 })
  metrics.inbox([{ route: 'gone', waiting: 1, delivering: 0, held: 0, dead: 0, bytes: 1, deadBytes: 0, oldestMs: 1 }])
  metrics.inbox([{ route: 'hooks', waiting: 4, delivering: 3, held: 2, dead: 1, bytes: 900, deadBytes: 0, oldestMs: 2_500 }])
  metrics.breaker(true)
  metrics.standing({ promise: 'strict', reasons: [], remarks: [] })
  metrics.standing({ promise: 'weakened', reasons: ['fsync-off'], remarks: ['redis-evicts'] })
  metrics.shed('connections', 'full')
  metrics.alike('charges')
  metrics.idled('tunnel')
  metrics.holds('connections', () => 7)
  metrics.holds('tunnels', () => 2)
  metrics.holds('passing', () => 3)
  metrics.holds('bufferedBytes', () => 4)
  metrics.signature('charges', 'previous')
  metrics.signature('charges', 'wrong')
  metrics.delivery('charges', 'again', 250)
  metrics.deliveryTries('charges', 3)
  metrics.reloaded('ok')
  return (await metrics.expose()).text
}

test('everything that is counted stands under its documented name, with its labels', async () => {
  const text = await exposed()
  for (const line of [
    'onceway_requests_total{route="charges",outcome="executed"} 1',
    'onceway_request_duration_seconds_sum{route="charges"} 0.02',
    'onceway_http_requests_total{route="charges",method="POST",status="2xx"} 1',
    'onceway_http_requests_total{route="charges",method="POST",status="5xx"} 0',
    'onceway_http_requests_total{route="(none)",method="OTHER",status="4xx"} 1',
    'onceway_http_request_duration_seconds_sum{route="charges"} 0.03',
    'onceway_claim_duration_seconds_sum 0.004',
    'onceway_keyless_requests_total{route="charges"} 1',
    'onceway_ignored_requests_total 1',
    'onceway_alike_requests_total{route="charges"} 1',
    'onceway_idle_closed_total{direction="tunnel"} 1',
    'onceway_connections 7',
    'onceway_tunnels 2',
    'onceway_passing 3',
    'onceway_buffered_bytes 4',
    'onceway_upstream_duration_seconds_sum{route="charges",result="answer"} 0.015',
    'onceway_store_duration_seconds_count{store="postgres",operation="insert"} 2',
    'onceway_store_errors_total{store="postgres",operation="insert"} 1',
    'onceway_executions 1',
    'onceway_waiters 1',
    'onceway_leases_lost_total{route="charges"} 1',
    'onceway_settles_fenced_total{route="charges"} 1',
    'onceway_settles_retried_total{route="charges"} 1',
    'onceway_answers_unsettled_total{route="charges"} 1',
    'onceway_unsettled_bytes 5',
    'onceway_scope_splits_total{route="charges"} 1',
    'onceway_scope_splits_total{route="refunds"} 0',
    'onceway_records_swept_total{state="completed"} 7',
    'onceway_records_lapsed_total 3',
    'onceway_indeterminate_total{route="charges",stage="during"} 1',
    'onceway_indeterminate_unresolved 2',
    'onceway_indeterminate_oldest_seconds 1.5',
    'onceway_inbox_messages{route="hooks",state="waiting"} 4',
    'onceway_inbox_messages{route="hooks",state="dead"} 1',
    'onceway_inbox_bytes{route="hooks"} 900',
    'onceway_inbox_oldest_seconds{route="hooks"} 2.5',
    'onceway_redis_breaker_open 1',
    'onceway_promise{promise="strict"} 0',
    'onceway_promise{promise="weakened"} 1',
    'onceway_promise_weakened{reason="fsync-off"} 1',
    'onceway_shed_total{limit="connections",by="full"} 1',
    'onceway_inbox_signatures_total{route="charges",result="previous"} 1',
    'onceway_inbox_signatures_total{route="charges",result="wrong"} 1',
    'onceway_inbox_deliveries_total{route="charges",result="again"} 1',
    'onceway_inbox_delivery_duration_seconds_sum{route="charges"} 0.25',
    'onceway_inbox_attempts_bucket{le="3",route="charges"} 1',
    'onceway_config_reloads_total{result="ok"} 1',
    'onceway_config_reloads_total{result="refused"} 0'
  ]) assert.ok(text.includes(`${line}\n`), `${line}\n\n${text}`)
  assert.doesNotMatch(text, /route="gone"/)
  assert.match(text, /onceway_build_info\{version="[^"]+",node="v[^"]+"\} 1/)
})

test('counters end in _total, durations in _seconds, and every metric has a help text', async () => {
  const text = await exposed()
  for (const [, name = '', type] of text.matchAll(/^# TYPE (\S+) (\S+)$/gm)) {
    assert.match(name, /^onceway_/)
    assert.equal(name.endsWith('_total'), type === 'counter', name)
    // Beside durations one thing is counted per message.
    if (type === 'histogram' && name !== 'onceway_inbox_attempts') assert.match(name, /_seconds$/)
    assert.match(text, new RegExp(`^# HELP ${name} \\S`, 'm'))
  }
})

test('labels are the few that are bounded: no key, tenant or path', async () => {
  const labels = new Set([...(await exposed()).matchAll(/[{,]([a-z_]+)="/g)].map(([, label]) => label))
  assert.deepEqual([...labels].sort(), [
    'by', 'direction', 'le', 'limit', 'method', 'node', 'operation', 'outcome', 'promise', 'purpose', 'reason', 'result', 'route',
    'stage', 'state', 'status', 'store', 'traffic', 'upstream', 'version'
  ])
})

test('a reason that is gone leaves no series behind', async () => {
  const metrics = createMetrics({ processMetrics: false })
  metrics.standing({ promise: 'weakened', reasons: ['fsync-off'], remarks: [] })
  metrics.standing({ promise: 'strict', reasons: [], remarks: [] })
  const { text } = await metrics.expose()
  assert.ok(text.includes('onceway_promise{promise="strict"} 1\nonceway_promise{promise="weakened"} 0\n'), text)
  assert.doesNotMatch(text, /onceway_promise_weakened\{/)
})

test('when nothing is unresolved the oldest is 0, and two meters do not share anything', async () => {
  const [one, other] = [createMetrics({ processMetrics: false }), createMetrics()]
  one.unresolved({ count: 0, oldestMs: null })
  one.lapsed(5)
  assert.match((await one.expose()).text, /onceway_indeterminate_oldest_seconds 0\n/)
  const text = (await other.expose()).text
  assert.match(text, /onceway_records_lapsed_total 0\n/)
  assert.match(text, /process_cpu_seconds_total/)
})
