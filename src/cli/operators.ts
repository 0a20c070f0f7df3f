/**
 * The operations of operators (operator/operations.ts) as commands call them: on the configured stores, or with `--admin-url` at a gateway.
 * Both do the same, and are told the same.
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Config } from '../config/config.ts'
import { storeText } from '../config/derived.ts'
import type { OperationContext } from '../operator/context.ts'
import { OPERATIONS } from '../operator/operations.ts'
import type { AnswerOf, InputOf, Operation, OperationName } from '../operator/operations.ts'
import { mistakeIn } from '../operator/shared/mistakes.ts'
import { OPERATOR_PROBLEMS, OperatorProblem } from '../operator/shared/problem.ts'
import type { OperatorProblemCode, Outcome, ProblemMembers } from '../operator/shared/problem.ts'
import { causeOf, StartError } from '../ports/errors.ts'
import type { LockStore } from '../ports/locks.ts'
import { commandExplaining } from '../process/explaining.ts'
import { openStores } from '../process/operator-stores.ts'
import type { OpenStores } from '../process/operator-stores.ts'
import { adminRequest, clientTls, TLS_HELP, TLS_OPTIONS } from './admin-request.ts'
import type { AdminAnswer, ClientTls } from './admin-request.ts'
import { configFor, textOption, userName } from './command.ts'
import type { Options, Terminal } from './command.ts'

export interface Operators {
  /** What is asked, for messages: a store, or a gateway. */
  readonly where: string
  readonly call: <Name extends OperationName>(name: Name, input: Partial<InputOf<Name>>) => Promise<Outcome<AnswerOf<Name>>>
  /** Where the command clears the copies of a deleted record. null: the gateway does. */
  readonly locks: LockStore | null
  readonly close: () => Promise<void>
}

/** Opens the stores of a configuration. Tests have their own. */
export type OpenFor = (config: Config) => Promise<OpenStores>

/** The options that {@link openOperators} reads, besides those of the configuration. */
export const REMOTE_OPTIONS = { 'admin-url': { type: 'string' }, 'token-file': { type: 'string' }, ...TLS_OPTIONS } as const

export const REMOTE_HELP = `  --admin-url URL  ask the operator API of a gateway, not the stores: needs a token, and writes its name into the audit
  --token-file F   file with that token (default: the environment's ONCEWAY_ADMIN_TOKEN)
${TLS_HELP}`

/** @throws StartError or StoreUnavailable */
export async function openOperators (options: Options, { env }: Terminal, open: OpenFor = openStores): Promise<Operators> {
  const url = textOption(options, 'admin-url')
  return url === undefined ? onStores(configFor(options, env), options, open) : atGateway(url, tokenFrom(options, env), options)
}

async function onStores (config: Config, options: Options, open: OpenFor): Promise<Operators> {
  for (const name of Object.keys(REMOTE_OPTIONS)) {
    if (textOption(options, name) !== undefined) throw new StartError(`--${name} is for --admin-url.`, 2)
  }
  const stores = await open(config)
  const context: OperationContext = {
    config,
    stores,
    gateway: null,
    explaining: commandExplaining(config),
    signingKey: randomBytes(KEY_BYTES),
    deleted: () => {}
  }
  return {
    where: storeText(config),
    locks: stores.locks,
    call: async (name, input) => {
      const operation = OPERATIONS[name] as unknown as Operation
      const needsName = operation.role === 'operator'
      const identity = { name: needsName ? textOption(options, 'who') ?? userName() : '', via: 'cli', role: 'admin' } as const
      const whole = { params: {}, query: {}, body: {}, ...input as AnyInput } as Parameters<Operation['run']>[2]
      return mistakeIn(operation, whole) ?? await operation.run(context, identity, whole) as Outcome<AnswerOf<typeof name>>
    },
    close: () => stores.close()
  }
}

/** Nothing that is signed here outlives the command. */
const KEY_BYTES = 32

// ---------------------------------------------------------------- at a gateway

/** A search takes two seconds, a change of a locked row some more. */
const WITHIN_MS = 30_000
const TOKEN_BYTES_MAX = 4 * 1024

function tokenFrom (options: Options, env: Terminal['env']): string {
  const file = textOption(options, 'token-file')
  const token = (file === undefined ? env.ONCEWAY_ADMIN_TOKEN : readToken(file))?.trim() ?? ''
  if (token === '') throw new StartError('--admin-url needs a token: --token-file FILE, or ONCEWAY_ADMIN_TOKEN in the environment.', 2)
  return token
}

function readToken (file: string): string {
  try {
    return readFileSync(file).subarray(0, TOKEN_BYTES_MAX).toString('utf8')
  } catch (error) {
    throw new StartError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'}).`, 2, error)
  }
}

function atGateway (address: string, token: string, options: Options): Operators {
  const base = URL.parse(address)
  if (base === null || !/^https?:$/.test(base.protocol) || base.username !== '') {
    throw new StartError('--admin-url must be the address of an admin port: http://127.0.0.1:8081.', 2)
  }
  for (const name of ['config', 'data-dir', 'who']) {
    if (textOption(options, name) !== undefined) {
      throw new StartError(
      `--${name} is not for --admin-url: the gateway knows its stores, and the token's name goes into the audit.`,
      2
      )
    }
  }
  const access = { token, tls: clientTls(options) }
  return {
    where: `the gateway at ${base.origin}`,
    locks: null,
    call: async (name, input) => ask(
      base,
      access,
      OPERATIONS[name] as unknown as Operation,
      input
    ) as Promise<Outcome<AnswerOf<typeof name>>>,
    close: () => Promise.resolve()
  }
}

interface AnyInput { readonly params?: object, readonly query?: object, readonly body?: object }

/** What a gateway asks of a command. */
interface Access { readonly token: string, readonly tls: ClientTls }

async function ask (
  base: URL,
  { token, tls }: Access,
  { method, path, query: known }: Operation,
  { params = {}, query = {}, body = {} }: AnyInput
): Promise<unknown> {
  const values = params as Readonly<Record<string, string>>
  const url = new URL(
    `${base.pathname.replace(/(?:\/api\/v1)?\/?$/, '')}/api/v1${path.replaceAll(/\{(\w+)\}/g, (_all, name: string) => encodeURIComponent(values[name] ?? ''))}`,
    base
  )
  for (const [name, value] of Object.entries(query)) {
    if (
      name in known.properties && value !== undefined
    ) url.searchParams.set(name, String(value))
  }
  const { status, type, text } = await answerFrom(base, adminRequest(url, {
    method,
    withinMs: WITHIN_MS,
    tls,
    headers: { authorization: `Bearer ${token}`, ...(method === 'POST' && { 'content-type': 'application/json' }) },
    ...(method === 'POST' && { body: JSON.stringify(body) })
  }))
  const answer = parsed(text)
  if (answer === undefined) {
    throw new StartError(`The server at ${base.origin} does not answer as an operator API would: status ${status}, ${type}.`)
  }
  return status >= HTTP_OK && status < HTTP_REDIRECTED ? answer : problemOf(answer, status, base)
}

const HTTP_OK = 200
const HTTP_REDIRECTED = 300

async function answerFrom (base: URL, asking: Promise<AdminAnswer>): Promise<AdminAnswer> {
  try {
    return await asking
  } catch (error) {
    throw new StartError(`There is no answer from the gateway at ${base.origin} (${causeOf(error)}).`, 1, error)
  }
}

/** undefined: it is no JSON. */
function parsed (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function problemOf (answer: unknown, status: number, base: URL): OperatorProblem {
  const { code, detail, type: _type, title: _title, status: _status, ...members } = (answer ?? {}) as Readonly<Record<string, unknown>>
  if (typeof code !== 'string' || !(code in OPERATOR_PROBLEMS)) {
    throw new StartError(`The gateway at ${base.origin} has no operator API (status ${status}): set admin.auth or admin.token there.`)
  }
  return new OperatorProblem(code as OperatorProblemCode, String(detail), members as ProblemMembers)
}

// ---------------------------------------------------------------- what commands do with a problem

const MISTAKES: ReadonlySet<string> = new Set(['bad-request', 'unusual-answer', 'content-too-large'])

/** A mistake in what was typed is exit 2, everything else exit 1. */
export function must<Value> (outcome: Outcome<Value>): Value {
  if (!(outcome instanceof OperatorProblem)) return outcome
  throw new StartError(outcome.detail, MISTAKES.has(outcome.code) ? 2 : 1)
}

/** Rows of a page of the API. */
const PAGE_MAX = 500

/** Page by page up to a limit. `notes`: what was not searched. `isCut`: there may be more. */
export async function listed<Row> (
  limit: number,
  page: (query: { readonly limit: number, readonly cursor?: string }) => Promise<{
    readonly rows: readonly Row[],
    readonly next: string | null,
    readonly notes: readonly string[]
  }>
): Promise<{ readonly rows: Row[], readonly notes: string[], readonly isCut: boolean }> {
  const rows: Row[] = []
  const notes = new Set<string>()
  for (let cursor: string | undefined; ;) {
    const found = await page({ limit: Math.min(PAGE_MAX, limit - rows.length), ...(cursor !== undefined && { cursor }) })
    rows.push(...found.rows)
    if (found.next === null || rows.length >= limit) {
      found.notes.forEach((note) => notes.add(note))
      return { rows, notes: [...notes], isCut: rows.length >= limit }
    }
    cursor = found.next
  }
}
