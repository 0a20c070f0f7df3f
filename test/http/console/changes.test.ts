/** Changes, lists and exports of the console from the server's side: what the store has afterwards, and what the operator is told. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hiddenFields, messageIn, recordIn, startConsole, unescaped } from './world.ts'
import { DELIVERED } from '../../conformance/inbox-world.ts'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import type { Role } from '../../../src/core/operator/roles.ts'
import type { Console, Visitor } from './world.ts'

async function stateOf ({ store }: Console, id: string): Promise<string | undefined> {
  return (await store.list({ id: Buffer.from(id, 'base64url'), limit: 1 }))[0]?.state
}

/** Fills in the page's form and sends it. */
async function change (visitor: Visitor, path: string, fields: Readonly<Record<string, string>>) {
  return visitor.submit(await visitor.get(path), path.split('?')[0] ?? '', fields)
}

test('it happened: the answer is checked against the route, confirmed with its consequence, and then stored', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('operator')
  const id = await recordIn(world, 'indeterminate')
  const path = `/unknown/${id}/happened`
  const answer = {
    status: '201', headers: 'Content-Type: application/json\r\nX-Kept: a: b', body: '{"id":"ch_1"}\r\n', reason: 'ch_1 is in the ledger'
  }
  const unusual = await change(visitor, path, { ...answer, status: '503' })
  assert.equal(unusual.status, 422)
  assert.match(unusual.body, /id="problem">Route charges takes a 503 as/)
  assert.match(unusual.body, /Keep it although the route would not/)
  assert.match(unusual.body, /ch_1 is in the ledger/)
  assert.equal(await stateOf(world, id), 'indeterminate')
  const confirm = await change(visitor, path, answer)
  assert.match(confirm.body, /Route charges keeps such an answer\./)
  assert.match(confirm.body, /will be told: status 201, a body of 14 B\./)
  assert.equal(await stateOf(world, id), 'indeterminate', 'nothing is written before it is confirmed')
  const done = await visitor.submit(confirm, path, {})
  assert.deepEqual([done.status, done.location], [303, `/unknown/${id}/done`])
  const [record] = await world.store.list({ id: Buffer.from(id, 'base64url'), limit: 1 })
  assert.deepEqual(
    [record?.state, record?.status, record?.body?.toString(), record?.settledBy], ['completed', 201, '{"id":"ch_1"}\n', 'operator']
  )
  const after = await visitor.get(done.location ?? '')
  assert.match(after.body, /resolve record[\s\S]*ch_1 is in the ledger[\s\S]*No other outcome is unknown/)
  assert.deepEqual(
    world.logged.filter(({ event }) => event === 'operator-change').map(({ operation, who }) => [operation, who]),
    [['resolveRecord', 'an-operator']]
  )
})

test('what is wrong with an answer or a reason is said at its field, and what was typed stays', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('operator')
  const id = await recordIn(world, 'indeterminate')
  const path = `/unknown/${id}/happened`
  const send = async (fields: Record<string, string>) => change(visitor, path, { status: '201', reason: 'seen', ...fields })
  for (const [fields, says] of [
    [{ status: 'created' }, /id="problem">status must be a number from 200 to 599/],
    [{ reason: '  ' }, /id="problem">reason must say why/],
    [{ headers: 'Transfer-Encoding: chunked' }, /cannot be stored/],
    [{ headers: 'no colon at all here' }, /is no header field/],
    [{ status: '204', body: 'x' }, /has no body/],
    [{ statusOnly: '1', body: 'x' }, /only the status is kept/],
    [{ retention: '1s' }, /at least two leases/],
    [{ retention: 'tomorrow' }, /is a duration/]
  ] as const) {
    const page = await send(fields)
    assert.ok(page.status === 400, `${JSON.stringify(fields)}: ${page.status}`)
    assert.match(unescaped(page.body), says)
  }
  const wrong = await send({ status: '99', body: '\n<b>kept</b>' })
  assert.match(wrong.body, /name="status" aria-describedby="f-status-hint problem" aria-invalid="true"/)
  assert.match(wrong.body, /<textarea[^>]*name="body"[^>]*>\n\n&lt;b>kept&lt;\/b><\/textarea>/)
  assert.equal(await stateOf(world, id), 'indeterminate')
})

test('what is odd about an answer is said before it is final, with how long it is kept, and it can be edited', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('operator')
  const id = await recordIn(world, 'indeterminate')
  const path = `/unknown/${id}/happened`
  const send = async (fields: Record<string, string>) => change(visitor, path, { status: '201', reason: 'seen', ...fields })
  for (const [fields, says] of [
    [{ status: '500', body: 'x', headers: 'Content-Type: text/plain' }, /Status 500 is an error of the server/],
    [{}, /It has no body\./],
    [{ body: '{}' }, /a body and no Content-Type/],
    [{ body: '{"amount": 1', headers: 'content-type: application/problem+json; charset=utf-8' }, /its body is not valid JSON/]
  ] as const) assert.match((await send(fields)).body, says, JSON.stringify(fields))
  const confirm = await send({ body: '{"amount": 1}', headers: 'Content-Type: application/json', retention: '40d' })
  assert.doesNotMatch(confirm.body, /class="notice"/)
  assert.match(confirm.body, /This cannot be changed afterwards/)
  const keptUntil = Date.parse(/Kept until<\/dt><dd><time datetime="([^"]+)"/.exec(confirm.body)?.[1] ?? '')
  assert.ok(Math.abs(keptUntil - Date.now() - 40 * DAY_MS) < DAY_MS)
  const edited = await visitor.submit(confirm, path, { edit: '1' })
  assert.equal(edited.status, 200)
  assert.match(edited.body, /value="201"[^>]*name="status"/)
  assert.match(unescaped(edited.body), /\n\{"amount": 1\}<\/textarea>/)
  assert.equal(await stateOf(world, id), 'indeterminate')
})

const DAY_MS = 86_400_000

test('what was sent to a store that is away is kept, and can be sent again', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('operator')
  const id = await recordIn(world, 'indeterminate')
  const path = `/unknown/${id}/happened`
  const page = await visitor.get(path)
  const answer = { status: '201', body: '{"id":"<ch_1>"}', reason: 'ch_1 is in the ledger' }
  world.breaks = new StoreUnavailable('postgres', 'list', true, new Error('Query read timeout'))
  const away = await visitor.submit(page, path, answer)
  assert.equal(away.status, 503)
  assert.match(away.body, /Query read timeout[\s\S]*safe to send it again/)
  world.breaks = null
  const confirm = await visitor.submit(away, path, {})
  assert.match(confirm.body, /will be told: status 201, a body of 15 B\.[\s\S]*ch_1 is in the ledger/)
  const resolve = world.store.resolve.bind(world.store)
  // The change is committed, and its reply is lost.
  world.store.resolve = async (resolution) => {
    await resolve(resolution)
    throw new StoreUnavailable('postgres', 'resolve', true, new Error('Query read timeout'))
  }
  const doubtful = await visitor.submit(confirm, path, {})
  assert.match(doubtful.body, /may have been done/)
  const twice = await visitor.submit(doubtful, path, {})
  assert.equal(twice.status, 409)
  assert.match(twice.body, /What you sent before may have been done[\s\S]*resolve record[\s\S]*ch_1 is in the ledger/)
  assert.doesNotMatch(twice.body, /Your change was not made/)
})

test('a message that was changed without an answer: who sends it again is told that it may have been done', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('operator')
  const id = await messageIn(world, 'dead', { about: { route: 'webhooks' } })
  const path = `/inbox/messages/${id}/discard`
  const page = await visitor.get(path)
  const { inbox } = world.store
  const discard = inbox.discard.bind(inbox)
  // The change is committed, and its reply is lost.
  Object.assign(inbox, {
    discard: async (...given: Parameters<typeof discard>) => {
      await discard(...given)
      throw new StoreUnavailable('postgres', 'discard', true, new Error('Query read timeout'))
    }
  })
  const doubtful = await visitor.submit(page, path, { reason: 'it is obsolete' })
  assert.match(doubtful.body, /may have been done/)
  Object.assign(inbox, { discard })
  const twice = await visitor.submit(doubtful, path, {})
  assert.equal(twice.status, 409)
  assert.match(twice.body, /What you sent before may have been done[\s\S]*it is obsolete/)
  assert.doesNotMatch(twice.body, /Your change was not made/)
})

test('a page that was sent with another session’s token is not offered to be sent again', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('operator')
  const id = await recordIn(world, 'indeterminate')
  world.breaks = new StoreUnavailable('postgres', 'list', true, new Error('Query read timeout'))
  const forged = await visitor.get(`/unknown/${id}/not`, { method: 'POST', form: { csrf: 'x', reason: 'theirs' } })
  assert.equal(forged.status, 403)
  assert.doesNotMatch(forged.body, /theirs|Send it again/)
})

test('only the status: retries are told 409 with the original status', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('operator')
  const id = await recordIn(world, 'indeterminate')
  const path = `/unknown/${id}/happened`
  const confirm = await change(visitor, path, { status: '201', statusOnly: '1', reason: 'seen' })
  assert.match(confirm.body, /told 409 answer-not-kept, with originalStatus 201/)
  await visitor.submit(confirm, path, {})
  assert.equal(await stateOf(world, id), 'consumed')
})

test('it did not happen: refused while the first sending may be on its way, then released', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('operator')
  const id = await recordIn(world, 'indeterminate', { quarantineMs: 60_000 })
  const way = await visitor.get(`/unknown/${id}`)
  assert.match(way.body, /The first sending may still be on its way/)
  assert.doesNotMatch(way.body, /It did not happen …/)
  const early = await change(visitor, `/unknown/${id}/not`, { reason: 'not in the ledger' })
  assert.equal(early.status, 409)
  assert.match(early.body, /can be released in \d+ s/)
  world.advance(60_001)
  const page = await visitor.get(`/unknown/${id}/not`)
  assert.match(page.body, /the next retry is then sent to the upstream, as attempt 2/)
  const done = await visitor.submit(page, `/unknown/${id}/not`, { reason: 'not in the ledger' })
  assert.equal(done.status, 303)
  assert.equal(await stateOf(world, id), 'released')
})

test('the loser of two operators sees what the record is now, who changed it and why', async (t) => {
  const world = await startConsole(t)
  const [winner, loser] = [await world.as('operator'), await world.as('admin')]
  const id = await recordIn(world, 'indeterminate')
  const [not, happened] = [`/unknown/${id}/not`, `/unknown/${id}/happened`]
  const shown = await winner.get(not)
  const confirm = await change(loser, happened, { status: '201', reason: 'it is there' })
  assert.equal((await winner.submit(shown, not, { reason: 'it is not there' })).status, 303)
  const lost = await loser.submit(confirm, happened, {})
  assert.equal(lost.status, 409)
  assert.match(lost.body, /Your change was not made/)
  assert.match(lost.body, /an-operator[\s\S]*it is not there/)
  assert.match(lost.body, /Not executed, key free/)
  assert.equal(await stateOf(world, id), 'released')
})

test('a claim that came meanwhile is not changed by the form of the claim before', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('operator')
  const id = await recordIn(world, 'indeterminate')
  const path = `/unknown/${id}/not`
  const page = await visitor.get(path)
  const lost = await visitor.submit(page, path, { owner: 'f'.repeat(32), reason: 'x' })
  assert.equal(lost.status, 409)
  assert.match(lost.body, /has changed since it was shown/)
  assert.equal(await stateOf(world, id), 'indeterminate')
})

test('a record is forgotten with a reason, and the page that follows is the truth of the store', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('operator')
  const id = await recordIn(world, 'completed')
  const path = `/records/${id}/delete`
  const without = await change(visitor, path, {})
  assert.equal(without.status, 400)
  assert.match(without.body, /aria-describedby="f-reason-hint/)
  const done = await change(visitor, path, { reason: 'a test' })
  assert.equal(done.location, `/records/${id}?done=1`)
  assert.match((await visitor.get(done.location ?? '')).body, /role="status"[\s\S]*delete record[\s\S]*a test/)
  assert.doesNotMatch(
    (await visitor.get(`/records/${await recordIn(world, 'completed')}?done=1`)).body, /role="status"/, 'nothing was done there'
  )
})

test('the upstream is asked again, and only about a record with a question', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('operator')
  const [asked, silent] = [await recordIn(world, 'indeterminate', { question: Buffer.from('?') }), await recordIn(world, 'indeterminate')]
  const done = await change(visitor, `/records/${asked}/probe`, { reason: 'now' })
  assert.equal(done.location, `/unknown/${asked}?done=1`)
  assert.equal((await visitor.get(`/records/${silent}/probe`)).status, 409)
})

test('many at once: count and sample, then steps that can be stopped and go on, and what is refused is told', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('operator')
  const ids: string[] = []
  for (let at = 0; at < 60; at++) ids.push(await recordIn(world, 'indeterminate'))
  const page = await visitor.get('/records/changes?state=indeterminate&route=charges')
  assert.match(page.body, /60 records match/)
  const order = { action: 'release', reason: 'the upstream was down' }
  const first = await visitor.submit(page, '/records/changes', order)
  assert.match(first.body, /Changing: 25 of 60 records changed\./)
  assert.match(first.body, /hx-trigger="load delay:300ms"/)
  const stopped = await visitor.submit(first, '/records/changes', { stop: '1' })
  assert.match(stopped.body, /Stopped: 25 of 60 records changed\./)
  assert.doesNotMatch(stopped.body, /hx-trigger/)
  assert.match(stopped.body, />Continue</)
  const states = await Promise.all(ids.map((id) => stateOf(world, id)))
  assert.equal(states.filter((state) => state === 'released').length, 25)
  const late = await recordIn(world, 'indeterminate')
  const second = await visitor.submit(stopped, '/records/changes', {})
  const last = await visitor.submit(second, '/records/changes', {})
  assert.match(last.body, /Done: 60 of 60 records changed\./)
  assert.equal(await stateOf(world, late), 'indeterminate', 'what came after the count is not changed')
  assert.ok((await Promise.all(ids.map((id) => stateOf(world, id)))).every((state) => state === 'released'))
})

test('a store that fails between two steps stops the run, which goes on from there', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('operator')
  for (let at = 0; at < 30; at++) await recordIn(world, 'indeterminate')
  const path = '/records/changes'
  const first = await change(visitor, `${path}?state=indeterminate`, { action: 'release', reason: 'the batch never left' })
  assert.match(first.body, /25 of 30 records changed/)
  const { operator } = world.store
  const searchRecords = operator.searchRecords.bind(operator)
  operator.searchRecords = async () => { throw new StoreUnavailable('postgres', 'search', true, new Error('Query read timeout')) }
  const broken = await visitor.submit(first, path, {})
  assert.equal(broken.status, 503)
  assert.match(broken.body, /Query read timeout[\s\S]*Stopped: 25 of 30 records changed[\s\S]*Continue/)
  operator.searchRecords = searchRecords
  assert.match((await visitor.submit(broken, path, {})).body, /Done: 30 of 30 records changed/)
})

test('many at once need an action, a reason, a token that was not altered, and for deletes an admin', async (t) => {
  const world = await startConsole(t)
  const [operator, admin] = [await world.as('operator'), await world.as('admin')]
  const id = await recordIn(world, 'completed')
  const page = await operator.get('/records/changes?state=completed')
  assert.doesNotMatch(page.body, /value="delete"/)
  const send = async (fields: Record<string, string>) => (await operator.submit(page, '/records/changes', fields)).status
  assert.equal(await send({ action: 'delete', reason: 'x' }), 403)
  assert.equal(await send({ reason: 'x' }), 400)
  assert.equal(await send({ action: 'release' }), 400)
  assert.equal(await send({ action: 'release', reason: 'x', token: 'e30.e30' }), 422)
  const refused = await operator.submit(page, '/records/changes', { action: 'release', reason: 'x' })
  assert.match(refused.body, /Done: 0 of 1 record changed, 1 refused\.[\s\S]*Its outcome is known/)
  const done = await change(admin, '/records/changes?state=completed', { action: 'delete', reason: 'x' })
  assert.match(done.body, /Done: 1 of 1 record changed/)
  assert.match((await admin.get(`/records/${id}`)).body, /delete record/)
})

test('all of them happened: one answer for many, and a mistake in it stops before anything is changed', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('operator')
  const ids = [await recordIn(world, 'indeterminate'), await recordIn(world, 'indeterminate')]
  const order = { action: 'resolve', reason: 'the batch went through', statusOnly: '1' }
  const without = await change(visitor, '/records/changes?state=indeterminate', order)
  assert.equal(without.status, 400)
  assert.match(without.body, /give the status/)
  await change(visitor, '/records/changes?state=indeterminate', { ...order, status: '201' })
  assert.deepEqual(await Promise.all(ids.map((id) => stateOf(world, id))), ['consumed', 'consumed'])
})

test('a message is retried and discarded, one and many; who comes too late is told', async (t) => {
  const world = await startConsole(t)
  const [operator, admin] = [await world.as('operator'), await world.as('admin')]
  const [one, two] = [await messageIn(world, 'dead'), await messageIn(world, 'held')]
  const more = [await messageIn(world, 'dead'), await messageIn(world, 'dead')]
  const page = await operator.get(`/inbox/messages/${two}/retry`)
  assert.match(page.body, /it gets it twice/)
  const done = await change(operator, `/inbox/messages/${one}/discard`, { reason: 'of no use' })
  assert.equal(done.location, `/inbox/messages/${one}?done=1`)
  assert.match((await operator.get(done.location ?? '')).body, /discard message[\s\S]*of no use/)
  const late = await operator.get(`/inbox/messages/${one}/retry`)
  assert.equal(late.status, 409)
  assert.match(late.body, /It is discarded now[\s\S]*an-operator/)
  const many = (await operator.get('/inbox/changes?state=dead')).body
  assert.doesNotMatch(many, /value="discard"/)
  for (const { body } of [{ body: many }, await operator.get('/inbox/messages?state=dead')]) {
    assert.match(body, /To discard many needs the role admin\./)
  }
  for (const path of ['/inbox/changes?state=dead', '/inbox/messages?state=dead']) {
    assert.doesNotMatch((await admin.get(path)).body, /needs the role admin/)
  }
  const bulk = await change(admin, '/inbox/changes?state=dead', { action: 'retry', reason: 'mended' })
  assert.match(bulk.body, /Done: 2 of 2 messages changed/)
  const states = await Promise.all(more.map(async (id) => (await world.store.inbox.look(Buffer.from(id, 'base64url')))?.state))
  assert.deepEqual(states, ['waiting', 'waiting'])
})

test('a delivered message is replayed while its request is kept, one and many', async (t) => {
  const world = await startConsole(t)
  const operator = await world.as('operator')
  const kept = { fate: { ...DELIVERED, requestMs: 60_000 } }
  const [gone, one, two] = [
    await messageIn(world, 'delivered'), await messageIn(world, 'delivered', kept), await messageIn(world, 'delivered', kept)
  ]
  assert.match((await operator.get(`/inbox/messages/${gone}`)).body, /its request is deleted/)
  assert.match((await operator.get(`/inbox/messages/${gone}/replay`)).body, /It cannot be replayed/)
  assert.doesNotMatch((await (await world.as('viewer')).get(`/inbox/messages/${one}`)).body, /Replay …/)
  assert.match((await operator.get(`/inbox/messages/${one}`)).body, /delivered once more until[\s\S]*Replay …/)
  const page = await operator.get(`/inbox/messages/${one}/replay`)
  assert.match(page.body, /The consumer has taken it, and gets it once more, with Onceway-Replay: true/)
  const done = await change(operator, `/inbox/messages/${one}/replay`, { reason: 'they lost it' })
  assert.equal(done.location, `/inbox/messages/${one}?done=1`)
  assert.match((await operator.get(done.location ?? '')).body, /replay message[\s\S]*they lost it[\s\S]*each delivery since then says so/)
  const list = (await operator.get('/inbox/messages?state=delivered')).body
  assert.match(list, /data-head="Replay until"><time[\s\S]*>Never<[\s\S]*Replay all that match …/)
  const bulk = await change(operator, '/inbox/changes?state=delivered', { action: 'replay', reason: 'they lost them' })
  assert.match(bulk.body, /Done: 1 of 2 messages changed, 1 refused[\s\S]*The request of this message is gone/)
  assert.equal((await world.store.inbox.look(Buffer.from(two, 'base64url')))?.state, 'waiting')
})

test('a route is paused and resumed with a reason, and the inbox shows who did and why', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('operator')
  const path = '/inbox/pause?route=webhooks'
  const page = await visitor.get(path)
  const done = await visitor.submit(page, path, { reason: 'the consumer is mended' })
  assert.equal(done.location, '/inbox')
  assert.match((await visitor.get('/inbox')).body, /Paused[\s\S]*an-operator[\s\S]*the consumer is mended/)
  const twice = await visitor.submit(page, path, { reason: 'again' })
  assert.equal(twice.status, 409)
  assert.match(twice.body, /paused already/)
  const resume = '/inbox/resume?route=webhooks'
  await visitor.submit(await visitor.get(resume), resume, { reason: 'it runs' })
  assert.deepEqual(await world.store.operator.paused(), [])
  assert.match((await visitor.get('/audit')).body, /resume route[\s\S]*pause route/)
})

test('lists are paged in both orders, and each row is on one page', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('viewer')
  const all: string[] = []
  for (let at = 0; at < 7; at++) all.push(await recordIn(world, 'completed'))
  for (const order of ['newest', 'oldest']) {
    const found: string[] = []
    for (let path: string | undefined = `/records?limit=3&order=${order}`; path !== undefined;) {
      const { body } = await visitor.get(path)
      found.push(...Array.from(body.matchAll(/class="id" href="\/records\/([^"]+)"/g), ([, id = '']) => id))
      const next = /rel="next" href="([^"]+)"/.exec(body)?.[1]
      path = next === undefined ? undefined : unescaped(next)
    }
    assert.deepEqual(found.toSorted(), all.toSorted(), order)
  }
  assert.match((await visitor.get('/records')).body, /aria-sort="descending"><a href="\/records\?order=oldest"/)
})

test('an empty list says what would be there', async (t) => {
  const world = await startConsole(t, { routes: '\n  - { match: { path: "/*" }, upstream: a }' })
  const visitor = await world.as('viewer')
  for (const [path, says] of [
    ['/records', /A record is here as soon as/], ['/unknown', /A record would be here if/], ['/inbox', /A route with mode: inbox/], [
      '/inbox/messages', /A message is here as soon as/
    ],
    ['/inbox/messages?state=dead', /A message would be here if/], ['/audit', /Every change would be here/]
  ] as const) assert.match((await visitor.get(path)).body, says, path)
})

test('an export has every row of the search over all its pages, and no formula', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('viewer')
  const ids: string[] = []
  for (let at = 0; at < 520; at++) {
    ids.push(
      await recordIn(world, 'completed', { about: { path: at === 0 ? '=HYPERLINK("http://evil")' : '/v1/a,b' } })
    )
  }
  await recordIn(world, 'released')
  const csv = await visitor.get('/records/export?format=csv&state=completed&order=oldest')
  assert.match(String(csv.headers['content-disposition']), /^attachment; filename="onceway-records\.csv"$/)
  const lines = csv.body.trimEnd().split('\r\n')
  assert.equal(lines.length, 521)
  assert.match(lines[0] ?? '', /^id,state,route,/)
  assert.ok(lines[1]?.includes('"\'=HYPERLINK(""http://evil"")"'), lines[1])
  assert.deepEqual(lines.slice(1).map((line) => line.slice(0, 43)).toSorted(), ids.toSorted())
  const json = await visitor.get('/records/export?format=jsonl&state=completed')
  const rows = json.body.trimEnd().split('\n').map((line) => JSON.parse(line) as { id: string, path: string })
  assert.deepEqual(rows.map(({ id }) => id).toSorted(), ids.toSorted())
  assert.equal(
    (await visitor.get('/audit/export?format=csv')).body, 'at,who,via,action,about,id,route,requestId,attempt,why,state,before,after\r\n'
  )
  assert.equal((await visitor.get('/inbox/messages/export?format=jsonl')).body, '')
})

test('the queue counts by route and by age, in the order that is asked for', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('viewer')
  await recordIn(world, 'indeterminate', { about: { route: 'a' } })
  world.advance(7_200_000)
  for (const route of ['b', 'b', 'c']) await recordIn(world, 'indeterminate', { about: { route } })
  const routes = async (query: string) => Array.from(
    (await visitor.get(`/unknown?${query}`)).body.matchAll(/href="\/unknown\?[^"]*route=(\w)"><bdi/g), ([, route]) => route
  ).join('')
  assert.deepEqual([await routes('sort=age'), await routes('sort=count'), await routes('sort=route')], ['abc', 'bac', 'abc'])
  const page = await visitor.get('/unknown')
  assert.match(page.body, /4 outcomes are unknown\./)
  assert.match(unescaped(page.body), /data-plot="\{"labels":\["< 1 h","1–6 h"[^\]]*\],"values":\[3,1,0,0,0\]\}"/)
  assert.match((await visitor.get('/unknown?route=b&live=1')).body, /hx-trigger="every 10s"[\s\S]*2 outcomes are unknown/)
})

test('a queue that is watched goes on when it is empty, and is not called empty if it was not read to its end', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('viewer')
  assert.match((await visitor.get('/unknown?live=1')).body, /hx-trigger="every 10s"[\s\S]*No outcome is unknown\./)
  const id = await recordIn(world, 'indeterminate')
  const { operator } = world.store
  const searchRecords = operator.searchRecords.bind(operator)
  const [record] = (await searchRecords({ order: 'oldest', limit: 1, after: null, withinMs: 1_000 })).rows
  assert.equal(record?.id.toString('base64url'), id)
  // It has looked at others, and the time was over.
  operator.searchRecords = async () => ({ rows: [], next: { at: '1', id: Buffer.alloc(32) }, isWhole: false })
  const { body } = await visitor.get('/unknown?live=1')
  assert.doesNotMatch(body, /No outcome is unknown/)
  assert.match(body, /hx-trigger="every 10s"[\s\S]*not everything was searched/)
  assert.match((await visitor.get(`/unknown/${id}/done`)).body, /Whether other outcomes are unknown could not be read now/)
})

test('an outcome that is watched and becomes known is shown as a page, not left as it was', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('operator')
  const id = await recordIn(world, 'indeterminate')
  const part = { headers: { 'hx-request': 'true' } }
  assert.equal((await visitor.get(`/unknown/${id}?live=1`, part)).headers['hx-refresh'], undefined)
  await change(visitor, `/unknown/${id}/not`, { reason: 'it is not there' })
  const refreshed = await visitor.get(`/unknown/${id}?live=1`, part)
  assert.deepEqual([refreshed.status, refreshed.headers['hx-refresh']], [409, 'true'])
  const page = await visitor.get(`/unknown/${id}?live=1`)
  assert.deepEqual([page.status, page.headers['hx-refresh']], [409, undefined])
  assert.match(page.body, /<h1[^>]*>Its outcome is known now<[\s\S]*it is not there/)
})

test('a list offers a change of all that match to those who may make one', async (t) => {
  const world = await startConsole(t)
  for (const state of ['indeterminate', 'completed'] as const) await recordIn(world, state)
  const offers = async (role: Role, state: string) =>
    /Change all that match/.test((await (await world.as(role)).get(`/records?state=${state}`)).body)
  assert.deepEqual([await offers('operator', 'indeterminate'), await offers('reader', 'indeterminate')], [true, false])
  assert.deepEqual([await offers('admin', 'completed'), await offers('operator', 'completed')], [true, false])
})

test('fields that a page does not have are of no use: the owner and the operation come from the operation’s own shapes', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('operator')
  const id = await recordIn(world, 'completed')
  const path = `/records/${id}/delete`
  const page = await visitor.get(path)
  assert.equal(
    (await visitor.get(path, { method: 'POST', form: { ...hiddenFields(page.body, path), owner: 'x', reason: 'x' } })).status, 400
  )
  assert.equal(
    (await visitor.get(path, { method: 'POST', form: { ...hiddenFields(page.body, path), reason: 'x'.repeat(513) } })).status, 400
  )
  assert.equal(
    (await visitor.get(path, { method: 'POST', form: { ...hiddenFields(page.body, path), reason: 'x'.repeat(100_000) } })).status, 413
  )
  assert.equal(await stateOf(world, id), 'completed')
})

test('a message shows each of its deliveries, and the beginning of its answer to readers, as text', async (t) => {
  const world = await startConsole(t)
  const { inbox } = world.store
  const body = Buffer.from('<script>alert(1)</script>\u202e')
  const reply = { ms: 1_234, status: 503, contentType: 'text/html', body, isCut: true }
  const id = await messageIn(world, 'dead', { fate: { kind: 'dead', status: 503, error: 'TOO_OLD HTTP_503', answer: null, reply } })
  const [viewer, reader] = [await world.as('viewer'), await world.as('reader')]
  const page = (await reader.get(`/inbox/messages/${id}`)).body
  assert.match(page, /<h2>Deliveries<\/h2>[\s\S]*1 s[\s\S]*503 [\s\S]*TOO_OLD HTTP_503[\s\S]*text\/html[\s\S]*, only its beginning/)
  assert.match(page, /<pre class="body"[^>]*>&lt;script>alert\(1\)&lt;\/script>\[U\+202E\]<\/pre>/)
  const seen = (await viewer.get(`/inbox/messages/${id}`)).body
  assert.match(seen, /<h2>Deliveries<\/h2>[\s\S]*needs the role reader[\s\S]*TOO_OLD HTTP_503/)
  assert.doesNotMatch(seen, /alert|text\/html/)
  const waiting = await messageIn(world, 'waiting')
  assert.doesNotMatch((await reader.get(`/inbox/messages/${waiting}`)).body, /<h2>Deliveries/)
  assert.equal((await inbox.deliveries(Buffer.from(id, 'base64url'))).length, 1)
})
