/**
 * Upgrades from the release before, as operators do them: one gateway after the other, under load, with records, messages
 * and marks in every state; and back, where the migrations say that it may be gone back.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { startServers } from '../e2e/world.ts'
import type { Servers } from '../e2e/world.ts'
import { needs } from '../harness/needs.ts'
import { assertForgottenClaimsNothing } from './forgotten.ts'
import { play } from './play.ts'
import type { Killed } from './play.ts'
import { mayGoBack, releaseBefore, TREE } from './release.ts'
import type { Release } from './release.ts'
import type { Stores } from './world.ts'

/**
 * Those on Postgres at once: most of an upgrade is waiting for drains and leases. The embedded store's alone: its one gateway is started
 * often, and beside six others a slow machine starves it.
 */
describe('an upgrade from the release before, and back', () => {
  const earlier = releaseBefore()

  describe('on Postgres', { concurrency: true, ...needs('postgres', 'redis') }, () => {
    let servers: Servers
    before(async () => { servers = await startServers() })
    after(async () => { await servers.stop() })

    test('with Redis: nothing is executed twice, nothing is lost, and no client sees it', async (t) => {
      await assertUpgrades(t, servers, earlier, 'meanwhile')
    })

    test('without Redis: nothing is executed twice, nothing is lost, and no client sees it', async (t) => {
      await assertUpgrades(t, { postgres: servers.postgres, redis: null }, earlier, 'before')
    })

    test('a gateway of the release before that was forgotten when ids were upgraded claims nothing', async (t) => {
      await assertForgottenClaimsNothing(t, servers, earlier)
    })
  })

  test('on the embedded store: nothing is executed twice, nothing is lost, and no client sees it', async (t) => {
    await assertUpgrades(t, { postgres: null, redis: null }, earlier, 'before')
  })
})

async function assertUpgrades (t: TestContext, stores: Stores, earlier: Release, killed: Killed): Promise<void> {
  const back = mayGoBack(earlier, TREE, stores.postgres === null ? 'sqlite' : 'postgres') ? [earlier] : []
  const { findings, counts } = await play(t, { stores, releases: [earlier, TREE, ...back], ids: { release: TREE, killed } })
  t.diagnostic(counts)
  assert.deepEqual(findings, [])
}
