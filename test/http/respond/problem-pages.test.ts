/** What a problem's code means, from the gateway itself (docs/reference/http.md). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PROBLEMS, problem } from '../../../src/core/protocol/problems.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { call } from '../../harness/call.ts'
import { faulty } from '../../harness/faulty-store.ts'
import { startGuarded } from '../../harness/gateway.ts'

const PATH = '/.well-known/onceway/problems'

test('a problem links to a page of the gateway that says what it means and whether to retry', async (t) => {
  const { url, ask } = await startGuarded(t)
  const refused = await ask('SECRET with space')
  assert.equal(refused.headers['link'], `<${PATH}/key-invalid>; rel="describedby"; type="text/html"`)
  const page = await call(url, /<([^>]*)>/.exec(String(refused.headers['link']))?.[1] ?? '', { method: 'GET' })
  assert.deepEqual([page.status, page.headers['content-type']], [200, 'text/html; charset=utf-8'])
  assert.match(page.text, /<code>key-invalid<\/code>[^]*malformed, repeated, too long[^]*Retry with the same key\?/)
  assert.equal(page.headers['x-content-type-options'], 'nosniff')
  assert.match(String(page.headers['content-security-policy']), /^default-src 'none';/)
  assert.ok(!page.text.includes('SECRET') && !/<script|<style|https?:/i.test(page.text))
})

test('every code has a page, the list links to each of them, and all of them are well-formed', async (t) => {
  const { url, witness } = await startGuarded(t)
  const list = await call(url, PATH, { method: 'GET' })
  for (const code of Object.keys(PROBLEMS)) {
    assert.ok(list.text.includes(`href="${PATH}/${code}"`), code)
    const page = await call(url, `${PATH}/${code}`, { method: 'GET' })
    assert.equal(page.status, 200, code)
    assert.ok(page.text.includes('<dt>When</dt><dd>') && !/<dd><\/dd>|`|\]\(/.test(page.text), code)
  }
  assert.equal(witness.seen.length, 0, 'none of them goes to the upstream')
})

test('whoever asks for text gets text, HEAD gets the head, other methods 405 and unknown codes 404', async (t) => {
  const { url, witness } = await startGuarded(t)
  const text = await call(url, `${PATH}/in-flight`, { method: 'GET', headers: { Accept: 'text/plain' } })
  assert.equal(text.headers['content-type'], 'text/plain; charset=utf-8')
  assert.match(text.text, /^in-flight: The first request with this key is still running\n/)
  for (const Accept of ['*/*', 'text/html, text/plain;q=0.5']) {
    assert.match(String((await call(url, PATH, { method: 'GET', headers: { Accept } })).headers['content-type']), /^text\/html/)
  }
  const head = await call(url, PATH, { method: 'HEAD' })
  assert.deepEqual([head.status, head.text], [200, ''])
  assert.ok(Number(head.headers['content-length']) > 1000)
  for (const method of ['POST', 'DELETE', 'OPTIONS']) {
    const refused = await call(url, PATH, { method, headers: { 'Idempotency-Key': 'k' } })
    assert.deepEqual([refused.status, refused.headers['allow'], refused.json.code], [405, 'GET, HEAD', 'bad-request'], method)
  }
  for (const code of ['constructor', 'nothing', '%3Cb%3E', 'in-flight/']) {
    const unknown = await call(url, `${PATH}/${code}`, { method: 'GET' })
    assert.deepEqual([unknown.status, unknown.json.code], [404, 'no-route'], code)
    assert.doesNotMatch(unknown.text, /constructor|nothing|%3C|<b>/)
  }
  assert.equal(witness.seen.length, 0)
})

test('only that path is the gateway\'s own: what is beside it, and what names it in a query, goes to the upstream', async (t) => {
  const { url, witness } = await startGuarded(t)
  const targets = ['/.well-known/onceway/problem', `/things?next=${PATH}`, `${PATH}s`, `/x${PATH}`]
  for (const target of targets) await call(url, target, { body: 'x' })
  assert.deepEqual(witness.seen.map(({ target }) => target), targets)
})

test('the pages are there while the stores are down', async (t) => {
  const records = faulty(new MemoryStore({ nowMs: Date.now }))
  records.faults.set('insert', async () => { throw new Error('down') })
  records.faults.set('look', async () => { throw new Error('down') })
  const { url } = await startGuarded(t, { world: { records: records.store } })
  assert.equal((await call(url, `${PATH}/store-unavailable`, { method: 'GET' })).status, 200)
})

test('with a problemBaseUri that can be followed, the type is the link', () => {
  const link = (base: string) => problem('in-flight', { requestId: 'r', base }).headers.includes('Link')
  assert.deepEqual(['urn:onceway:problem:', 'https://docs.example/problems#', 'HTTP://docs.example/'].map(link), [true, false, false])
})
