/** The short way to compare a request's carriers with known ones agrees with the long one. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findCarriers, hasSameCarriers } from '../../../src/core/headers/found-carriers.ts'
import { Chance } from '../../simulation/chance.ts'

const NAMES = [
  'Authorization', 'authorization', 'X-Api-Key', 'x_api_key', 'Cookie', 'X-Tenant-Id', 'x_tenant_id', 'X-Request-Id', 'Content-Type', 'Host'
] as const
const VALUES = ['', 'a', 'b', ' a', 'a\t', '\u00a0a'] as const

function headOf (chance: Chance): string[] {
  return Array.from({ length: chance.whole(0, 4) }, () => [chance.one(NAMES), chance.one(VALUES)]).flat()
}

test('a head has the same carriers as another exactly if all lines that are found are the same, in their order', () => {
  let same = 0
  for (let seed = 0; seed < 50_000; seed++) {
    const chance = new Chance(seed, 0)
    const [known, asked] = [headOf(chance), headOf(chance)]
    const { lines, repeated } = findCarriers(known)
    if (repeated !== null) continue
    const found = findCarriers(asked)
    const plain = (all: typeof lines): ReadonlyArray<readonly [string, string]> => all.map(({ name, value }) => [name, value] as const)
    const expected = found.repeated === null && JSON.stringify(plain(found.lines)) === JSON.stringify(plain(lines))
    assert.equal(hasSameCarriers(asked, lines), expected, JSON.stringify({ known, asked }))
    if (expected && lines.length > 0) same++
  }
  assert.ok(same > 100, `${same} with the same carriers`)
})
