/** nginx, HAProxy and `onceway cell-of` send every key, tenant and host to the same cell. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import fc from 'fast-check'
import { cellOf, SLOTS, slotOf } from '../../src/core/cells/cells.ts'
import type { Cells } from '../../src/core/cells/cells.ts'
import { parseKey } from '../../src/core/key/key.ts'
import { needs } from '../harness/needs.ts'
import { freePort } from '../harness/ports.ts'
import { Asker, cellsOf, PROXIES, startOrigin, startRouter } from './cells.ts'

const SAMPLES = 1_500
const SEED = 21
const NAMES = ['a', 'b', 'c']

/** Neighbouring slots belong to different cells, so that every wrong slot shows. */
async function striped (t: TestContext, head: string, more = ''): Promise<string> {
  const cells = await Promise.all(NAMES.map(async (name, at) => {
    const slots = Array.from({ length: SLOTS }, (_, slot) => slot).filter((slot) => slot % NAMES.length === at)
    const { address } = await startOrigin(t, name)
    return `  ${name}: { slots: "${slots.join(',')}", gateways: ["${address}"] }`
  }))
  return `${head}\ncells:\n${cells.join('\n')}\n${more}`
}

interface Asked { readonly value: Buffer, readonly headers: readonly string[], readonly host?: string }

/** Every request through both proxies, compared with the function. */
async function compare (t: TestContext, yaml: string, asked: readonly Asked[]): Promise<void> {
  for (const name of PROXIES) {
    const port = await freePort()
    const cells: Cells = cellsOf(`listen: 127.0.0.1:${port}\n${yaml}`)
    const proxy = await startRouter(name, port, cells)
    t.after(() => proxy.stop())
    const asker = new Asker(port)
    t.after(() => { asker.close() })
    const wrong: string[] = []
    await Promise.all(asked.map(async ({ value, headers, host }) => {
      const { status, body } = await asker.ask(headers, host === undefined ? {} : { host })
      const { cell } = cellOf(cells, value)
      if (status === 200 && body === cell.name) return
      wrong.push(`${name}: ${JSON.stringify(headers)} ${host ?? ''}: ${status} ${body}, not ${cell.name}`)
    }))
    assert.deepEqual(wrong, [])
  }
}

/** What Node's client and both proxies accept in a header's value: printable ASCII, tabs and the bytes from 0x80 on. */
const CHAR = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0x20, max: 0x7e }) },
  { weight: 2, arbitrary: fc.constantFrom(0x22, 0x5c, 0x20, 0x09, 0x2c, 0x3b, 0x3d, 0x24, 0x25) },
  { weight: 1, arbitrary: fc.integer({ min: 0x80, max: 0xff }) }
).map((code) => String.fromCharCode(code))
const ANY = fc.array(CHAR, { maxLength: 40 }).map((chars) => chars.join(''))
const LONG = fc.array(CHAR, { minLength: 200, maxLength: 2_000 }).map((chars) => chars.join(''))
const QUOTED = fc.tuple(ANY, fc.constantFrom('', ' ', ';p=1', '; a="x\\"y"', '  ;b;c=?1'))
  .map(([text, after]) => `"${text.replaceAll(/["\\]/g, '\\$&')}"${after}`)
const VALUE = fc.oneof(
  { weight: 4, arbitrary: fc.uuid() }, { weight: 4, arbitrary: ANY }, { weight: 3, arbitrary: QUOTED }, { weight: 1, arbitrary: LONG }
)
const samples = (values: fc.Arbitrary<string>): string[] => fc.sample(values, { numRuns: SAMPLES, seed: SEED })

/** Keys whose hash is the first or the last of a slot. */
const BESIDE_A_BOUNDARY = [
  'key-826107', 'key-1813953', 'key-6677019', 'key-6771783', 'key-10594029', 'key-12185825',
  'key-4164259', 'key-6450770', 'key-6689280', 'key-10198023', 'key-10246883', 'key-15674030'
]
const ODD = [
  '', ' ', '\t', '"', '""', '"k', '"k\t', '"\t', 'k"', '\\', '"\\', '"\\"', '\xff\xfe', 'k, l', '"a,b"', ',',
  ';', '$host', '{}', 'k'.repeat(4_000)
]

test('every spelling of a key has one slot', () => {
  const key = fc.array(fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)), { minLength: 1, maxLength: 60 })
  fc.assert(fc.property(key, fc.constantFrom('', ';p', ' ;q="\\""'), (chars, parameters) => {
    const text = chars.join('')
    const spellings = [text, ` ${text}\t`, `"${text.replaceAll(/["\\]/g, '\\$&')}"${parameters}`]
    const cells = cellsOf('by: key\ncells: { a: { slots: 0-999, gateways: [] } }')
    const bySlot = new Map<string, number | null>()
    for (const spelling of spellings) {
      const parsed = parseKey(['idempotency-key', spelling], { header: 'idempotency-key', syntax: 'lenient' })
      if (parsed.kind !== 'key') continue
      const { slot } = cellOf(cells, Buffer.from(spelling, 'latin1'))
      assert.equal(slot, bySlot.get(parsed.key) ?? slot, spelling)
      bySlot.set(parsed.key, slot)
    }
  }), { numRuns: 5_000, seed: SEED })
})

test('slots are even for keys as clients draw them', () => {
  const counts = new Array<number>(SLOTS).fill(0)
  for (let number = 0; number < 100_000; number++) {
    const slot = slotOf(Buffer.from(`order-${number}`))
    counts[slot] = (counts[slot] ?? 0) + 1
  }
  assert.ok(Math.min(...counts) > 50 && Math.max(...counts) < 160, `${Math.min(...counts)} to ${Math.max(...counts)}`)
})

describe('both proxies and cell-of agree', needs('nginx', 'haproxy'), () => {
  const lineOf = (name: string) => (value: string): Asked => ({ value: Buffer.from(value, 'latin1'), headers: [name, value] })

  test('on keys: odd bytes, quotation marks, empty, long, in every case of the name', async (t) => {
    await compare(t, await striped(t, 'by: key'), [
      ...[...samples(VALUE), ...BESIDE_A_BOUNDARY, ...ODD].map(lineOf('Idempotency-Key')),
      ...samples(VALUE).slice(0, 50).map(lineOf('iDEMPOTENCY-kEY')),
      { value: Buffer.alloc(0), headers: [] },
      { value: Buffer.from('one'), headers: ['Idempotency-Key', 'one', 'Idempotency-Key', 'two'] },
      { value: Buffer.alloc(0), headers: ['Idempotency-Key', '', 'Idempotency-Key', 'two'] }
    ])
  })

  test('on keys in another header', async (t) => {
    await compare(t, await striped(t, 'by: key\nheader: X-Request-Token'), samples(VALUE).slice(0, 100).map(lineOf('X-Request-Token')))
  })

  test('on tenants: those with a cell of their own, and all others', async (t) => {
    const assigned = { acme: 'c', default: 'b', 'Big.Corp-7@eu:x': 'a', t42: 'b', hostnames: 'c', ...many() }
    const yaml = await striped(t, 'by: tenant\nheader: X-Tenant', `assigned: ${JSON.stringify(assigned)}`)
    const known = Object.keys(assigned).flatMap((name) => [name, name.toUpperCase(), ` ${name}\t`, `${name}x`, `"${name}"`])
    await compare(t, yaml, [
      ...[...samples(VALUE), ...known, ...ODD, ...BESIDE_A_BOUNDARY].map(lineOf('X-Tenant')),
      { value: Buffer.alloc(0), headers: [] },
      { value: Buffer.from('acme'), headers: ['x-tenant', 'acme', 'X-TENANT', 't42'] }
    ])
  })

  test('on hosts: in every case, with a port and with a dot at the end', async (t) => {
    const label = fc.string({ unit: fc.constantFrom(...'abcXYZ019-'), minLength: 1, maxLength: 12 })
    const host = fc.tuple(fc.array(label, { minLength: 1, maxLength: 4 }), fc.constantFrom('', '.', ':80', '.:8443', ':'))
      .map(([labels, after]) => `${labels.join('.')}${after}`)
    const yaml = await striped(t, 'by: host', 'assigned: { api.eu.example.com: c, 10.0.0.1: b }')
    const known = ['API.EU.example.com:443', 'api.eu.example.com.', '10.0.0.1:80', '[::1]:80', '[2001:DB8::1]']
    const hosts = [...samples(host).slice(0, 500), ...known]
    await compare(t, yaml, hosts.map((name) => ({ value: Buffer.from(name), headers: [], host: name })))
  })
})

/** More than a line of HAProxy's holds, and a name as long as one may be. */
function many (): Record<string, string> {
  return {
    ...Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`tenant-${at}`, NAMES[at % NAMES.length] as string])),
    ['t'.repeat(128)]: 'a'
  }
}
