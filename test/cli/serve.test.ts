import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { ANOTHER_WISH_MS, Onceway, pay } from './onceway.ts'
import { directory, fileIn } from './world.ts'

test('without anything it guards a toy payments API, prints what to try, and ends with 0 on SIGTERM', async (t) => {
  const onceway = new Onceway(t, ['serve'])
  const { url } = await onceway.urls()
  await onceway.says(/curl -i http:.* -H 'Idempotency-Key: order-1'.*replayed/)
  assert.deepEqual([await pay(url, 'order-1'), await pay(url, 'order-1')], ['executed', 'replayed'])
  onceway.process.kill('SIGTERM')
  assert.deepEqual([await onceway.ended, onceway.err], [0, ''])
})

test('SIGINT ends it too, and two signals at once are one wish', async (t) => {
  const onceway = new Onceway(t, ['serve'])
  await onceway.urls()
  // Two different ones: the system merges equal signals that nobody has taken yet.
  onceway.process.kill('SIGINT')
  onceway.process.kill('SIGTERM')
  assert.equal(await onceway.ended, 0)
})

test('a second signal ends it at once with 1', async (t) => {
  const onceway = new Onceway(t, ['serve'], { ONCEWAY_DRAIN_DELAY: '60s' })
  const { adminUrl } = await onceway.urls()
  onceway.process.kill('SIGTERM')
  while ((await fetch(`${adminUrl}/readyz`)).status !== 503) await wait(10)
  await wait(ANOTHER_WISH_MS)
  onceway.process.kill('SIGTERM')
  assert.equal(await onceway.ended, 1)
  assert.match(onceway.err, /SIGTERM again: ending at once/)
})

test('a broken configuration is exit 2 with every mistake, and nothing listens', async (t) => {
  const onceway = new Onceway(t, ['serve', '--config', fileIn(t, 'onceway.yaml', 'version: 2\nlisen: {}\n')])
  assert.equal(await onceway.ended, 2)
  assert.match(onceway.err, /onceway\.yaml:1:10: version: \d+ must be 1\n.*onceway\.yaml:2:1: lisen: is not known/)
  assert.match(onceway.err, /upstreams: is missing\n.*routes: is missing/)
  assert.ok(!onceway.out.includes('listens'))
})

test('an upstream that is no URL is exit 2', async (t) => {
  const onceway = new Onceway(t, ['serve', '--upstream', 'localhost:3000'])
  assert.equal(await onceway.ended, 2)
  assert.match(onceway.err, /--upstream: upstreams\.default\.url: /)
})

test('a port in use is one sentence and exit 1', async (t) => {
  const other = createServer()
  await new Promise<void>((resolve) => { other.listen(0, '127.0.0.1', resolve) })
  t.after(() => { other.close() })
  const { port } = other.address() as AddressInfo
  const onceway = new Onceway(t, ['serve', '--port', String(port)])
  assert.equal(await onceway.ended, 1)
  assert.match(onceway.err, new RegExp(`^onceway: port ${port} .* is in use[^\\n]*\\n$`))
})

test('a data directory that cannot be written is one sentence and exit 1; so is one that another process holds for longer than a drain may last', async (t) => {
  const impossible = new Onceway(t, ['serve', '--data-dir', '/dev/null/records'])
  assert.equal(await impossible.ended, 1)
  assert.match(impossible.err, /^onceway: [^\n]*\/dev\/null[^\n]*\n$/)
  const dataDir = directory(t)
  await new Onceway(t, ['serve', '--data-dir', dataDir]).urls()
  const second = new Onceway(t, ['serve', '--data-dir', dataDir])
  assert.equal(await second.ended, 1)
  assert.match(
    second.err,
    /^onceway: another onceway[^\n]* still serves[^\n]+\nonceway: Another onceway serves from [^\n]+: end that process first\.[^\n]*\n$/
  )
})

test('migrate prepares the embedded store', async (t) => {
  const onceway = new Onceway(t, ['migrate', '--data-dir', 'records'])
  await onceway.says(/The embedded store under .*records is up to date\./)
  assert.equal(await onceway.ended, 0)
})

test('demo shows six requests and two payments', async (t) => {
  const onceway = new Onceway(t, ['demo'])
  await onceway.says(/201 replayed/)
  await onceway.says(/422 mismatch/)
  await onceway.says(/Requests sent by clients: 6\. Payments made: 2\./)
  onceway.process.stdout?.resume()
  assert.equal(await onceway.ended, 0)
})
