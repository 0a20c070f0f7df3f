/**
 * The upstream, and the consumer: it keeps book of everything that reaches it, and answers each key as the stories say; where
 * they say nothing, with a body of its own for each execution, which only a replay can repeat.
 */
import { startWitness } from '../harness/witness.ts'
import type { Behaviour, Witness } from '../harness/witness.ts'
import { LOOKUP_PATH } from './config.ts'

export interface Entry {
  readonly key: string
  readonly record: string
  readonly attempt: number
  readonly target: string
  readonly body: string
  readonly atMs: number
  /** What was answered; null: nothing yet, or nothing at all. */
  status: number | null
}

/** Long enough that some are under way whenever something happens. */
const USUAL_MS = 15

export const usual: Behaviour = (_seen, response, _socket, count) => {
  setTimeout(() => {
    response.writeHead(201, {
      'Content-Type': 'application/json',
      Location: `/things/${count}`,
      Link: ['</a>', '</b>'],
      'X-Custom': 'kept'
    })
    response.end(JSON.stringify({ execution: count, bytes: 'ÿ' }))
  }, USUAL_MS)
}

/** As usual, when it is opened. */
export function held (until: Promise<void>): Behaviour {
  return async (...args) => {
    await until
    await usual(...args)
  }
}

/** Takes it and breaks off. */
export const lost: Behaviour = (_seen, _response, socket) => { socket.destroy() }
/** Takes it and says nothing for as long as its gateway lives. */
export const silent: Behaviour = () => {}

export function saying (status: number, fields: Readonly<Record<string, string>> = {}): Behaviour {
  return (_seen, response, _socket, count) => {
    response.writeHead(status, { 'Content-Type': 'text/plain', ...fields }).end(`${status} of execution ${count}`)
  }
}

export class Book {
  readonly entries: Entry[] = []
  /** By key; changed as the stories go on. */
  readonly manners = new Map<string, Behaviour>()
  /** Records that it was asked about: it cannot say the first time. */
  readonly #askedAbout = new Set<string>()
  readonly #byKey = new Map<string, Entry[]>()
  /** When each key was first asked with. */
  readonly bornAtMs = new Map<string, number>()
  readonly #witness: Witness

  static async open (): Promise<Book> {
    const book: { opened: Book | null } = { opened: null }
    const witness = await startWitness((...args) => book.opened?.answer(...args))
    return (book.opened = new Book(witness))
  }

  private constructor (witness: Witness) {
    this.#witness = witness
  }

  get url (): string { return this.#witness.url }

  of (key: string): readonly Entry[] {
    return this.#byKey.get(key) ?? []
  }

  note (key: string | null): void {
    if (key !== null && !this.bornAtMs.has(key)) this.bornAtMs.set(key, Date.now())
  }

  async close (): Promise<void> {
    await this.#witness.close()
  }

  readonly answer: Behaviour = async (seen, response, socket) => {
    // The book is kept here; the witness's own would grow for as long as the load runs.
    this.#witness.seen.length = 0
    if (seen.target.startsWith(LOOKUP_PATH)) {
      const isKnown = this.#askedAbout.has(seen.target)
      this.#askedAbout.add(seen.target)
      response.writeHead(isKnown ? 200 : 500, { 'Content-Type': 'application/json' }).end(isKnown ? '{"found":true}' : '')
      return
    }
    const field = (name: string): string => String(seen.headers[name] ?? '')
    const key = field('idempotency-key')
    const entry: Entry = {
      key,
      record: field('onceway-key'),
      attempt: Number(field('idempotency-attempt')),
      target: seen.target,
      body: seen.body.toString(),
      atMs: Date.now(),
      status: null
    }
    this.entries.push(entry)
    this.#byKey.set(key, [...this.of(key), entry])
    response.on('finish', () => { entry.status = response.statusCode })
    await (this.manners.get(key) ?? usual)(seen, response, socket, this.entries.length)
  }
}
