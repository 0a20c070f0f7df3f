import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { inboxWith } from '../../src/cli/inbox.ts'
import type { Fate, NewMessage } from '../../src/core/inbox/message.ts'
import { StartError } from '../../src/ports/errors.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import { NO_LOCKS } from '../../src/store/shared/no-locks.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import type { SqliteStore } from '../../src/store/sqlite/store.ts'
import { directory, messageOf, say } from './world.ts'
import type { Said } from './world.ts'

const OWNER = Buffer.alloc(16, 7)
const MINUTE_MS = 60_000
const WHY = ['--who', 'ada', '--why', 'the consumer is mended']

/** An inbox that a gateway holds open while the command works beside it. */
class Desk {
  nowMs = Date.UTC(2026, 0, 1)
  readonly #store: SqliteStore
  closed = 0

  readonly directory: string

  private constructor (store: SqliteStore, directory: string) {
    this.#store = store
    this.directory = directory
  }

  static async open (t: TestContext): Promise<Desk> {
    const clock: { desk: Desk | null } = { desk: null }
    const dataDir = directory(t)
    const store = await openSqlite({ dataDir, exclusive: true, nowMs: () => clock.desk?.nowMs ?? Date.UTC(2026, 0, 1) })
    t.after(() => store.close())
    clock.desk = new Desk(store, dataDir)
    return clock.desk
  }

  get inbox (): InboxStore { return this.#store.inbox }

  async audits (): Promise<ReadonlyArray<{ action: string, id: Buffer | null, who: string, why: string }>> {
    const { rows } = await this.#store.operator.searchAudit({ order: 'oldest', limit: 100, after: null, withinMs: 10_000 })
    return rows.map(({ action, id, who, why }) => ({ action, id, who, why }))
  }

  async say (...argv: readonly string[]): Promise<Said> {
    const lines: { out: string[], err: string[] } = { out: [], err: [] }
    const terminal = { env: {}, out: (line: string) => { lines.out.push(line) }, err: (line: string) => { lines.err.push(line) } }
    const said = (exitCode: number): Said => ({ exitCode, out: lines.out.join('\n'), err: lines.err.join('\n') })
    const { inbox, operator } = this.#store
    const command = inboxWith(async () => ({
      inbox,
      operator,
      records: this.#store,
      locks: NO_LOCKS,
      aheadMs: 0,
      secrets: () => [],
      close: async () => { this.closed++ }
    }))
    try {
      return said(await command.run(argv, terminal))
    } catch (error) {
      if (!(error instanceof StartError)) throw error
      lines.err.push(error.message)
      return said(error.exitCode)
    }
  }

  async accept (key: string, changes: Partial<NewMessage> = {}): Promise<Buffer> {
    const message = messageOf(key, changes)
    await this.inbox.accept(message)
    return message.id
  }

  /** Delivered once, and it came to this. */
  async leave (key: string, fate: Fate | null, changes: Partial<NewMessage> = {}): Promise<Buffer> {
    const id = await this.accept(key, changes)
    await this.inbox.alive(OWNER, MINUTE_MS)
    const [delivery] = await this.inbox.take({ owner: OWNER, routes: [{ route: 'hooks', places: 1 }] })
    assert.ok(delivery !== undefined && delivery.token.id.equals(id))
    if (fate !== null) await this.inbox.settle(delivery.token, fate)
    return id
  }

  async state (id: Buffer): Promise<string> {
    return (await this.inbox.look(id))?.state ?? 'none'
  }
}

const DEAD: Fate = {
  kind: 'dead',
  status: 422,
  error: 'ATTEMPTS_SPENT HTTP_422',
  answer: {
    status: 422,
    headers: ['Content-Type', 'text/plain', 'Set-Cookie', 'a=hunter2', 'X-Odd', 'a\x9b2Jb'],
    body: Buffer.from('4242 refused')
  }
}
const HELD: Fate = { kind: 'held', error: 'ECONNRESET' }
const DELIVERED: Extract<Fate, { kind: 'delivered' }> = { kind: 'delivered', status: 204, answer: null }

const text = (id: Buffer): string => id.toString('base64url')

test('list finds messages by route, state, key and age, oldest first, and shows no body', async (t) => {
  const desk = await Desk.open(t)
  const dead = await desk.leave('e-1', DEAD)
  desk.nowMs += 10 * MINUTE_MS
  await desk.accept('e-2')
  const all = await desk.say('list')
  assert.deepEqual([all.exitCode, all.out.split('\n').length, desk.closed], [0, 4, 1])
  assert.match(all.out, /^Messages in the embedded store under \S+, the oldest first:\nID {43}STATE {4}ATTEMPT {2}RECEIVED/)
  assert.equal(
    all.out.split('\n')[2],
    `${text(dead)}  dead     1        2026-01-01T00:00:00.000Z  hooks  POST /hooks  ATTEMPTS_SPENT HTTP_422`
  )
  for (const [filter, keys] of [
    [['--state', 'dead'], ['e-1']],
    [['--route', 'hooks'], ['e-1', 'e-2']],
    [['--key', 'e-2'], ['e-2']],
    [['--older-than', '5m'], ['e-1']],
    [['--limit', '1'], ['e-1']]
  ] as const) {
    const { out } = await desk.say('list', '--json', ...filter)
    assert.deepEqual(out.split('\n').map((line) => (JSON.parse(line) as { key: string }).key), keys, filter.join(' '))
  }
  assert.match(
    (await desk.say('list', '--route', 'other')).err,
    /^No route of the configuration has this name\.\nNo such messages in the embedded store under \S+\.$/
  )
})

test('list says when there may be more than it shows, and how to see it', async (t) => {
  const desk = await Desk.open(t)
  for (let count = 0; count < 51; count++) await desk.accept(`e-${count}`)
  const said = 'There may be more: use a larger --limit or a narrower filter.'
  for (const [args, shown, err] of [
    [[], 50, `The limit of 50 is reached. ${said}`],
    [['--json'], 50, `The limit of 50 is reached. ${said}`],
    [['--limit', '7'], 7, `The limit of 7 is reached. ${said}`],
    [['--limit', '52'], 51, '']
  ] as const) {
    const list = await desk.say('list', ...args)
    assert.deepEqual(
      [list.exitCode, list.out.split('\n').length, list.err],
      [0, shown + (args.includes('--json' as never) ? 0 : 2), err],
      args.join(' ')
    )
  }
})

test('an option that a subcommand does not take is said to be none of its own', async (t) => {
  const desk = await Desk.open(t)
  const id = text(await desk.leave('e-1', DEAD))
  for (const [args, err] of [
    [['show', id, '--state', 'dead'], '--state is not for inbox show.'],
    [['show', id, '--why', 'x'], '--why is not for inbox show.'],
    [['list', '--all'], '--all is not for inbox list.'],
    [['list', '--who', 'ada'], '--who is not for inbox list.']
  ] as const) {
    assert.deepEqual(await desk.say(...args), { exitCode: 2, out: '', err }, args.join(' '))
  }
})

test('show tells everything but bodies and credentials, with the last answer', async (t) => {
  const desk = await Desk.open(t)
  const id = await desk.leave('e-1', DEAD)
  for (const name of [text(id), id.toString('hex')]) {
    const { exitCode, out } = await desk.say('show', name)
    assert.equal(exitCode, 0)
    for (const line of [
      /^state: +dead$/m,
      /^error: +ATTEMPTS_SPENT HTTP_422$/m,
      /^last status: +422$/m,
      /^attempt: +1$/m,
      /^request body: +15 bytes$/m,
      /^answer: +422, body of 12 bytes$/m,
      /^answer header: +Set-Cookie: \*\*\*$/m,
      /^answer header: +X-Odd: a\?2Jb$/m,
      /^delivery: +1 at 2026-01-01T00:00:00\.\d{3}Z, ATTEMPTS_SPENT HTTP_422, status 422$/m
    ]) {
      assert.match(out, line)
    }
  }
  const json = (await desk.say('show', text(id), '--json')).out
  const { state, lastStatus, answer } = JSON.parse(json) as Record<string, unknown>
  assert.deepEqual(
    [state, lastStatus, answer],
    ['dead', 422, { status: 422, headers: [['Content-Type', 'text/plain'], ['Set-Cookie', '***'], ['X-Odd', 'a?2Jb']], bodyBytes: 12 }]
  )
  for (const out of [json, (await desk.say('show', text(id))).out, (await desk.say('list')).out]) assert.doesNotMatch(out, /hunter2|4242/)
})

test('a retry in an inbox that is paused, or that no route delivers, says that it goes on waiting', async (t) => {
  const desk = await Desk.open(t)
  const dead = await desk.leave('e-1', DEAD)
  const file = join(desk.directory, 'onceway.yaml')
  const write = (name: string): void => {
    writeFileSync(file, `version: 1
dataDir: ${desk.directory}
upstreams: { a: { url: "http://127.0.0.1:1" } }
routes: [{ name: ${name}, match: { path: /x }, upstream: a, idempotency: { mode: inbox, scope: public } }]
`)
  }
  write('hooks')
  const retry = async (...argv: readonly string[]): Promise<string> => (await desk.say('retry', ...argv, ...WHY, '--config', file)).err
  assert.equal(await retry(text(dead)), '')
  await desk.say('pause', '--route', 'hooks', ...WHY)
  const paused = 'hooks is paused: what waits is not delivered until somebody resumes it, or a trial is taken.'
  assert.equal(await retry(text(dead)), paused)
  assert.equal(await retry('--all', '--state', 'waiting'), paused)
  const other = await desk.accept('e-2')
  assert.equal((await desk.say('discard', text(other), ...WHY, '--config', file)).err, '', 'it waits for nothing')
  await desk.say('resume', '--route', 'hooks', ...WHY)
  write('others')
  assert.equal(await retry(text(dead)), 'No route of the configuration delivers what waits in hooks.')
  assert.match((await desk.say('routes', '--config', file)).out, /hooks +1 .* {2}not configured: nothing delivers it/)
  const change = async (name: string): Promise<string> => (await desk.say(name, '--route', 'hooks', ...WHY, '--config', file)).out
  const isGone = 'No route of the configuration has this inbox, so nothing is'
  assert.match(await change('pause'), new RegExp(`^hooks in .*: Paused\\. ${isGone} accepted either\\.$`))
  assert.match((await desk.say('routes', '--config', file)).out, /hooks +1 .* since \S+ by ada; not configured: nothing delivers it/)
  assert.match(await change('resume'), new RegExp(`^hooks in .*: Resumed\\. ${isGone} delivered\\.$`))
})

test('retry and discard change one message, and say who and why', async (t) => {
  const desk = await Desk.open(t)
  const [dead, held] = [await desk.leave('e-1', DEAD), await desk.leave('e-2', HELD)]
  const again = await desk.say('retry', text(dead), ...WHY)
  assert.deepEqual([again.exitCode, again.err], [0, ''])
  assert.equal(
    again.out,
    `${text(dead)} waits again. Before: state dead, attempt 1, ATTEMPTS_SPENT HTTP_422. Now: state waiting, attempt 1, HTTP_422.`
  )
  assert.equal(JSON.parse((await desk.say('discard', text(held), '--json', ...WHY)).out).state, 'discarded')
  assert.deepEqual([await desk.state(dead), await desk.state(held)], ['waiting', 'discarded'])
  assert.deepEqual(await desk.audits(), [
    { action: 'retry', id: dead, who: 'ada', why: 'the consumer is mended' },
    { action: 'discard', id: held, who: 'ada', why: 'the consumer is mended' }
  ])
})

test('what is being delivered or was delivered is not changed, and stands as it was', async (t) => {
  const desk = await Desk.open(t)
  const [done, running] = [await desk.leave('e-1', DELIVERED), await desk.leave('e-2', null)]
  for (const [id, state] of [[done, 'delivered'], [running, 'delivering']] as const) {
    for (const name of ['retry', 'discard']) {
      const { exitCode, out, err } = await desk.say(name, text(id), ...WHY)
      assert.deepEqual([exitCode, out], [1, ''])
      assert.match(err, new RegExp(`^onceway: refused, nothing changed\\. Only a message that is waiting, held or dead can be changed\\. Now: state ${state}, attempt 1\\.$`))
    }
    assert.equal(await desk.state(id), state)
  }
  assert.deepEqual(await desk.audits(), [])
})

test('replay delivers what was delivered once more while its request is kept, one message or those of a time range', async (t) => {
  const desk = await Desk.open(t)
  const kept: Fate = { ...DELIVERED, requestMs: 60 * MINUTE_MS }
  const ids: Buffer[] = []
  for (const [key, fate] of [['e-1', DELIVERED], ['e-2', kept], ['e-3', kept], ['e-4', kept]] as const) {
    desk.nowMs += MINUTE_MS
    ids.push(await desk.leave(key, fate))
  }
  const [gone = OWNER, early = OWNER, middle = OWNER, late = OWNER] = ids
  const at = (minutes: number): string => new Date(Date.UTC(2026, 0, 1) + minutes * MINUTE_MS).toISOString()
  const refused = await desk.say('replay', text(gone), ...WHY)
  assert.equal(refused.exitCode, 1)
  assert.match(refused.err, /^onceway: refused, nothing changed\. The request of this message is gone.*maxKept, inbox\.maxKeptBytes.* Now: state delivered, attempt 1\.$/)
  assert.match((await desk.say('show', text(early))).out, /^kept until: {4}2026-01-01T01:02:00\.000Z$/m)
  const one = await desk.say('replay', text(late), ...WHY)
  assert.match(one.out, /is delivered once more\. Before: state delivered, attempt 1\. Now: state waiting, attempt 1\.$/)
  assert.match((await desk.say('show', text(late))).out, /^replayed: /m)

  desk.nowMs += MINUTE_MS
  const range = ['replay', '--all', '--route', 'hooks', '--from', at(1), '--to', at(3)]
  const many = await desk.say(...range, ...WHY)
  assert.deepEqual([many.exitCode, many.out.replace(/ in .* are/, ' are')], [0, '1 of 2 messages are delivered once more.'])
  assert.match(many.err, /^1 refused: The request of this message is gone/)
  assert.deepEqual(await Promise.all(ids.map((id) => desk.state(id))), ['delivered', 'waiting', 'delivered', 'waiting'])
  assert.equal((await desk.inbox.look(middle))?.replayedAtMs, null)
  assert.deepEqual((await desk.audits()).map(({ action, who }) => [action, who]), [['replay', 'ada'], ['replay', 'ada']])
  for (const [argv, why] of [
    [['replay', '--all', ...WHY], /--route/],
    [[...range, '--limit', '3', ...WHY], /--limit is not for/],
    [[...range, '--state', 'dead', ...WHY], /Only delivered messages/],
    [[...range, '--older-than', '1m', ...WHY], /say the same/],
    [['list', '--group', 'a'], /A group is one of a route/]
  ] as const) {
    const { exitCode, err } = await desk.say(...argv)
    assert.equal(exitCode, 2, err)
    assert.match(err, why)
  }
})

test('a replay that finds nothing says so as other changes do', async (t) => {
  const desk = await Desk.open(t)
  const none = ['replay', '--all', '--route', 'nope', ...WHY]
  assert.deepEqual([(await desk.say(...none)).out, (await desk.say(...none, '--json')).out], ['', '{"counted":0,"changed":0}'])
  const { exitCode: code, err: said } = await desk.say(...none)
  assert.deepEqual([code, said.split('\n').at(-1)?.replace(/ in .*/, '')], [1, 'No such messages'])
})

test('--all changes what the filter finds, at most so many, and says when there may be more', async (t) => {
  const desk = await Desk.open(t)
  const dead = [await desk.leave('e-1', DEAD), await desk.leave('e-2', DEAD), await desk.leave('e-3', DEAD)]
  const held = await desk.leave('e-4', HELD)
  const first = await desk.say('retry', '--all', '--state', 'dead', '--limit', '2', ...WHY)
  assert.deepEqual([first.exitCode, first.out], [0, dead.slice(0, 2).map((id) => `${text(id)} waits again.`).join('\n')])
  assert.match(first.err, /^The limit of 2 is reached\. There may be more: use the same command\.$/)
  const rest = await desk.say('retry', '--all', '--state', 'dead', '--limit', '2', '--route', 'hooks', ...WHY)
  assert.deepEqual(rest, { exitCode: 0, out: `${text(dead[2] as Buffer)} waits again.`, err: '' })
  assert.match(
    (await desk.say('discard', '--all', '--state', 'held', '--key', 'e-1', ...WHY)).err,
    /^No such messages in the embedded store/
  )
  assert.equal((await desk.say('discard', '--all', '--state', 'held', '--key', 'e-1', ...WHY)).exitCode, 0)
  assert.equal((await desk.say('discard', '--all', '--state', 'held', '--route', 'hoks', ...WHY)).exitCode, 1, 'a mistaken name')
  assert.equal(await desk.state(held), 'held')
  assert.equal(JSON.parse((await desk.say('discard', '--all', '--state', 'held', '--json', ...WHY)).out).state, 'discarded')
  assert.deepEqual((await desk.audits()).map(({ action, id }) => [action, id]), [...dead.map((id) => ['retry', id]), ['discard', held]])
})

test('beside a gateway that holds the embedded store open, it changes the message that is there', async (t) => {
  const dataDir = directory(t)
  const store = await openSqlite({ dataDir, exclusive: true })
  t.after(() => store.close())
  const message = messageOf('e-1')
  await store.inbox.accept(message)
  const at = ['--data-dir', dataDir]
  assert.match((await say(['inbox', 'list', '--route', 'hooks', ...at])).out, new RegExp(`\n${text(message.id)}  waiting `))
  const done = await say(['inbox', 'discard', '--all', '--state', 'waiting', '--key', 'e-1', ...WHY, ...at])
  assert.deepEqual(done, { exitCode: 0, out: `${text(message.id)} is discarded.`, err: '' })
  assert.equal((await store.inbox.look(message.id))?.state, 'discarded')
  assert.equal((await say(['inbox', 'retry', text(message.id), ...WHY, ...at])).exitCode, 1)
})

test('an id that starts with a dash is an id', async (t) => {
  const { exitCode, err } = await (await Desk.open(t)).say('show', `-${'A'.repeat(42)}`)
  assert.equal(exitCode, 1)
  assert.match(err, /There is no message f8/)
})

test('what is missing or malformed is exit 2 and changes nothing', async (t) => {
  const desk = await Desk.open(t)
  const id = await desk.leave('e-1', DEAD)
  for (const argv of [
    [], ['forget'], ['show'], ['show', 'xyz'], ['list', '--state', 'lost'], ['list', '--limit', '0'],
    ['list', '--limit', '10001'], ['list', '--older-than', '5'], ['list', '--older-than', '0s'], ['list', '--all'],
    ['retry', text(id)], ['retry', ...WHY], ['retry', text(id), text(id), ...WHY],
    ['retry', text(id), '--why', 'x'.repeat(513)], ['retry', text(id), '--why', ' \t'],
    ['discard', text(id), '--why', 'a reason', '--who', ' '], ['retry', '--state', 'dead', ...WHY],
    ['retry', text(id), '--state', 'dead', ...WHY],
    ['retry', '--all', ...WHY], ['retry', '--all', text(id), '--state', 'dead', ...WHY],
    ['retry', '--all', '--route', 'hooks', ...WHY], ['discard', '--all', '--state', 'delivering', ...WHY],
    ['discard', '--all', '--state', 'dead']
  ]) {
    assert.equal((await desk.say(...argv)).exitCode, 2, argv.join(' '))
  }
  assert.equal(await desk.state(id), 'dead')
  assert.deepEqual(await desk.audits(), [])
})
