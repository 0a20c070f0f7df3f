/** Upgrades that must not pass: the play finds what is wrong with each, and would find it in the tree. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { startServers } from '../e2e/world.ts'
import type { Servers } from '../e2e/world.ts'
import { needs } from '../harness/needs.ts'
import { play } from './play.ts'
import { mayGoBack, migrationsOf, releaseBefore, spoiledTree, TREE } from './release.ts'

describe('an upgrade is seen to fail', { concurrency: true }, () => {
  const earlier = releaseBefore()

  describe('on Postgres', needs('postgres', 'redis'), () => {
    let servers: Servers
    before(async () => { servers = await startServers() })
    after(async () => { await servers.stop() })

    test('whose migration renames a column under the gateways that still run', async (t) => {
      const later = spoiledTree('a renamed column', [
        ['src/store/postgres', /\bquarantine_ms\b/g, 'patience_ms'],
        [
          'migrations/postgres/9001_renamed.sql',
          null,
          '-- compatible_from: 1\nalter table :schema.records rename column quarantine_ms to patience_ms;\n'
        ]
      ])
      const { findings } = await play(t, { stores: { postgres: servers.postgres, redis: null }, releases: [earlier, later] })
      assert.match(findings.join('\n'), /(a new key|a retry|a duplicate at once) \([^)]*\): 503 \{[^\n]*store-unavailable/)
    })
  })

  const embedded = { postgres: null, redis: null }

  test('that names records otherwise, and forgets what waits: what was executed is executed again, what was accepted is lost', async (t) => {
    const later = spoiledTree('other names', [
      ['src/core/record/record-id.ts', /keyedDigest\(secret, \[route, scope, key\]\)/g, 'keyedDigest(secret, [route, key, scope])'],
      ['migrations/sqlite/9001_forgotten.sql', null, "-- compatible_from: 1\ndelete from messages where state = 'waiting';\n"]
    ])
    const { findings } = await play(t, { stores: embedded, releases: [earlier, later] })
    for (const expected of [
      /a completed record of route hold, 201, under other names/,
      /a retry \([^)]*\): another answer than before|request \S+ was executed 2 times/,
      /a mark that is done \(drop-database\)/,
      /a group that is stopped, [^\n]*404/
    ]) {
      assert.match(findings.join('\n'), expected)
    }
  })

  test('that cannot be gone back from without saying so', async (t) => {
    const later = spoiledTree('no way back', [
      ['src/store/sqlite', /\bquarantine_ms\b/g, 'patience_ms'],
      [
        'migrations/sqlite/9001_renamed.sql',
        null,
        '-- compatible_from: 1\nalter table records rename column quarantine_ms to patience_ms;\n'
      ]
    ])
    const { findings } = await play(t, { stores: embedded, releases: [earlier, later, earlier] })
    assert.match(findings.join('\n'), /(under|replaced by) 81f17ca: 503 [^\n]*store-unavailable/)
  })

  test('a migration says from which release on a build may run beside it, and the play asks no more than it says', () => {
    const later = spoiledTree('only forward', [['migrations/sqlite/9001_forward.sql', null, '-- compatible_from: 9001\nselect 1;\n']])
    assert.equal(mayGoBack(earlier, later, 'sqlite'), false)
    assert.equal(mayGoBack(earlier, later, 'postgres'), mayGoBack(earlier, TREE, 'postgres'))
    for (const store of ['postgres', 'sqlite'] as const) assert.equal(migrationsOf(earlier, store).at(-1)?.number, 7)
  })
})
