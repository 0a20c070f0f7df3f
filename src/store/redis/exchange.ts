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

/**
 * `bytes`: `count` commands, of which `name` is one. Redis answers each of them, in order. The replies are bytes, numbers, null, or
 * arrays of these.
 */
export function exchange (client: Redis, name: string, bytes: Buffer, count: number, replies: Replies): void {
  const commands = new Commands(name, bytes, count, replies)
  client.sendCommand(commands)
  // Each reply needs a place in the queue. The bytes are sent already.
  for (let sent = 1; sent < count; sent++) client.sendCommand(commands, SENT)
}

type Stream = NonNullable<Parameters<Redis['sendCommand']>[1]>

const SENT = { write: () => true } as unknown as Stream

class Commands extends Command {
  readonly #bytes: Buffer
  readonly #count: number
  readonly #replies: unknown[] = []
  readonly #receiver: Replies
  #timer: NodeJS.Timeout | undefined

  constructor (name: string, bytes: Buffer, count: number, receiver: Replies) {
    super(name, [], { replyEncoding: null })
    this.#bytes = bytes
    this.#count = count
    this.#receiver = receiver
    // Nothing waits for its promise, which is never settled.
    this.isTraced = true
    this.resolve = (reply: unknown) => { this.#take(reply) }
    this.reject = (error) => { this.#take(error) }
  }

  override toWritable (): Buffer { return this.#bytes }

  /** Called with each of the commands. They have one time limit. */
  override setTimeout (ms: number): void { this.#timer ??= setTimeout(timeOut, ms, this) }

  timedOut (): void {
    const error = new Error('Command timed out')
    while (!this.isSettled) this.#take(error)
  }

  /** What comes after the time limit is nobody's any more. */
  #take (reply: unknown): void {
    if (this.isSettled) return
    if (this.#replies.push(reply) < this.#count) return
    this.isSettled = true
    clearTimeout(this.#timer)
    this.#receiver.replied(this.#replies)
  }
}

function timeOut (commands: Commands): void { commands.timedOut() }
