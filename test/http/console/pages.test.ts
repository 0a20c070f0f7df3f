/** The console's pages from the server's side: what each role sees and may do, and what the pages are made of. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ROLES } from '../../../src/core/operator/roles.ts'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import { LONG_MS } from '../../conformance/record-world.ts'
import { ask } from '../sign-in/world.ts'
import type { Answer } from '../sign-in/world.ts'
import { hiddenFields, messageIn, recordIn, startConsole, TOKENS } from './world.ts'
import type { Console } from './world.ts'

/** Every page that is read, with what it needs. */
async function everyPage (world: Console): Promise<Array<readonly [path: string, heading: RegExp]>> {
  const completed = await recordIn(world, 'completed')
  const unknown = await recordIn(world, 'indeterminate', { question: Buffer.from('?') })
  const dead = await messageIn(world, 'dead')
  return [
    ['/overview', /^Overview$/],
    ['/explain', /^Explain$/],
    ['/configuration', /^Configuration$/],
    ['/records', /^Records$/],
    ['/records?state=completed', /^Records$/],
    [`/records/${completed}`, /^Record /],
    ['/unknown', /^Unknown outcomes$/],
    [`/unknown/${unknown}`, /^Unknown outcome /],
    [`/unknown/${completed}/done`, /^Decided$/],
    ['/inbox', /^Inbox$/],
    ['/inbox/groups?route=webhooks', /^Groups of route webhooks$/],
    ['/inbox/messages', /^Messages$/],
    ['/inbox/messages?state=dead', /^Dead letters$/],
    [`/inbox/messages/${dead}`, /^Message /],
    ['/audit', /^Audit$/]
  ]
}

/** Pages that begin a change. */
async function everyChange (world: Console): Promise<string[]> {
  const completed = await recordIn(world, 'completed')
  const unknown = await recordIn(world, 'indeterminate', { question: Buffer.from('?') })
  const dead = await messageIn(world, 'dead')
  return [
    `/records/${completed}/delete`, `/records/${unknown}/probe`, `/unknown/${unknown}/happened`, `/unknown/${unknown}/not`,
    '/records/changes?state=indeterminate', `/inbox/messages/${dead}/retry`, `/inbox/messages/${dead}/discard`,
    '/inbox/pause?route=webhooks', '/inbox/changes?state=dead'
  ]
}

function headingOf ({ body }: Answer): string {
  return /<h1>([^<]*)<\/h1>/.exec(body)?.[1] ?? ''
}

/** Headers that keep everything else out, and no script or style in the page itself. */
function assertClean (page: Answer, path: string): void {
  const policy = String(page.headers['content-security-policy'])
  assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/, path)
  assert.doesNotMatch(policy, /unsafe/, path)
  assert.deepEqual(
    [
      page.headers['cache-control'],
      page.headers['x-content-type-options'],
      page.headers['referrer-policy'],
      page.headers['cross-origin-opener-policy']
    ],
    ['no-store', 'nosniff', 'same-origin', 'same-origin'],
    path
  )
  assert.doesNotMatch(page.body, /<style|\sstyle=|<[^>]*\son\w+=|javascript:/i, path)
  for (const [, attributes = '', content] of page.body.matchAll(/<script([^>]*)>([^<]*)/g)) {
    assert.deepEqual([/ src="\/assets\//.test(attributes), content], [true, ''], path)
  }
  for (const [, target = ''] of page.body.matchAll(/(?:href|src|action)="([^"]*)"/g)) assert.match(target, /^(?:#|\/(?!\/))/, path)
}

test('every page is shown to every role, and is clean', async (t) => {
  const world = await startConsole(t)
  const pages = await everyPage(world)
  for (const role of ROLES) {
    const visitor = await world.as(role)
    for (const [path, heading] of pages) {
      const page = await visitor.get(path)
      assert.equal(page.status, 200, `${role} ${path}: ${page.body}`)
      assert.match(headingOf(page), heading)
      assert.match(page.body, new RegExp(`an-${role}`), path)
      assertClean(page, path)
    }
  }
})

test('changes are shown to operators and admins, and refused to others with a sentence', async (t) => {
  const world = await startConsole(t)
  const changes = await everyChange(world)
  const operator = await world.as('operator')
  for (const path of changes) {
    const page = await operator.get(path)
    assert.equal(page.status, 200, `${path}: ${page.body}`)
    assert.match(page.body, /name="reason"/, path)
    assertClean(page, path)
  }
  const forms = await Promise.all(
    changes.map(async (path) => hiddenFields((await operator.get(path)).body, path.replace(/\?state=.*/, '')))
  )
  for (const role of ['viewer', 'reader'] as const) {
    const visitor = await world.as(role)
    for (const [at, path] of changes.entries()) {
      const [shown, sent] = [await visitor.get(path), await visitor.get(path, { method: 'POST', form: { ...forms[at], reason: 'no' } })]
      assert.deepEqual([shown.status, sent.status], [403, 403], path)
      assert.match(sent.body, new RegExp(`needs the role operator, and yours is ${role}`), path)
    }
    for (const [path] of await everyPage(world)) assert.doesNotMatch((await visitor.get(path)).body, / …<\/a>/, `${role} ${path}`)
  }
  assert.deepEqual(world.logged.filter(({ event }) => event === 'operator-change'), [])
})

test('a stored answer is shown from the role reader on, as text', async (t) => {
  const world = await startConsole(t)
  const body = Buffer.from('<img src=x onerror=alert(1)>')
  const id = await recordIn(world, 'completed', { headers: ['X-Odd', '"><script>alert(1)</script>', 'Set-Cookie', 'session=secret'], body })
  const [viewer, reader] = [await world.as('viewer'), await world.as('reader')]
  const hidden = await viewer.get(`/records/${id}`)
  assert.match(hidden.body, /needs the role reader/)
  assert.doesNotMatch(hidden.body, /onerror/)
  const shown = await reader.get(`/records/${id}`)
  assert.match(shown.body, /&lt;img src=x onerror=alert\(1\)>/)
  assert.match(shown.body, /&lt;script>/)
  assert.doesNotMatch(shown.body, /secret/)
  assert.doesNotMatch(shown.body, /<img|<script>/)
})

test('of a gateway that died with a record, no page says that it sent it', async (t) => {
  const world = await startConsole(t)
  const id = await recordIn(world, 'claimed')
  world.advance(LONG_MS + 1)
  await world.store.lapse({ ids: null, running: [], limit: 1, still: () => true })
  const { body } = await (await world.as('viewer')).get(`/unknown/${id}`)
  assert.match(body, /The gateway that had it died, or lost its database, while it was in flight\. Whether it was sent is not known/)
  assert.doesNotMatch(body, /that sent it/)
})

const PAYLOADS = [
  '<script>alert(1)</script>', '"><img src=x onerror=alert(1)>', '\' autofocus onfocus=alert(1) \'', 'javascript:alert(1)',
  '//evil.example', '</textarea><svg onload=alert(1)>',
  'a\u202egnp.exe\u0007\u200b'
]

test('what clients, consumers and operators sent is text on every page that shows it', async (t) => {
  const world = await startConsole(t)
  const operator = await world.as('admin')
  for (const payload of PAYLOADS) {
    const about = { route: payload, method: 'POST', path: payload, requestId: payload, instance: payload, keyText: payload }
    const [completed, unknown] = [
      await recordIn(world, 'completed', { about, body: Buffer.from(payload) }),
      await recordIn(world, 'indeterminate', { about, code: payload })
    ]
    const dead = await messageIn(world, 'dead', {
      about,
      fate: {
        kind: 'dead', status: 410, error: payload, answer: { status: 410, headers: ['X-Odd', payload], body: Buffer.from(payload) }
      }
    })
    await world.store.operator.pause(payload, { who: payload, via: 'cli', why: payload })
    await world.store.inbox.retry({ id: Buffer.from(dead, 'base64url'), limit: 1 }, { who: payload, via: 'cli', why: payload })
    const named = encodeURIComponent(payload.toWellFormed())
    for (const path of [
      '/records', `/records/${completed}`, `/records/${completed}/delete`, '/unknown', `/unknown/${unknown}`,
      `/unknown/${unknown}/happened`, `/unknown/${unknown}/not`, `/unknown/${completed}/happened`, '/inbox', '/inbox/messages',
      `/inbox/messages/${dead}`, `/inbox/messages/${dead}/retry`, '/audit', `/inbox/resume?route=${named}`,
      `/records?route=${named}&key=${named}&requestId=${named}&path=${named}`, `/inbox/messages?route=${named}&path=${named}`,
      `/audit?who=${named}&route=${named}`, '/records/changes?state=completed', `/unknown?route=${named}`, `/records?state=${named}`
    ]) {
      const page = await operator.get(path)
      assert.ok(page.status < 500, `${path}: ${page.status}`)
      // Without texts and values, in which the payloads may stand.
      assertClean({ ...page, body: page.body.replaceAll(/>[^<]*/g, '>').replaceAll(/(?<=(?:value|content)=")[^"]*/g, '') }, path)
      assert.doesNotMatch(page.body, /<img|<script>|<svg on|<\/textarea><svg/, path)
      const shown = page.body.replaceAll(/(?:value|href|action)="[^"]*"/g, '')
      assert.deepEqual(['\u202e', '\u0007', '\u200b'].filter((unseen) => shown.includes(unseen)), [], path)
    }
  }
})

test('a change needs the form of this session: no token, a token of another session and another site are refused', async (t) => {
  const world = await startConsole(t)
  const id = await recordIn(world, 'completed')
  const [ann, bob] = [await world.as('operator'), await world.as('admin')]
  const path = `/records/${id}/delete`
  const mine = hiddenFields((await ann.get(path)).body, path)
  const others = hiddenFields((await bob.get(path)).body, path)
  const send = async (form: Record<string, string>, headers = {}) => (await ann.get(path, { method: 'POST', form, headers })).status
  assert.equal(await send({ ...mine, csrf: '', reason: 'x' }), 403)
  assert.equal(await send({ ...mine, csrf: others.csrf ?? '', reason: 'x' }), 403)
  assert.equal(await send({ ...mine, reason: 'x' }, { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }), 403)
  assert.equal((await world.store.list({ id: Buffer.from(id, 'base64url'), limit: 1 }))[0]?.state, 'completed')
  assert.equal(await send({ ...mine, reason: 'x' }), 303)
})

test('whoever is not signed in is led to sign in, and back; a script is told to load the page again', async (t) => {
  const { url } = await startConsole(t)
  const page = await ask(`${url}/records?state=completed&path=%2Fv1%2F*`)
  assert.deepEqual([page.status, page.location], [303, '/sign-in?next=%2Frecords%3Fstate%3Dcompleted%26path%3D%252Fv1%252F*'])
  const sent = await ask(`${url}/inbox/pause?route=a`, { method: 'POST', form: { reason: 'x' } })
  assert.equal(sent.location, '/sign-in?next=%2Finbox%2Fpause%3Froute%3Da')
  const part = await ask(`${url}/unknown`, { headers: { 'hx-request': 'true' } })
  assert.deepEqual([part.status, part.headers['hx-refresh'], part.body], [401, 'true', ''])
  const wrong = await ask(`${url}/records`, { headers: { authorization: `Bearer ${'x'.repeat(20)}` } })
  assert.equal(wrong.status, 401)
  assert.doesNotMatch(wrong.body, /<nav/)
})

test('the sign-in page says what is wrong, keeps the way on, and is clean', async (t) => {
  const { url } = await startConsole(t)
  const page = await ask(`${url}/sign-in?next=/audit`)
  assert.match(page.body, /name="next" value="\/audit"/)
  assertClean(page, '/sign-in')
  const wrong = await ask(
    `${url}/sign-in`, { method: 'POST', form: { token: '<b>', next: '//evil.example' }, headers: { 'sec-fetch-site': 'same-origin' } }
  )
  assert.equal(wrong.status, 401)
  assert.match(wrong.body, /role="alert"[^>]*>This token is not known/)
  assert.match(wrong.body, /name="next" value="\/"/)
  assert.doesNotMatch(wrong.body, /<b>|&lt;b>/)
})

test('a bearer token reads pages too, and needs no token of a form', async (t) => {
  const world = await startConsole(t)
  const id = await recordIn(world, 'completed')
  const headers = { authorization: `Bearer ${TOKENS.operator}` }
  const path = `${world.url}/records/${id}/delete`
  const page = await ask(path, { headers })
  assert.equal(page.status, 200)
  assert.equal(
    (await ask(path, { method: 'POST', headers, form: { ...hiddenFields(page.body, new URL(path).pathname), reason: 'x' } })).status, 303
  )
})

test('on loopback without a sign-in the view is read-only and says so; elsewhere there is no console', async (t) => {
  const local = await startConsole(t, { admin: 'host: 127.0.0.1' })
  const id = await recordIn(local, 'completed')
  const page = await ask(`${local.url}/records/${id}`)
  assert.equal(page.status, 200)
  assert.match(page.body, /Nobody is signed in/)
  assert.doesNotMatch(page.body, /Forget it now|Sign out/)
  assert.equal((await ask(`${local.url}/records/${id}/delete`)).status, 403)
  const open = await startConsole(t, { admin: 'host: 0.0.0.0' })
  for (const path of ['/', '/records', '/unknown', '/audit']) {
    const answer = await ask(open.url + path)
    assert.deepEqual([answer.status, answer.body], [404, '{"error":"not found"}'], path)
  }
})

test('assets are kept for a year under the name of their content, and each page names those that there are', async (t) => {
  const world = await startConsole(t)
  const page = await (await world.as('viewer')).get('/records')
  const names = Array.from(page.body.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g), ([, name = '']) => name)
  assert.equal(names.length, 6)
  for (const name of names) {
    const asset = await ask(world.url + name)
    assert.equal(asset.status, 200, name)
    assert.equal(asset.headers['cache-control'], 'public, max-age=31536000, immutable')
    assert.ok(asset.body.length > 100)
  }
  assert.equal((await ask(`${world.url}/assets/console-0.js`)).status, 404)
  assert.equal((await ask(`${world.url}/assets/..%2f..%2fpackage.json`)).status, 404)
})

test('what is not there and what cannot be read is a page that says so', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('admin')
  const nobody = 'A'.repeat(43)
  for (const [path, status] of [
    [`/records/${nobody}`, 404], ['/records/xyz', 400], [`/unknown/${nobody}`, 404], [`/inbox/messages/${nobody}`, 404], [
      '/inbox/pause?route=nothing', 404
    ], ['/records?limit=0', 400],
    ['/records?state=nothing', 400], ['/records?cursor=xyz', 400], ['/records?from=yesterday', 400], ['/audit?action=x', 400], [
      '/records/export?format=xml', 400
    ], ['/records?limit=9999', 400],
    ['/records/changes?state=claimed', 400], ['/records?nothing=1', 400], ['/inbox/changes', 400]
  ] as const) {
    const page = await visitor.get(path)
    assert.equal(page.status, status, `${path}: ${page.body}`)
    assert.match(page.body, /role="alert"/, path)
    assertClean(page, path)
  }
})

test('a store that is away is a page that says so, and a bug is a page without its trace', async (t) => {
  const world = await startConsole(t)
  const visitor = await world.as('viewer')
  const gone = () => Promise.reject(new StoreUnavailable('sqlite', 'search', false, new Error('it is <away>')))
  const { operator } = world.store
  const before = { unknownByRoute: operator.unknownByRoute, paused: operator.paused, gateways: operator.gateways }
  Object.assign(operator, { unknownByRoute: gone, paused: gone, gateways: gone })
  const overview = await visitor.get('/overview')
  assert.deepEqual([overview.status, overview.body.split('Not read: it is &lt;away>').length - 1], [200, 3], overview.body)
  assert.match(overview.body, /Last reload/)
  assertClean(overview, '/overview')
  Object.assign(operator, before)
  world.breaks = new StoreUnavailable('sqlite', 'search', false)
  const away = await visitor.get('/records')
  assert.equal(away.status, 503)
  assert.match(away.body, /The store cannot be used now/)
  world.breaks = new Error('connect ECONNREFUSED')
  const bug = await visitor.get('/records')
  assert.equal(bug.status, 500)
  assert.doesNotMatch(bug.body, /ECONNREFUSED|at .*\.ts/)
  assertClean(bug, '/records')
})
