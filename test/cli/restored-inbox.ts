/** Messages in every state, as a backup has them, and how they must stand after the new epoch has begun. */
import assert from 'node:assert/strict'
import { EPOCH_ATTEMPTS } from '../../src/core/record/epoch.ts'
import type { Delivery, Fate, NewMessage } from '../../src/core/inbox/message.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import { messageOf } from './world.ts'

const [BEFORE, SINCE] = [Buffer.alloc(16, 1), Buffer.alloc(16, 2)]
const LEASE_MS = 1_000
const GROUP = Buffer.alloc(32, 3)
const AGAIN: Fate = { kind: 'again', inMs: 0, status: 503, error: 'HTTP_503' }
const DEAD: Fate = { kind: 'dead', status: 410, error: 'GONE', answer: null }
const DELIVERED: Fate = { kind: 'delivered', status: 204, answer: null }

const HOLDING: Partial<NewMessage> = { holds: true, stops: true, group: GROUP }

export async function leaveMessages (inbox: InboxStore): Promise<void> {
  await inbox.alive(BEFORE, LEASE_MS)
  for (const [key, fate] of [['delivered', DELIVERED], ['dead', DEAD], ['failed once', AGAIN], ['under way', null]] as const) {
    await inbox.accept(messageOf(key))
    const delivery = await next(inbox, BEFORE, key)
    if (fate !== null) await inbox.settle(delivery.token, fate)
  }
  await inbox.accept(messageOf('never tried'))
  await inbox.accept(messageOf('must not be sent twice', HOLDING))
  await inbox.accept(messageOf('behind it', HOLDING))
}

/** From before and after a change of the route's `unknown`. */
export async function leaveGroup (inbox: InboxStore): Promise<void> {
  await inbox.accept(messageOf('held', { holds: true, group: GROUP }))
  await inbox.accept(messageOf('goes on', { group: GROUP }))
}

export async function assertGroupGoesOn (inbox: InboxStore): Promise<void> {
  assert.equal((await inbox.look(messageOf('held').id))?.state, 'held')
  await inbox.recover(100)
  await inbox.alive(SINCE, LEASE_MS)
  await next(inbox, SINCE, 'goes on')
}

/** What is due goes back to where it was, but for the one that is wanted. */
async function next (inbox: InboxStore, owner: Buffer, key: string): Promise<Delivery> {
  const taken = await inbox.take({ owner, routes: [{ route: 'hooks', places: 10 }] })
  const wanted = taken.find(({ token }) => token.id.equals(messageOf(key).id))
  for (const { token } of taken.filter((delivery) => delivery !== wanted)) await inbox.settle(token, AGAIN)
  assert.ok(wanted, key)
  return wanted
}

export async function assertRestored (inbox: InboxStore): Promise<void> {
  const stands = async (key: string) => {
    const found = await inbox.look(messageOf(key).id)
    return [found?.state, found?.error]
  }
  assert.deepEqual(await stands('delivered'), ['delivered', null])
  assert.deepEqual(await stands('dead'), ['dead', 'GONE'])
  for (const key of ['must not be sent twice', 'behind it']) assert.deepEqual(await stands(key), ['held', 'BACKUP_RESTORED'], key)

  await inbox.recover(100)
  await inbox.alive(SINCE, LEASE_MS)
  const taken = await inbox.take({ owner: SINCE, routes: [{ route: 'hooks', places: 10 }] })
  const names = new Map(['failed once', 'under way', 'never tried'].map((key) => [messageOf(key).id.toString('hex'), key]))
  assert.deepEqual(taken.map(({ token }) => names.get(token.id.toString('hex'))).sort(), ['failed once', 'never tried', 'under way'])
  for (const { token, tries } of taken) {
    assert.ok(token.attempt > EPOCH_ATTEMPTS, 'a number that was given since the backup never comes again')
    assert.ok(tries <= 3, 'its patience is what it was')
  }

  await inbox.retry({ id: messageOf('dead').id, limit: 1 }, { who: 'ada', why: 'it is mended' })
  assert.ok((await next(inbox, SINCE, 'dead')).token.attempt > EPOCH_ATTEMPTS, 'nor does that of one that an operator has delivered since')
}
