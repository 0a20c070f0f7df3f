/** Members of Patroni that answer, are away, or say something else. test/ha has real ones. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, test } from 'node:test'
import { PatroniReader } from '../../../src/store/postgres/patroni.ts'
import { freePort } from '../../harness/ports.ts'

const members: Server[] = []
afterEach(() => {
  for (const member of members.splice(0)) {
    member.closeAllConnections()
    member.close()
  }
})

interface Member { readonly url: string, readonly asked: string[], says: { status: number, body: string } | null }

/** `says` null: it takes the request and never answers, as a frozen machine does. */
async function start (says: Member['says'] = null): Promise<Member> {
  const server = createServer(({ url = '' }, response) => {
    member.asked.push(url)
    if (member.says !== null) response.writeHead(member.says.status, { 'Content-Type': 'application/json' }).end(member.says.body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  members.push(server)
  const member: Member = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked: [], says }
  return member
}

const config = (settings: object): Member['says'] => ({ status: 200, body: JSON.stringify({ ttl: 30, ...settings }) })

describe('what Patroni is told about failovers', () => {
  test('is read as Patroni reads it, and off where it is not set', async () => {
    const member = await start()
    const reader = new PatroniReader([member.url])
    const cases: ReadonlyArray<readonly [object, readonly [boolean, boolean]]> = [
      [{ synchronous_mode: true, synchronous_mode_strict: true }, [true, true]],
      [{ synchronous_mode: 'on', synchronous_mode_strict: 'yes' }, [true, true]],
      [{ synchronous_mode: 'quorum' }, [true, false]],
      [{ synchronous_mode: false, synchronous_mode_strict: true }, [false, true]],
      [{ synchronous_mode: 'off', synchronous_mode_strict: null }, [false, false]],
      [{}, [false, false]]
    ]
    for (const [settings, [synchronous, strict]] of cases) {
      member.says = config(settings)
      assert.deepEqual(await reader.read(), { synchronous, strict }, JSON.stringify(settings))
    }
    assert.deepEqual(new Set(member.asked), new Set(['/config']))
  })

  test('is asked of all others at once if the first is away, frozen or no Patroni, and of the one that answers alone from then on', async () => {
    const [frozen, other] = [await start(), await start({ status: 200, body: '<html>' })]
    const [refuses, good] = [await start({ status: 503, body: '{}' }), await start(config({ synchronous_mode: true }))]
    const away = `http://127.0.0.1:${await freePort()}`
    for (const first of [away, frozen.url, other.url, refuses.url]) {
      const reader = new PatroniReader([...new Set([first, away, frozen.url, other.url, refuses.url, good.url])])
      assert.deepEqual(await reader.read(), { synchronous: true, strict: false }, first)
    }
    const reader = new PatroniReader([away, frozen.url, good.url])
    const before = good.asked.length
    for (let turn = 0; turn < 3; turn++) await reader.read()
    assert.equal(good.asked.length, before + 3)
    assert.ok(frozen.asked.length <= 5, 'once for each reader')
  })

  test('stays as it was while nobody answers, and is unknown before', async () => {
    const member = await start({ status: 500, body: '' })
    const reader = new PatroniReader([member.url])
    assert.equal(await reader.read(), null)
    member.says = config({ synchronous_mode: true, synchronous_mode_strict: true })
    await reader.read()
    member.says = { status: 200, body: JSON.stringify({ synchronous_mode: false, padding: 'x'.repeat(300_000) }) }
    assert.deepEqual(await reader.read(), { synchronous: true, strict: true }, 'a configuration of 300 kB is none')
    assert.deepEqual(reader.last, { synchronous: true, strict: true })
  })
})
