/**
 * What a person sees of a run of many files, on a terminal and in a log alike: a line for each file that has ended, a line of
 * what still runs when none has ended for a while, each failure in full, and one line at the end.
 */
import { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import type { run } from 'node:test'
import { spec } from 'node:test/reporters'

interface Event { readonly type: string, readonly data: EventData | undefined }

/** The fields that are read here, of those that the runner's events have. */
interface EventData {
  readonly name?: string
  readonly nesting?: number
  readonly file?: string
  readonly skip?: string | boolean
  readonly todo?: string | boolean
  readonly details?: { readonly passed?: boolean, readonly duration_ms?: number, readonly type?: string, readonly error?: Error }
  readonly counts?: { readonly passed: number, readonly failed: number, readonly cancelled: number }
}

const QUIET_MS_MAX = 15_000
/** Of a failure, as soon as it is known. A difference between two values fits. */
const REASON_LINES = 20
/** Without the tests that pass, the runner's own reporter prints failures and what files print, and nothing else. */
const PRINTED = new Set(['test:fail', 'test:stdout', 'test:stderr'])

export class RunReport {
  readonly #startedAt = performance.now()
  readonly #files: ReadonlySet<string>
  readonly #running = new Map<string, number>()
  /** By what they lack. */
  readonly #skipped = new Map<string, number>()
  #ended = 0
  #tests = 0
  #passed = 0
  #failed = 0
  #spokeAt = performance.now()

  constructor (files: readonly string[]) {
    this.#files = new Set(files)
  }

  /** Resolves when the run has ended. */
  async follow (results: ReturnType<typeof run>): Promise<void> {
    results.on('data', (event: Event) => { this.#take(event) })
    const printed = Readable.from(printable(results)).compose(spec)
    printed.pipe(process.stdout, { end: false })
    const timer = setInterval(() => { this.#sayWhatRuns() }, 1_000)
    try { await finished(printed) } finally { clearInterval(timer) }
  }

  get succeeded (): boolean { return this.#failed === 0 && this.#passed > 0 && this.#ended === this.#files.size }

  /** All of it in one line, for the last line of a log. */
  summary (command: string, servers: string): string {
    const groups = Array.from(this.#skipped).toSorted(([, a], [, b]) => b - a).map(([what, count]) => `${what}: ${count}`)
    const skipped = Array.from(this.#skipped.values()).reduce((sum, count) => sum + count, 0)
    const why = skipped === 0 ? '' : ` (without ${groups.join(', ')})`
    const counts = `${this.#passed} passed, ${this.#failed} failed, ${skipped} skipped${why}`
    return `${command}: ${counts} in ${spoken(performance.now() - this.#startedAt)}. ${servers}`
  }

  #take ({ type, data = {} }: Event): void {
    const { name = '', file, counts } = data
    const isFile = data.nesting === 0 && this.#files.has(name)
    if (type === 'test:dequeue' && isFile) this.#running.set(name, performance.now())
    if (type === 'test:complete' && isFile) this.#endFile(name, data)
    if (type === 'test:complete' && !isFile) this.#count(data)
    if (type !== 'test:summary' || file !== undefined || counts === undefined) return
    this.#passed += counts.passed
    this.#failed += counts.failed + counts.cancelled
  }

  #endFile (name: string, { details = {} }: EventData): void {
    this.#ended++
    this.#running.delete(name)
    const total = String(this.#files.size)
    const number = String(this.#ended).padStart(total.length)
    const failed = details.passed === false ? 'FAILED ' : ''
    this.#say(`${number}/${total} ${failed}${name} ${spoken(details.duration_ms ?? 0)}`)
  }

  #count ({ name, file, skip = false, todo = false, details = {} }: EventData): void {
    if (details.type === 'suite') return
    this.#tests++
    if (skip !== false) {
      const lack = lackOf(skip)
      this.#skipped.set(lack, (this.#skipped.get(lack) ?? 0) + 1)
    }
    if (details.passed === false && todo === false) this.#say(`failed: ${name} (${file})${reasonOf(details.error)}`)
  }

  #sayWhatRuns (): void {
    if (performance.now() - this.#spokeAt < QUIET_MS_MAX || this.#running.size === 0) return
    const running = Array.from(this.#running, ([name, since]) => `${name} (${spoken(performance.now() - since)})`)
    this.#say(`${this.#tests} tests so far; now: ${running.join(', ')}`)
  }

  #say (line: string): void {
    this.#spokeAt = performance.now()
    console.log(line)
  }
}

async function * printable (events: AsyncIterable<Event>): AsyncGenerator<Event> {
  for await (const event of events) if (PRINTED.has(event.type)) yield event
}

/** Known at once, also of a run that is stopped before its end. */
function reasonOf (error: Error | undefined): string {
  const { message } = (error?.cause ?? error ?? {}) as Partial<Error>
  return (message ?? '').split('\n').slice(0, REASON_LINES).map((line) => `\n    ${line}`).join('')
}

/** "needs redis: no redis-server …; needs openssl: …" → "redis and openssl" */
export function lackOf (skip: string | true): string {
  const needs = typeof skip === 'string' ? Array.from(skip.matchAll(/\bneeds (.+?)(?=: |, and |$)/g), ([, need]) => need as string) : []
  return needs.length === 0 ? 'a reason' : needs.join(' and ')
}

/** "0.4 s", "12 s", "4 min 31 s" */
export function spoken (ms: number): string {
  if (ms < 9_950) return `${(ms / 1_000).toFixed(1)} s`
  const seconds = Math.round(ms / 1_000)
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}
