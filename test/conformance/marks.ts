/**
 * The suite that every MarkStore driver passes: `markStoreConformance` for stores with a mark per event, `filterConformance` for Bloom
 * filters. A driver's test gives `open`, which registers the store's closing with `t.after`. Real time passes unless the world can move the
 * store's clock. The suite polls, and never waits for a fixed time.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import { filterSchemes, markSchemes } from './mark-schemes.ts'
import { endingOf, markingOf, newId, newToken } from './mark-world.ts'
import type { FilterOptions, FilterWorld, OpenFilter, OpenMarks } from './mark-world.ts'
import { until } from './record-world.ts'

const LONG_MS = 600_000
const SHORT_MS = 150
const RIVALS = 50

export function markStoreConformance (name: string, open: OpenMarks): void {
  describe(`${name}: schemes of marks`, () => { markSchemes(open) })
  describe(`${name}: marks`, () => {
    test('the first marks, others see that it runs, then that it is done', async (t) => {
      const { store, second = store } = await open(t)
      const [id, token] = [newId(), newToken()]
      assert.equal(await store.mark(markingOf(id, token, 'running', LONG_MS)), 'marked')
      assert.equal(await second.mark(markingOf(id, newToken(), 'running', LONG_MS)), 'running')
      await store.done(endingOf(id, token, LONG_MS))
      assert.equal(await second.mark(markingOf(id, newToken(), 'running', LONG_MS)), 'done')
      assert.equal(await second.mark(markingOf(newId(), newToken(), 'running', LONG_MS)), 'marked', 'another event')
    })

    test('of fifty who mark at the same moment exactly one has it', async (t) => {
      const { store, second = store } = await open(t)
      const id = newId()
      const found = await Promise.all(Array.from(
        { length: RIVALS },
        (_, index) => (index % 2 === 0 ? store : second).mark(markingOf(id, newToken(), 'running', LONG_MS))
      ))
      assert.deepEqual(found.sort(), ['marked', ...Array.from({ length: RIVALS - 1 }, () => 'running')])
    })

    test('many events at once are each their own', async (t) => {
      const { store } = await open(t)
      const found = await Promise.all(Array.from({ length: RIVALS }, () => store.mark(markingOf(newId(), newToken(), 'running', LONG_MS))))
      assert.deepEqual(new Set(found), new Set(['marked']))
    })

    test('who asks again under its own token has it still: the reply was lost', async (t) => {
      const { store, second = store } = await open(t)
      const [running, done, token] = [newId(), newId(), newToken()]
      await store.mark(markingOf(running, token, 'running', LONG_MS))
      assert.equal(await second.mark(markingOf(running, token, 'running', LONG_MS)), 'marked')
      await store.mark(markingOf(done, token, 'done', LONG_MS))
      assert.equal(await second.mark(markingOf(done, token, 'done', LONG_MS)), 'marked')
      assert.equal(await second.mark(markingOf(done, newToken(), 'done', LONG_MS)), 'done')
    })

    test('a mark that comes late makes nothing run again that is done', async (t) => {
      const { store, second = store } = await open(t)
      const [id, token] = [newId(), newToken()]
      await store.mark(markingOf(id, token, 'running', LONG_MS))
      await store.done(endingOf(id, token, LONG_MS))
      await second.mark(markingOf(id, token, 'running', LONG_MS))
      assert.equal(await second.mark(markingOf(id, newToken(), 'running', LONG_MS)), 'done')
    })

    test('a removed mark is free at once, and only its own token removes it', async (t) => {
      const { store, second = store } = await open(t)
      const [id, token, next] = [newId(), newToken(), newToken()]
      await store.mark(markingOf(id, token, 'running', LONG_MS))
      assert.equal(await second.remove(id, newToken()), true)
      assert.equal(await second.mark(markingOf(id, next, 'running', LONG_MS)), 'running', 'another token removes nothing')
      assert.equal(await store.remove(id, token), true)
      assert.equal(await second.mark(markingOf(id, next, 'running', LONG_MS)), 'marked')
      assert.equal(await store.remove(id, token), true)
      assert.equal(
        await second.mark(markingOf(id, newToken(), 'running', LONG_MS)),
        'running',
        'the next one\'s mark is not the first one\'s to remove'
      )
      assert.equal(await store.remove(newId(), token), true)
    })

    test('what is done is removed by the token under which it was marked, and by no other', async (t) => {
      const { store } = await open(t)
      const [id, token] = [newId(), newToken()]
      await store.mark(markingOf(id, token, 'done', LONG_MS))
      await store.remove(id, newToken())
      assert.equal(await store.mark(markingOf(id, newToken(), 'done', LONG_MS)), 'done')
      await store.remove(id, token)
      assert.equal(await store.mark(markingOf(id, newToken(), 'done', LONG_MS)), 'marked')
    })

    test('that it is done stands whoever says it: after the mark has ended, and over another\'s', async (t) => {
      const { store, second = store } = await open(t)
      const [ended, taken, token, other] = [newId(), newId(), newToken(), newToken()]
      await store.done(endingOf(ended, token, LONG_MS))
      assert.equal(await second.mark(markingOf(ended, other, 'running', LONG_MS)), 'done')
      await second.mark(markingOf(taken, other, 'running', LONG_MS))
      await store.done(endingOf(taken, token, LONG_MS))
      await second.remove(taken, other)
      assert.equal(await second.mark(markingOf(taken, newToken(), 'running', LONG_MS)), 'done')
    })

    test('a mark ends with its time, running or done', async (t) => {
      const { store, advance } = await open(t)
      const [running, done, token] = [newId(), newId(), newToken()]
      await store.mark(markingOf(running, token, 'running', SHORT_MS))
      await store.done(endingOf(done, token, SHORT_MS))
      advance?.(SHORT_MS)
      for (const id of [running, done]) {
        await until(async () => await store.mark(markingOf(id, newToken(), 'running', LONG_MS)) === 'marked', 'the mark to end')
      }
      assert.equal(await store.remove(running, token), true)
      assert.equal(await store.mark(markingOf(running, newToken(), 'running', LONG_MS)), 'running', 'the one that ended removes nothing')
    })
  })
}

export function filterConformance (name: string, open: OpenFilter): void {
  const SMALL: FilterOptions = { capacity: 1_000, errorRate: 0.000001 }

  describe(`${name}: schemes of a filter`, () => { filterSchemes(open) })
  describe(`${name}: a filter`, () => {
    test('knows what is done, nothing that runs, and forgets nothing by hand', async (t) => {
      const { store, second = store } = await open(t, SMALL)
      const [id, token] = [newId(), newToken()]
      assert.equal(await store.mark(markingOf(id, token, 'running', LONG_MS)), 'marked')
      assert.equal(await second.mark(markingOf(id, newToken(), 'running', LONG_MS)), 'marked')
      assert.equal(await store.remove(id, token), false)
      await store.done(endingOf(id, token, LONG_MS))
      assert.equal(await second.mark(markingOf(id, newToken(), 'running', LONG_MS)), 'done')
      assert.equal(await store.remove(id, token), false)
      assert.equal(await second.mark(markingOf(id, newToken(), 'running', LONG_MS)), 'done')
      assert.equal(await store.mark(markingOf(newId(), newToken(), 'running', LONG_MS)), 'marked')
    })

    test('of all that are marked done before they are sent one goes through', async (t) => {
      const { store, second = store } = await open(t, SMALL)
      const id = newId()
      const found = await Promise.all(
        Array.from({ length: RIVALS }, (_, index) => (index % 2 === 0 ? store : second).mark(markingOf(id, newToken(), 'done', LONG_MS)))
      )
      assert.deepEqual(found.sort(), [...Array.from({ length: RIVALS - 1 }, () => 'done'), 'marked'])
    })

    test('remembers through the next window, and no longer than that', async (t) => {
      const { store, nextWindow } = await open(t, SMALL)
      const id = newId()
      await nextWindow(1)
      await store.done(endingOf(id, newToken(), LONG_MS))
      await nextWindow(1)
      assert.equal(await store.mark(markingOf(id, newToken(), 'running', LONG_MS)), 'done')
      await nextWindow(1)
      assert.equal(await store.mark(markingOf(id, newToken(), 'running', LONG_MS)), 'marked')
      await store.done(endingOf(id, newToken(), LONG_MS))
      await nextWindow(2)
      assert.equal(await store.mark(markingOf(id, newToken(), 'running', LONG_MS)), 'marked', 'over a window in which nobody came')
    })
  })
}

/** The same ids in every run: what is measured of them is the same number every time. */
export function seededId (seed: string, number: number): Buffer {
  return createHash('sha256').update(`${seed} ${number}`).digest()
}

/** Fills both filters to their capacity and asks for as many ids that never came: how many were taken for duplicates. */
export async function measuredErrors (
  { store, nextWindow }: FilterWorld,
  { capacity }: FilterOptions,
  seed: string,
  asked: number
): Promise<number> {
  const atOnce = 500
  const all = async (count: number, work: (number: number) => Promise<void>): Promise<void> => {
    for (let at = 0; at < count; at += atOnce) {
      await Promise.all(Array.from({ length: Math.min(atOnce, count - at) }, (_, index) => work(at + index)))
    }
  }
  await nextWindow(1)
  await all(capacity, async (number) => store.done(endingOf(seededId(`${seed} one`, number), Buffer.alloc(16), LONG_MS)))
  await nextWindow(1)
  await all(capacity, async (number) => store.done(endingOf(seededId(`${seed} two`, number), Buffer.alloc(16), LONG_MS)))
  let taken = 0
  await all(asked, async (number) => {
    if (await store.mark(markingOf(seededId(`${seed} new`, number), Buffer.alloc(16), 'running', LONG_MS)) === 'done') taken++
  })
  return taken
}
