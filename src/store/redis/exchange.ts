/**
 * Commands that are written here as bytes, sent together, and answered by one call. ioredis would make a promise, some closures and a
 * list of arguments for each. It still keeps the connection, the order of the replies and the time limit.
 */
import { Command, type Redis } from 'ioredis'

/** Gets the replies to commands that were sent together. */
export interface Replies {
  /** One for each command, in their order. An Error: Redis has refused the command, or did not answer. Called once. */
  replied: (replies: readonly unknown[]) => void
}

/** Commands as RESP. Texts are ASCII: keys, and what is written here. */
export class CommandBytes {
  readonly #bytes: Buffer
  #at = 0

  /** `bytesMax`: at least as many as are written. */
  constructor (bytesMax: number) {
    this.#bytes = Buffer.allocUnsafe(bytesMax)
  }

  text (text: string): void {
    const written = this.#bytes.write(text, this.#at, 'latin1')
    // A command that is cut would take the next one for its rest.
    if (written !== text.length) throw new RangeError('no room for a command')
    this.#at += written
  }

  bytes (bytes: Buffer): void {
    this.#bytes.set(bytes, this.#at)
    this.#at += bytes.length
  }

  end (): Buffer { return this.#bytes.subarray(0, this.#at) }
}

/** A text as an argument of a command. */
export function argument (text: string): string { return `$${text.length}\r\n${text}\r\n` }

/** A text with a number in it, made anew only for another number. The requests of a route have keys of one length, and one time. */
export class NumberedText {
  readonly #textOf: (number: number) => string
  #number = -1
  #text = ''

  constructor (textOf: (number: number) => string) {
    this.#textOf = textOf
  }

  of (number: number): string {
    if (number !== this.#number) {
      this.#number = number
      this.#text = this.#textOf(number)
    }
    return this.#text
  }
}

/**
 * `bytes`: `count` commands, of which `name` is one. Redis answers each of them, in order. The replies are bytes, numbers, null, or
 * arrays of these.
 */
export function exchange (client: Redis, name: string, bytes: Buffer, count: number, replies: Replies): void {
  const commands = IDLE.pop() ?? new Commands()
  commands.begin(name, bytes, count, replies)
  client.sendCommand(commands)
  // Each reply needs a place in the queue. The bytes are sent already.
  for (let sent = 1; sent < count; sent++) client.sendCommand(commands, SENT)
}

/** What is sent in one tick goes out in one write, whichever lane sends it. A write costs more than what it carries. */
export class EndOfTick {
  readonly #client: () => Redis
  #sends: Array<() => void> = []
  readonly #run = () => { this.#sendAll() }

  constructor (client: () => Redis) {
    this.#client = client
  }

  readonly schedule = (send: () => void): void => { if (this.#sends.push(send) === 1) setImmediate(this.#run) }

  #sendAll (): void {
    const sends = this.#sends
    this.#sends = []
    const { stream } = this.#client()
    if (sends.length === 1) return sends[0]?.()
    stream?.cork()
    try {
      for (const send of sends) send()
    } finally {
      stream?.uncork()
    }
  }
}

type Stream = NonNullable<Parameters<Redis['sendCommand']>[1]>

const SENT = { write: () => true } as unknown as Stream
const NOTHING = Buffer.alloc(0)

/** One object for all commands of an exchange, and for one exchange after the other: ioredis makes a promise for each object. */
class Commands extends Command {
  #bytes: Buffer = NOTHING
  #count = 0
  #replies: unknown[] = []
  #receiver: Replies | null = null
  #timer: NodeJS.Timeout | undefined

  constructor () {
    super('', [], { replyEncoding: null })
    // Nothing waits for its promise, which is never settled.
    this.isTraced = true
    this.resolve = (reply: unknown) => { this.#take(reply) }
    this.reject = (error) => { this.#take(error) }
  }

  begin (name: string, bytes: Buffer, count: number, receiver: Replies): void {
    this.name = name
    this.isSettled = false
    this.#bytes = bytes
    this.#count = count
    this.#replies = []
    this.#receiver = receiver
  }

  override toWritable (): Buffer { return this.#bytes }

  /** Called with each of the commands. They have one time limit. */
  override setTimeout (ms: number): void { this.#timer ??= setTimeout(timeOut, ms, this) }

  timedOut (): void {
    const error = new Error('Command timed out')
    const replies = this.#replies
    while (replies.length < this.#count) replies.push(error)
    this.#end()?.replied(replies)
  }

  #end (): Replies | null {
    const receiver = this.#receiver
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.isSettled = true
    this.#bytes = NOTHING
    this.#receiver = null
    return receiver
  }

  #take (reply: unknown): void {
    // What comes after the time limit is nobody's any more.
    if (this.isSettled) return
    const replies = this.#replies
    if (replies.push(reply) < this.#count) return
    const receiver = this.#end()
    // No reply to it is under way.
    IDLE.push(this)
    receiver?.replied(replies)
  }
}

/** As many as were ever in flight at once. */
const IDLE: Commands[] = []

function timeOut (commands: Commands): void { commands.timedOut() }
