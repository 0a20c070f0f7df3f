/**
 * What every MarkStore is held to while one scheme of ids follows another: one event is never marked under two ids. A store in a
 * database asks which scheme claims; another knows by what was marked in it. `switchScheme` is the difference.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Marking, MarkResult } from '../../src/ports/marks.ts'
import { FIRST_SCHEME } from '../../src/core/record/schemes.ts'
import { endingOf, markingOf, newId, newToken } from './mark-world.ts'
import type { FilterOptions, MarkWorld, OpenFilter, OpenMarks } from './mark-world.ts'
import { until } from './record-world.ts'

const NEXT = { scheme: FIRST_SCHEME + 1 } as const
const LONG_MS = 600_000
const SHORT_MS = 150
const RIVALS = 50
const EVENTS = 20

async function switchIn ({ switchScheme }: MarkWorld): Promise<void> {
  await switchScheme?.('2')
}

/** One event: its id, the one that it has by the next scheme, and who marks it by which. */
function event ({ store, second = store }: MarkWorld, keepMs = LONG_MS) {
  const [id, nextId] = [newId(), newId()]
  const under = { ...NEXT, earlierId: id }
  return {
    id,
    nextId,
    under,
    old: async (token = newToken(), as: Marking['as'] = 'running'): Promise<MarkResult> => store.mark(markingOf(id, token, as, keepMs)),
    next: async (token = newToken(), as: Marking['as'] = 'running', forMs = keepMs): Promise<MarkResult> =>
      second.mark(markingOf(nextId, token, as, forMs, under))
  }
}

export function markSchemes (open: OpenMarks): void {
  test('a mark that lives under the earlier id moves one by the next scheme, and nothing is written', async (t) => {
    const world = await open(t)
    const { store } = world
    const [running, done, token] = [event(world), event(world), newToken()]
    assert.equal(await running.old(token), 'marked')
    assert.equal(await done.old(newToken(), 'done'), 'marked')
    await switchIn(world)
    for (const { id, nextId, next } of [running, done]) {
      assert.equal(await next(), 'moved')
      assert.deepEqual([await store.stands(id), await store.stands(nextId)], [true, false])
    }
    assert.deepEqual([await running.old(), await done.old()], ['running', 'done'], 'who is told so asks under that id')
    await store.remove(running.id, token)
    assert.equal(await running.next(), 'marked')
    assert.equal(await done.next(), 'moved')
  })

  test('one that is over does not, and the event is marked under the earlier id no more', async (t) => {
    const world = await open(t)
    const { old, next, id } = event(world, SHORT_MS)
    await old()
    await switchIn(world)
    await until(async () => { world.advance?.(SHORT_MS); return !await world.store.stands(id) }, 'the mark to end')
    assert.equal(await next(newToken(), 'running', LONG_MS), 'marked')
    assert.equal(await old(), 'moved')
    assert.equal(await world.store.stands(id), false)
  })

  test('what is marked by the next scheme has moved to everybody who knows the earlier id alone, and nothing is written', async (t) => {
    const world = await open(t)
    const { store } = world
    await switchIn(world)
    const [running, done] = [event(world), event(world)]
    for (const [each, as] of [[running, 'running'], [done, 'done']] as const) {
      assert.equal(await each.next(newToken(), as), 'marked')
      assert.equal(await each.old(), 'moved')
      assert.deepEqual([await store.stands(each.id), await store.stands(each.nextId)], [false, true])
    }
    assert.deepEqual([await running.next(), await done.next()], ['running', 'done'])
  })

  test('what stands under its own id goes first, whatever stands under the earlier one', async (t) => {
    const world = await open(t)
    const { store } = world
    await switchIn(world)
    const [one, token] = [event(world), newToken()]
    await one.next(token)
    // It has gone through under the earlier id by somebody whose own mark was over.
    await store.done(endingOf(one.id, newToken(), LONG_MS))
    assert.equal(await one.next(), 'running')
    assert.equal(await one.next(token), 'marked', 'the reply was lost')
    await store.done(endingOf(one.nextId, token, LONG_MS, one.under))
    assert.deepEqual([await one.next(), await one.old()], ['done', 'done'])
    await store.remove(one.nextId, token)
    assert.equal(await one.next(), 'moved')
  })

  test('who asks again under the own token has it still, whichever scheme claims meanwhile', async (t) => {
    const world = await open(t)
    const [{ old }, token] = [event(world), newToken()]
    await old(token)
    await switchIn(world)
    await event(world).next()
    assert.equal(await old(token), 'marked')
  })

  test('what is done by the next scheme has moved for as long as it is done', async (t) => {
    const world = await open(t)
    const { store } = world
    await switchIn(world)
    const [one, token] = [event(world), newToken()]
    assert.equal(await one.next(token, 'running', SHORT_MS), 'marked')
    await store.done(endingOf(one.nextId, token, LONG_MS, one.under))
    const other = event(world)
    await other.next(newToken(), 'running', SHORT_MS)
    await until(async () => { world.advance?.(SHORT_MS); return !await store.stands(other.nextId) }, 'what ran as long to end')
    assert.equal(await one.old(), 'moved')
    assert.equal(await one.next(newToken(), 'running', SHORT_MS), 'done', 'nor does a duplicate that ran for less shorten it')
    assert.equal(await one.old(), 'moved')
  })

  test('a mark that was taken back by the next scheme may be made by it again', async (t) => {
    const world = await open(t)
    await switchIn(world)
    const [one, token] = [event(world), newToken()]
    await one.next(token)
    await world.store.remove(one.nextId, token)
    assert.equal(await one.next(), 'marked')
  })

  test('of all that mark one event by either scheme at the same moment exactly one has it', async (t) => {
    const world = await open(t)
    const events = Array.from({ length: EVENTS }, () => event(world))
    const ask = async (): Promise<MarkResult[][]> => Promise.all(events.map(async ({ old, next }, number) =>
      Promise.all(Array.from({ length: RIVALS / EVENTS * 4 }, async (_, index) => (index + number) % 2 === 0 ? old() : next()))))
    const [before] = await Promise.all([ask(), switchIn(world)])
    const after = await ask()
    for (const [index, found] of before.entries()) {
      assert.equal([...found, ...after[index] ?? []].filter((each) => each === 'marked').length, 1, found.join())
    }
  })

  test('an event whose id both schemes make alike is one event', async (t) => {
    const world = await open(t)
    const { store } = world
    await switchIn(world)
    const [id, token] = [newId(), newToken()]
    const marking = (own: Buffer) => markingOf(id, own, 'running', LONG_MS, { ...NEXT, earlierId: id })
    assert.equal(await store.mark(marking(token)), 'marked')
    assert.equal(await store.mark(marking(newToken())), 'running')
    assert.equal(await store.mark(markingOf(id, newToken(), 'running', LONG_MS)), 'running')
    await store.done(endingOf(id, token, LONG_MS, { ...NEXT, earlierId: id }))
    assert.equal(await store.mark(marking(newToken())), 'done')
  })
}

export function filterSchemes (open: OpenFilter): void {
  const SMALL: FilterOptions = { capacity: 1_000, errorRate: 0.000001 }

  test('what is done under either id is done, whoever asks', async (t) => {
    const world = await open(t, SMALL)
    const { store } = world
    const [byOld, byNext] = [event(world), event(world)]
    await store.done(endingOf(byOld.id, newToken(), LONG_MS))
    assert.deepEqual([await store.stands(byOld.id), await store.stands(byOld.nextId)], [true, false])
    assert.equal(await byOld.next(), 'moved')
    assert.equal(await byOld.old(), 'done')
    await store.done(endingOf(byNext.nextId, newToken(), LONG_MS, byNext.under))
    assert.equal(await store.stands(byNext.nextId), true)
    assert.equal(await byNext.next(), 'done')
    assert.notEqual(await byNext.old(), 'marked')
  })

  test('of all that mark one event as done before it is sent, by either scheme, one goes through', async (t) => {
    const world = await open(t, SMALL)
    for (const first of ['old', 'next'] as const) {
      const { old, next } = event(world)
      const asked = Array.from(
        { length: RIVALS },
        async (_, index) => (index % 2 === 0) === (first === 'old') ? old(newToken(), 'done') : next(newToken(), 'done')
      )
      assert.equal((await Promise.all(asked)).filter((found) => found === 'marked').length, 1)
    }
  })

  test('an event whose id both schemes make alike is one event', async (t) => {
    const { store } = await open(t, SMALL)
    const id = newId()
    const marking = () => markingOf(id, newToken(), 'done', LONG_MS, { ...NEXT, earlierId: id })
    assert.deepEqual([await store.mark(marking()), await store.mark(marking())], ['marked', 'done'])
  })
}
