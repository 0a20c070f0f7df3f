/** The command line with a terminal that remembers, and records in an embedded store of its own. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { run } from '../../src/cli/run.ts'
import { keyHash, recordId } from '../../src/core/record/record-id.ts'
import type { NewMessage } from '../../src/core/inbox/message.ts'
import type { Claim, SettledState, Settlement, Token } from '../../src/core/record/record.ts'
import { FIRST_SCHEME } from '../../src/core/record/schemes.ts'
import type { Environment } from '../../src/config/read/interpolate.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import type { RecordStore } from '../../src/ports/records.ts'
import { QUICKEST } from '../harness/directory.ts'

export const LEASE_MS = 1_000

export interface Said { readonly exitCode: number, readonly out: string, readonly err: string }

export function directory (t: TestContext): string {
  const path = mkdtempSync(join(QUICKEST, 'onceway-cli-'))
  t.after(() => { rmSync(path, { recursive: true, force: true }) })
  return path
}

export function fileIn (t: TestContext, name: string, text: string): string {
  const file = join(directory(t), name)
  writeFileSync(file, text)
  return file
}

export async function say (argv: readonly string[], env: Environment = {}): Promise<Said> {
  const lines: { out: string[], err: string[] } = { out: [], err: [] }
  const exitCode = await run(argv, { env, out: (line) => lines.out.push(line), err: (line) => lines.err.push(line) })
  return { exitCode, out: lines.out.join('\n'), err: lines.err.join('\n') }
}

export function claimOf (key: string, quarantineMs = 0): Claim {
  return {
    id: recordId('charges', 'anonymous', key),
    scheme: FIRST_SCHEME,
    earlierId: null,
    owner: Buffer.alloc(16, key),
    fingerprint: { alg: 1, value: Buffer.alloc(32, 7) },
    leaseMs: LEASE_MS,
    unknownKeepMs: 3_600_000,
    quarantineMs,
    question: null,
    about: {
      route: 'charges',
      method: 'POST',
      path: '/v1/charges',
      requestId: `request-${key}`,
      instance: 'gw-1',
      keyHash: keyHash(key),
      keyText: null
    }
  }
}

/** A message that nobody has delivered yet. */
export function messageOf (key: string, changes: Partial<NewMessage> = {}): NewMessage {
  return {
    id: recordId('hooks', 'shared', key),
    scheme: FIRST_SCHEME,
    earlierId: null,
    fingerprint: { alg: 1, value: Buffer.alloc(32, 7) },
    scopeHash: Buffer.alloc(32, 8),
    tenant: null,
    delayMs: 0,
    group: null,
    holds: false,
    stops: false,
    keepMs: 3_600_000,
    deadKeepMs: 3_600_000,
    request: {
      method: 'POST',
      target: '/hooks?token=hunter2',
      headers: ['Authorization', 'hunter2'],
      body: Buffer.from('{"card":"4242"}')
    },
    about: {
      route: 'hooks',
      method: 'POST',
      path: '/hooks',
      requestId: `request-${key}`,
      instance: 'gw-1',
      keyHash: keyHash(key),
      keyText: key
    },
    ...changes
  }
}

/** Two, as configurations have them. */
export const SECRETS = ['the secret that was there before', 'another secret, as good as that'] as const

/** A completed record and a message of this key, as a gateway with this secret leaves them by the scheme of this number. */
export async function keyedIn (
  store: RecordStore & { readonly inbox: InboxStore },
  key: string,
  secret: string | null,
  scheme: number
): Promise<void> {
  const keyed = secret === null ? null : Buffer.from(secret)
  const named = (route: string) => ({ id: recordId(route, 'anonymous', key, keyed), scheme })
  const [claim, message] = [claimOf(key), messageOf(key)]
  await store.insert({ ...claim, ...named('charges'), about: { ...claim.about, keyHash: keyHash(key, keyed) } })
  await store.settle(settlementOf({ ...named('charges'), owner: claim.owner, attempt: 1 }, 'completed'))
  await store.inbox.accept({ ...message, ...named('hooks'), about: { ...message.about, keyHash: keyHash(key, keyed) } })
}

/** A record in this state, as an execution leaves it behind. */
export async function leave (store: RecordStore, key: string, outcome: SettledState | 'claimed', quarantineMs = 0): Promise<Token> {
  const claim = claimOf(key, quarantineMs)
  const token = { id: claim.id, owner: claim.owner, attempt: 1 }
  await store.insert(claim)
  if (outcome !== 'claimed') await store.settle(settlementOf(token, outcome))
  return token
}

function settlementOf (token: Token, outcome: SettledState): Settlement {
  const answered = outcome === 'completed' || outcome === 'consumed'
  return {
    token,
    outcome,
    keepMs: 3_600_000,
    status: answered ? 201 : null,
    headers: outcome === 'completed' ? Buffer.from([1]) : null,
    body: outcome === 'completed' ? Buffer.from('{"card":"4242"}') : null,
    reason: outcome === 'indeterminate' ? { stage: 'during', code: 'ECONNRESET' } : null
  }
}

/** The words that name a record as an operator was shown it. */
export function named ({ id, owner, attempt }: Token): string[] {
  return [id.toString('base64url'), '--owner', owner.toString('hex'), '--attempt', String(attempt)]
}
