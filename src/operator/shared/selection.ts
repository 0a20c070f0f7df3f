/**
 * A selection: what was counted for an operator, as a signed text that the operator sends back with the change. It names the filter and the
 * time of the count, so that nothing that has come since is changed, and who counted. Any gateway with the same key can take the next step.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { causeOf, isOfStore, StoreUnavailable } from '../../ports/errors.ts'
import type { Page, Position } from '../../ports/operator.ts'
import { OPERATOR_PROBLEMS, OperatorProblem, type Outcome } from './problem.ts'

/** More records are changed in several selections, so that each can be looked over. */
export const SELECTION_MAX = 10_000
/** Shown with the count. */
export const SAMPLE_MAX = 10
/** An operator reads the sample, and writes a reason. */
const VALID_MS = 3_600_000
/** Of one step: a second's work. An operator sees how far it is, and can stop. */
export const STEP_ROWS = 25

export interface Selection<Filter> {
  readonly kind: 'records' | 'messages'
  readonly filter: Filter
  /** The store's time of the count, Unix milliseconds. */
  readonly asOfMs: number
  readonly count: number
  /** The name of whoever counted, and looked at the sample. */
  readonly who: string
  /** Its id. Gateways of two databases may have one key. */
  readonly installation: string
}

interface Signed<Filter> extends Selection<Filter> { readonly until: number }

export function tokenOf<Filter> (selection: Selection<Filter>, key: Buffer): { readonly token: string, readonly expiresAtMs: number } {
  const signed: Signed<Filter> = { ...selection, until: selection.asOfMs + VALID_MS }
  const text = Buffer.from(JSON.stringify(signed)).toString('base64url')
  return { token: `${text}.${signatureOf(text, key).toString('base64url')}`, expiresAtMs: signed.until }
}

export function readToken<Filter> (
  token: string,
  kind: Selection<Filter>['kind'],
  key: Buffer,
  { nowMs, who, installation }: Pick<Selection<Filter>, 'who' | 'installation'> & { readonly nowMs: number }
): Outcome<Selection<Filter>> {
  const [text = '', signature = ''] = token.split('.')
  const [given, wanted] = [Buffer.from(signature, 'base64url'), signatureOf(text, key)]
  const invalid = new OperatorProblem('token-invalid', 'The selection was made elsewhere, or is too old. Count again.')
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return invalid
  const signed = JSON.parse(Buffer.from(text, 'base64url').toString('utf8')) as Signed<Filter>
  if (signed.kind !== kind || signed.installation !== installation || signed.until <= nowMs) return invalid
  return signed.who === who
    ? signed
    : new OperatorProblem('token-invalid', 'Another operator counted this selection. Count yourself, and look at the sample.')
}

function signatureOf (text: string, key: Buffer): Buffer {
  return createHmac('sha256', key).update('onceway:selection:1\n').update(text).digest()
}

export interface Counted<Row> { readonly count: number, readonly sample: readonly Row[] }

/** Counts page by page, within the time of one search. */
export async function count<Row> (
  search: (after: Position | null, limit: number, withinMs: number) => Promise<Page<Row>>,
  withinMs: number
): Promise<Outcome<Counted<Row>>> {
  const endsAt = performance.now() + withinMs
  const sample: Row[] = []
  let counted = 0
  for (let after: Position | null = null; ;) {
    const page: Page<Row> = await search(after, COUNT_PAGE, Math.max(0, endsAt - performance.now()))
    counted += page.rows.length
    sample.push(...page.rows.slice(0, SAMPLE_MAX - sample.length))
    if (counted > SELECTION_MAX || !page.isWhole) {
      return new OperatorProblem('too-many', page.isWhole
        ? `More than ${SELECTION_MAX} match. Take a narrower filter, such as a route and a time.`
        : 'What matches could not be counted in time. Take a narrower filter, such as a state and a time.')
    }
    if (page.next === null) return { count: counted, sample }
    after = page.next
  }
}

const COUNT_PAGE = 1_000

/** What became of the rows of one step. */
export interface Changed { readonly changed: number, readonly refused: ReadonlyArray<{ readonly id: string, readonly detail: string }> }

/** Rows that somebody else holds locked take long. What is done by then is told, before whoever waits for the step is told nothing. */
const STEP_MS = 20_000

export interface StepPlace { readonly isFirst: boolean, readonly isLast: boolean }

/**
 * Changes one row after another. A row that has changed meanwhile, that is locked, or for which the change is a mistake, is refused, and
 * the others go on.
 * A mistake in all rows is one in what the operator says, and so is one in the first rows that is of no route: a header that nobody can
 * send. If the store fails, the problem says how many are done.
 */
export async function changeEach<Row extends { readonly id: Buffer }> (
  rows: readonly Row[],
  { isFirst, isLast }: StepPlace,
  change: (row: Row) => Promise<Outcome<unknown>>
): Promise<Outcome<Changed>> {
  const endsAt = performance.now() + STEP_MS
  const problems: Array<{ readonly id: string, readonly problem: OperatorProblem }> = []
  let changed = 0
  let locked = 0
  for (const row of rows) {
    if (performance.now() > endsAt) return brokenOff(changed, `it took longer than ${STEP_MS / MS_PER_SECOND} s`)
    try {
      const done = await change(row)
      if (done instanceof OperatorProblem) problems.push({ id: row.id.toString('base64url'), problem: done })
      else changed++
    } catch (error) {
      if (!isOfStore(error)) throw error
      if (error instanceof StoreUnavailable && error.answered) {
        locked++
        if (locked === rows.length) return brokenOff(changed, `the store cannot be used now: ${causeOf(error)}`)
        problems.push({ id: row.id.toString('base64url'), problem: notNow(error) })
        continue
      }
      const doubt = error instanceof StoreUnavailable && error.inDoubt ? ' One more may have been changed, or may be yet.' : ''
      return brokenOff(changed, `the store cannot be used now: ${causeOf(error)}`, doubt)
    }
  }
  const [first] = problems
  const isAll = isFirst && problems.length === rows.length && problems.every(({ problem }) => isMistake(problem))
  if (isAll && first !== undefined && (isLast || first.problem.code === 'bad-request')) return first.problem
  return { changed, refused: problems.map(({ id, problem }) => ({ id, detail: problem.detail })) }
}

/** The store can be reached and did not do this one: somebody else holds the row locked. Those behind it are not kept waiting for that. */
function notNow (error: StoreUnavailable): OperatorProblem {
  return new OperatorProblem('refused', `The store could not change it now, and nothing of it was changed: ${causeOf(error)}.`)
}

const MS_PER_SECOND = 1_000

/** What was changed does not match the selection any more, so the same step goes on. */
function brokenOff (changed: number, why: string, doubt = ''): OperatorProblem {
  return new OperatorProblem(
    'store-unavailable',
    `This step was broken off after ${changed} ${changed === 1 ? 'change' : 'changes'} (${why}).${doubt} Take the same step again: what is done stays as it is.`,
    { changed }
  )
}

/** In what the operator says: not a state that has changed. */
function isMistake ({ code, status }: OperatorProblem): boolean {
  return status !== OPERATOR_PROBLEMS.refused.status && code !== 'not-found'
}
